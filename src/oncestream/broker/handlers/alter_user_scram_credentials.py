"""AlterUserScramCredentials (51), version 0: set or delete the passwords of users, which come salted and hashed.

As in Apache Kafka, a request names each user once: two mechanisms of one user take two requests.
Differs from Apache Kafka: nothing.
"""

from __future__ import annotations

from typing import Final

from oncestream.broker.call import Call
from oncestream.broker.catalog import Catalog, Change, UserKey, drop_user, put_user
from oncestream.broker.security.scram import ITERATIONS_MAX, ITERATIONS_MIN, Mechanism, credential_of
from oncestream.broker.security.users import commit_users
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

Wanted = ScramCredentialDeletion | ScramCredentialUpsertion

_MECHANISMS: Final = frozenset(map(int, Mechanism))


def handle(request: AlterUserScramCredentialsRequest, call: Call) -> AlterUserScramCredentialsResponse:
    changes: dict[str, Change] = {}
    errors: dict[str, KafkaError] = {}
    everything: list[Wanted] = [*request.deletions, *request.upsertions]
    for wanted in everything:
        name = wanted.name
        try:
            call.require(Operation.ALTER, ResourceType.CLUSTER)
            if changes.pop(name, None) is not None:
                raise KafkaError(ErrorCode.DUPLICATE_RESOURCE, f"user {name!r} stands in the request twice")
            if name not in errors:
                changes[name] = _change(call.node.catalog, wanted)
        except KafkaError as error:
            errors[name] = error
    if changes:
        try:
            commit_users(call.node.catalog, list(changes.values()), call.node.clock.now_ms())
        except KafkaError as error:
            errors |= dict.fromkeys(changes, error)
            changes.clear()
    for name, change in changes.items():
        call.changed(ResourceType.USER, name, "delete password" if change.value is None else "set password")
    refused = [
        AlterUserScramCredentialsResult(user=name, error_code=error.code, error_message=error.message)
        for name, error in errors.items()
    ]
    done = [AlterUserScramCredentialsResult(user=name) for name in changes]
    return AlterUserScramCredentialsResponse(results=done + refused)


def _change(catalog: Catalog, wanted: Wanted) -> Change:
    if not wanted.name:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "the user name is empty")
    if wanted.mechanism not in _MECHANISMS:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"mechanism {wanted.mechanism} is not known")
    mechanism = Mechanism(wanted.mechanism)
    if isinstance(wanted, ScramCredentialDeletion):
        key = UserKey(wanted.name, mechanism)
        if key not in catalog.users:
            raise KafkaError(
                ErrorCode.RESOURCE_NOT_FOUND, f"user {wanted.name!r} has no {mechanism.label} password"
            )
        return drop_user(key)
    if not ITERATIONS_MIN <= wanted.iterations <= ITERATIONS_MAX:
        raise KafkaError(
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            f"{wanted.iterations} iterations (allowed: {ITERATIONS_MIN} to {ITERATIONS_MAX})",
        )
    salted, salt = bytes(wanted.salted_password), bytes(wanted.salt)
    if not salted or not salt:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "the salt or the salted password is empty")
    return put_user(wanted.name, credential_of(mechanism, salted, salt, wanted.iterations))
