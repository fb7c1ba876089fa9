"""AlterUserScramCredentials (51), version 0."""

from __future__ import annotations

from oncestream.wire.api import ApiKey
from oncestream.wire.schema import Message, Struct, binary, int8, int16, int32, string, structs


class AlterUserScramCredentialsRequest(
    Message, api_key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+"
):
    deletions: list[ScramCredentialDeletion] = structs()
    upsertions: list[ScramCredentialUpsertion] = structs()


class ScramCredentialDeletion(Struct):
    name: str = string()
    mechanism: int = int8()


class ScramCredentialUpsertion(Struct):
    name: str = string()
    mechanism: int = int8()
    iterations: int = int32()
    salt: bytes = binary()
    salted_password: bytes = binary()


class AlterUserScramCredentialsResponse(
    Message, api_key=ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+"
):
    throttle_time_ms: int = int32()
    results: list[AlterUserScramCredentialsResult] = structs()


class AlterUserScramCredentialsResult(Struct):
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
