"""ApiVersions (18), versions 0-4."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, boolean, int16, int32, int64, string, structs


class ApiVersionsRequest(Message, api_key=ApiKey.API_VERSIONS, versions="0-4", flexible="3+"):
    client_software_name: str = string("3+")
    client_software_version: str = string("3+")


class ApiVersionsResponse(Message, api_key=ApiKey.API_VERSIONS, versions="0-4", flexible="3+"):
    error_code: int = int16()
    api_keys: list[ApiVersion] = structs()
    throttle_time_ms: int = int32("1+")
    supported_features: list[SupportedFeatureKey] = structs("3+", tag=0)
    finalized_features_epoch: int = int64("3+", default=-1, tag=1)
    finalized_features: list[FinalizedFeatureKey] = structs("3+", tag=2)
    zk_migration_ready: bool = boolean("3+", tag=3)


class ApiVersion(Struct):
    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


class SupportedFeatureKey(Struct):
    name: str = string()
    min_version: int = int16()
    max_version: int = int16()


class FinalizedFeatureKey(Struct):
    name: str = string()
    max_version_level: int = int16()
    min_version_level: int = int16()
