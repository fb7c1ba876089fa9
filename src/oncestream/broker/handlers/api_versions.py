"""ApiVersions (18), versions 0-4: which APIs this broker serves, and in which versions.

A version we do not know is answered in version 0 with UNSUPPORTED_VERSION and the whole table.
Differs from Apache Kafka: no features are announced yet.
"""

from __future__ import annotations

import re
from typing import Final

from oncestream.broker.apis import APIS
from oncestream.broker.call import Call
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.\-]*[a-zA-Z0-9])?")


def handle(request: ApiVersionsRequest, call: Call) -> ApiVersionsResponse:
    if call.version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    return ApiVersionsResponse(api_keys=_table())


def unsupported_version() -> ApiVersionsResponse:
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_table())


def _table() -> list[ApiVersion]:
    return [
        ApiVersion(api_key=api.key, min_version=api.version_min, max_version=api.version_max)
        for api in APIS.values()
    ]
