"""Users and what they may do: log-ins, and rules that an administrator gives them."""

from __future__ import annotations

from typing import Final, NamedTuple

from oncestream.wire.acl_codes import Operation, PatternType, Permission, ResourceType
from oncestream.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from oncestream.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from tests.broker.kit import Wire
from tests.broker.security.kit import log_in

ADMIN: Final = "admin"
SECRET: Final = "secret"
CLUSTER: Final = "kafka-cluster"
PATIENCE_S: Final = 60.0


class Right(NamedTuple):
    """What one user is allowed, or, beside the right to everything, denied."""

    kind: ResourceType
    operation: Operation
    permission: Permission = Permission.ALLOW
    pattern: PatternType = PatternType.LITERAL

    @property
    def user(self) -> str:
        words = (self.kind, self.operation, self.permission, self.pattern)
        return "-".join(word.name.lower() for word in words)


TOPIC_RIGHTS: Final = tuple(
    Right(ResourceType.TOPIC, operation)
    for operation in (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.ALL,
    )
)
GROUP_RIGHTS: Final = tuple(
    Right(ResourceType.GROUP, operation)
    for operation in (Operation.READ, Operation.DESCRIBE, Operation.DELETE, Operation.ALL)
)
RIGHTS: Final = (
    *TOPIC_RIGHTS,
    Right(ResourceType.TOPIC, Operation.WRITE, pattern=PatternType.PREFIXED),
    *GROUP_RIGHTS,
    *(Right(ResourceType.TRANSACTIONAL_ID, operation) for operation in (Operation.WRITE, Operation.DESCRIBE)),
    *(
        Right(ResourceType.CLUSTER, operation)
        for operation in (
            Operation.CREATE,
            Operation.DELETE,
            Operation.ALTER,
            Operation.DESCRIBE,
            Operation.CLUSTER_ACTION,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
            Operation.IDEMPOTENT_WRITE,
        )
    ),
    *(
        Right(ResourceType.TOPIC, operation, Permission.DENY)
        for operation in (Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL)
    ),
    Right(ResourceType.GROUP, Operation.READ, Permission.DENY),
    Right(ResourceType.GROUP, Operation.DESCRIBE, Permission.DENY),
    Right(ResourceType.TRANSACTIONAL_ID, Operation.WRITE, Permission.DENY),
    Right(ResourceType.CLUSTER, Operation.ALL, Permission.DENY),
)
NOBODY: Final = "nobody"
USERS: Final = dict.fromkeys((ADMIN, NOBODY, *(right.user for right in RIGHTS)), SECRET)


def logged_in(address: str, user: str) -> Wire:
    wire = Wire(address, timeout_s=PATIENCE_S)
    try:
        log_in(wire, user, SECRET)
    except BaseException:
        wire.close()
        raise
    return wire


def allow(
    admin: Wire,
    user: str,
    kind: ResourceType,
    name: str,
    operation: Operation,
    *,
    permission: Permission = Permission.ALLOW,
    pattern: PatternType = PatternType.LITERAL,
    host: str = "*",
) -> None:
    creation = AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=f"User:{user}",
        host=host,
        operation=operation,
        permission_type=permission,
    )
    answer = admin.ask(CreateAclsRequest(creations=[creation]), 3, CreateAclsResponse)
    assert [result.error_code for result in answer.results] == [0]


def take_back(admin: Wire, user: str) -> int:
    """Deletes every rule of a user; how many there were."""
    every = DeleteAclsFilter(
        resource_type_filter=ResourceType.ANY,
        resource_name_filter=None,
        pattern_type_filter=PatternType.ANY,
        principal_filter=f"User:{user}",
        host_filter=None,
        operation=Operation.ANY,
        permission_type=Permission.ANY,
    )
    answer = admin.ask(DeleteAclsRequest(filters=[every]), 3, DeleteAclsResponse)
    return len(answer.filter_results[0].matching_acls)
