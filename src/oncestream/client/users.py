"""Users with SCRAM passwords. Only salted hashes leave this process, never a password."""

from __future__ import annotations

import hashlib
import secrets
from enum import IntEnum
from typing import Final, NamedTuple

from oncestream.client.cluster import Cluster
from oncestream.client.failures import raise_if_error
from oncestream.errors import BadUser, UnknownUser
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from oncestream.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

SALT_BYTES: Final = 24
ITERATIONS: Final = 8192
ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384


class ScramMechanism(IntEnum):
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    def __str__(self) -> str:
        return self.name.replace("_", "-")


class Credential(NamedTuple):
    """What a cluster tells about a user's password."""

    mechanism: ScramMechanism
    iterations: int


def list_users(cluster: Cluster) -> dict[str, list[Credential]]:
    """Every user with the mechanisms it can log in by, sorted by name."""

    def check(told: DescribeUserScramCredentialsResponse) -> None:
        raise_if_error(told.error_code, "users", told.error_message)
        for user in told.results:
            raise_if_error(user.error_code, user.user, user.error_message)

    # An empty list and none mean the same; but Apache Kafka never answers none where it must refuse it.
    request = DescribeUserScramCredentialsRequest(users=[])
    told = cluster.ask_controller(request, DescribeUserScramCredentialsResponse, check)
    return {
        user.user: sorted(
            Credential(ScramMechanism(each.mechanism), each.iterations) for each in user.credential_infos
        )
        for user in sorted(told.results, key=lambda result: result.user)
    }


def put_user(
    cluster: Cluster,
    name: str,
    password: str,
    mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_512,
    iterations: int = ITERATIONS,
) -> None:
    """Makes a user, or gives it another password for this mechanism."""
    if not name or not password:
        raise BadUser(name=name, reason="the password is empty" if name else "the name is empty")
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise BadUser(
            name=name, reason=f"{iterations} iterations are not between {ITERATIONS_MIN} and {ITERATIONS_MAX}"
        )
    salt = secrets.token_bytes(SALT_BYTES)
    digest = mechanism.name.removeprefix("SCRAM_").replace("_", "").lower()
    upsertion = ScramCredentialUpsertion(
        name=name,
        mechanism=mechanism,
        iterations=iterations,
        salt=salt,
        salted_password=hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations),
    )
    _alter(cluster, AlterUserScramCredentialsRequest(upsertions=[upsertion]))


def delete_user(cluster: Cluster, name: str) -> None:
    """Takes away the user's passwords for every mechanism; UnknownUser where it has none."""
    # One request each: Kafka refuses a request as a whole where the user lacks one of the mechanisms.
    found = [
        _alter(
            cluster,
            AlterUserScramCredentialsRequest(
                deletions=[ScramCredentialDeletion(name=name, mechanism=mechanism)]
            ),
        )
        for mechanism in ScramMechanism
    ]
    if not any(found):
        raise UnknownUser(user=name)


def _alter(cluster: Cluster, request: AlterUserScramCredentialsRequest) -> bool:
    """False where there was nothing to delete."""

    def check(told: AlterUserScramCredentialsResponse) -> None:
        for each in told.results:
            if each.error_code != ErrorCode.RESOURCE_NOT_FOUND:
                raise_if_error(each.error_code, each.user, each.error_message)

    told = cluster.ask_controller(request, AlterUserScramCredentialsResponse, check)
    return not any(each.error_code for each in told.results)
