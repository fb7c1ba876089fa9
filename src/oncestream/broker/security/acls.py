"""Access rules (ACLs) as Kafka has them: who may, or may not, do what on which resources."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

from oncestream.wire.acl_codes import Operation, PatternType, Permission, ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError

CLUSTER_NAME: Final = "kafka-cluster"
WILDCARD: Final = "*"
TEXT_LENGTH_MAX: Final = 4_096
ACLS_MAX: Final = 100_000

E = TypeVar("E", bound=IntEnum)


class Acl(NamedTuple):
    """One rule. A literal name `*` stands for every resource of the type, the host `*` for every host."""

    resource_type: ResourceType
    name: str
    pattern: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission

    @property
    def text(self) -> str:
        """The rule as the key under which the catalogue keeps it."""
        return json.dumps(self)

    def described(self) -> dict[str, str]:
        """What the rule says of its resource, for people."""
        return {
            "pattern": self.pattern.name,
            "acl_principal": self.principal,
            "acl_host": self.host,
            "acl_operation": self.operation.name,
            "permission": self.permission.name,
        }

    @classmethod
    def parse(cls, text: str) -> Acl:
        kind, name, pattern, principal, host, operation, permission = json.loads(text)
        return cls(
            ResourceType(kind),
            name,
            PatternType(pattern),
            principal,
            host,
            Operation(operation),
            Permission(permission),
        )


class AclFilter(NamedTuple):
    """Which rules are meant; ANY and None match all. MATCH: those that would apply to the resource named."""

    resource_type: ResourceType
    name: str | None
    pattern: PatternType
    principal: str | None
    host: str | None
    operation: Operation
    permission: Permission

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
            and self._matches_name(acl)
        )

    def _matches_name(self, acl: Acl) -> bool:
        if self.pattern not in (PatternType.ANY, PatternType.MATCH, acl.pattern):
            return False
        if self.name is None:
            return True
        if self.pattern is not PatternType.MATCH:
            return self.name == acl.name
        if acl.pattern is PatternType.PREFIXED:
            return self.name.startswith(acl.name)
        return acl.name in (self.name, WILDCARD)


def check_new(
    resource_type: int,
    name: str,
    pattern: int,
    principal: str,
    host: str,
    operation: int,
    permission: int,
) -> Acl:
    """The rule that a request describes; refuses what Kafka refuses."""
    acl = Acl(
        _code(ResourceType, resource_type, "resourceType", (ResourceType.ANY,)),
        name,
        _code(PatternType, pattern, "patternType", (PatternType.ANY, PatternType.MATCH)),
        principal,
        host,
        _code(Operation, operation, "operation", (Operation.ANY,)),
        _code(Permission, permission, "permissionType", (Permission.ANY,)),
    )
    if not name:
        raise _refused("Invalid empty resource name")
    if acl.resource_type is ResourceType.CLUSTER and name != CLUSTER_NAME:
        raise _refused(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    kind, colon, who = principal.partition(":")
    if not kind or not colon or not who:
        raise _refused(f"Could not parse principal from `{principal}`: it is not type:name, as User:alice is")
    if not host:
        raise _refused("Invalid empty host")
    if max(len(name), len(principal), len(host)) > TEXT_LENGTH_MAX:
        raise _refused(f"names in an ACL are at most {TEXT_LENGTH_MAX} characters long")
    return acl


def check_filter(
    resource_type: int,
    name: str | None,
    pattern: int,
    principal: str | None,
    host: str | None,
    operation: int,
    permission: int,
) -> AclFilter:
    return AclFilter(
        _code(ResourceType, resource_type, "resourceType"),
        name,
        _code(PatternType, pattern, "patternType"),
        principal,
        host,
        _code(Operation, operation, "operation"),
        _code(Permission, permission, "permissionType"),
    )


def _code(kind: type[E], code: int, field: str, not_here: Sequence[E] = ()) -> E:
    try:
        value = kind(code)
    except ValueError:
        raise _refused(f"Invalid {field} {code}") from None
    if value in not_here:
        raise _refused(f"Invalid {field} {value.name}")
    return value


def _refused(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, reason)
