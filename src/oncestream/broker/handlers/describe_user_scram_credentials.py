"""DescribeUserScramCredentials (50), version 0: which users there are, and by which mechanisms they log in.

Differs from Apache Kafka: nothing.
"""

from __future__ import annotations

from collections import Counter

from oncestream.broker.call import Call
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(request: DescribeUserScramCredentialsRequest, call: Call) -> DescribeUserScramCredentialsResponse:
    try:
        call.require(Operation.DESCRIBE, ResourceType.CLUSTER)
    except KafkaError as error:
        return DescribeUserScramCredentialsResponse(error_code=error.code, error_message=error.message)
    infos: dict[str, list[CredentialInfo]] = {}
    for key, credential in call.node.catalog.users.items():
        info = CredentialInfo(mechanism=key.mechanism, iterations=credential.iterations)
        infos.setdefault(key.name, []).append(info)
    named = Counter(user.name for user in request.users) if request.users else dict.fromkeys(infos, 1)
    return DescribeUserScramCredentialsResponse(
        results=[_result(name, count, infos.get(name, [])) for name, count in named.items()]
    )


def _result(name: str, count: int, infos: list[CredentialInfo]) -> DescribeUserScramCredentialsResult:
    if count > 1:
        return DescribeUserScramCredentialsResult(
            user=name,
            error_code=ErrorCode.DUPLICATE_RESOURCE,
            error_message=f"user {name!r} stands in the request more than once",
        )
    if not infos:
        return DescribeUserScramCredentialsResult(
            user=name,
            error_code=ErrorCode.RESOURCE_NOT_FOUND,
            error_message=f"there is no user {name!r}",
        )
    return DescribeUserScramCredentialsResult(user=name, credential_infos=infos)
