"""UpdateFeatures (57), versions 0-2."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, boolean, int8, int16, int32, string, structs


class UpdateFeaturesRequest(Message, api_key=ApiKey.UPDATE_FEATURES, versions="0-2", flexible="0+"):
    timeout_ms: int = int32(default=60000)
    feature_updates: list[FeatureUpdateKey] = structs()
    validate_only: bool = boolean("1+")


class FeatureUpdateKey(Struct):
    feature: str = string()
    max_version_level: int = int16()
    allow_downgrade: bool = boolean("0")
    upgrade_type: int = int8("1+", default=1)


class UpdateFeaturesResponse(Message, api_key=ApiKey.UPDATE_FEATURES, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    results: list[UpdatableFeatureResult] = structs("0-1")


class UpdatableFeatureResult(Struct):
    feature: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0-1")
