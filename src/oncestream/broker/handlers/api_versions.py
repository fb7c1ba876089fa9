"""ApiVersions (18), versions 0-4: which APIs this broker serves, and in which versions.

A version we do not know is answered in version 0 with UNSUPPORTED_VERSION and the whole table. From version 3 on
it also tells the features: transaction.version 2 makes clients use the newer transactions (KIP-890).
Differs from Apache Kafka: features this broker does not have are not announced.
"""

from __future__ import annotations

import re
from typing import Final

from oncestream.broker.apis import APIS
from oncestream.broker.call import Call
from oncestream.broker.features import SUPPORTED, levels_in_force
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.\-]*[a-zA-Z0-9])?")

_LEVEL_0_SINCE: Final = 4  # older clients take a lowest level of 0 for damage


def handle(request: ApiVersionsRequest, call: Call) -> ApiVersionsResponse:
    if call.version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    response = ApiVersionsResponse(api_keys=_table())
    _tell_features(response, call)
    return response


def unsupported_version() -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_table())


def _tell_features(response: ApiVersionsResponse, call: Call) -> None:
    lowest = 0 if call.version >= _LEVEL_0_SINCE else 1
    catalog = call.node.catalog
    response.supported_features = [
        SupportedFeatureKey(name=name, min_version=max(levels.low, lowest), max_version=levels.high)
        for name, levels in SUPPORTED.items()
    ]
    response.finalized_features = [
        FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
        for name, level in levels_in_force(catalog.features).items()
        if level > 0
    ]
    response.finalized_features_epoch = catalog.log.end_offset


def _table() -> list[ApiVersion]:
    return [
        ApiVersion(api_key=api.key, min_version=api.version_min, max_version=api.version_max)
        for api in APIS.values()
    ]
