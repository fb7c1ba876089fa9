"""DescribeUserScramCredentials (50), version 0."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, int8, int16, int32, string, structs


class DescribeUserScramCredentialsRequest(
    Message, api_key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+"
):
    users: list[UserName] | None = structs(nullable="0+")


class UserName(Struct):
    name: str = string()


class DescribeUserScramCredentialsResponse(
    Message, api_key=ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+"
):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = structs()


class DescribeUserScramCredentialsResult(Struct):
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    credential_infos: list[CredentialInfo] = structs()


class CredentialInfo(Struct):
    mechanism: int = int8()
    iterations: int = int32()
