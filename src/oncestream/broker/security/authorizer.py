"""Who may do what: Kafka's rules over the ACLs in the catalogue.

A deny wins over every allow; where no rule speaks, the answer is no (or, with `allow_if_no_acl`, yes as long as
the resource has no rule at all). Super users may do everything. The audit topic is for super users only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from oncestream.broker.security.acls import WILDCARD, Acl
from oncestream.broker.security.operations import SUPPORTED
from oncestream.broker.security.principal import Principal
from oncestream.broker.topic_names import AUDIT_TOPIC
from oncestream.wire.acl_codes import Operation, PatternType, Permission, ResourceType

CACHED_MAX: Final = 20_000
CACHED_LENGTH_MAX: Final = 300
EVERYONE: Final = "User:*"

# Which operations of an allowing rule allow an operation too.
_IMPLIED_BY: Final = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
_ANY_NAME: Final = "hardcode"  # the name Kafka asks about to learn what holds for resources without rules

_Question = tuple[Principal, str, Operation, ResourceType, str]


class Rules(Protocol):
    """Where the ACLs are kept; the version changes with them."""

    acls: set[Acl]
    acls_version: int


class Authorizer:
    """Answers from a cache, which is dropped when an ACL changes."""

    def __init__(self, rules: Rules, super_users: Iterable[Principal], *, allow_if_no_acl: bool) -> None:
        self._rules = rules
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl = allow_if_no_acl
        self._cache: dict[_Question, bool] = {}
        self._load()

    def is_super(self, principal: Principal) -> bool:
        return principal in self._super_users

    def allows(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        if self._version != self._rules.acls_version:
            self._load()
        if len(name) > CACHED_LENGTH_MAX:  # names are whatever a client sends
            return self._decide(principal, host, operation, kind, name)
        question = (principal, host, operation, kind, name)
        known = self._cache.get(question)
        if known is None:
            if len(self._cache) >= CACHED_MAX:
                self._cache.clear()
            known = self._cache[question] = self._decide(*question)
        return known

    def allows_on_any(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType
    ) -> bool:
        """Whether there is, or could be, a resource of this type on which the operation is allowed."""
        if self.allows(principal, host, operation, kind, _ANY_NAME):
            return True
        mine = [
            acl
            for acl in self._rules.acls
            if acl.resource_type is kind
            and acl.operation in (operation, Operation.ALL)
            and _is_about(acl, principal, host)
        ]
        denied = {(acl.pattern, acl.name) for acl in mine if acl.permission is Permission.DENY}
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        allowed = {(acl.pattern, acl.name) for acl in mine if acl.permission is Permission.ALLOW}
        return any(
            (pattern, name) not in denied
            and not any((PatternType.PREFIXED, name[:size]) in denied for size in range(1, len(name) + 1))
            for pattern, name in allowed
        )

    def operations(self, principal: Principal, host: str, kind: ResourceType, name: str) -> int:
        """What is allowed on a resource, as a bit field by the operations' codes."""
        return sum(
            1 << operation
            for operation in SUPPORTED[kind]
            if self.allows(principal, host, operation, kind, name)
        )

    def _load(self) -> None:
        self._version = self._rules.acls_version
        self._cache.clear()
        self._literal: defaultdict[tuple[ResourceType, str], list[Acl]] = defaultdict(list)
        self._prefixed: defaultdict[tuple[ResourceType, str], list[Acl]] = defaultdict(list)
        for acl in self._rules.acls:
            index = self._literal if acl.pattern is PatternType.LITERAL else self._prefixed
            index[acl.resource_type, acl.name].append(acl)
        self._prefix_sizes = sorted({len(name) for _, name in self._prefixed})

    def _decide(
        self, principal: Principal, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        if principal in self._super_users:
            return True
        if kind is ResourceType.TOPIC and name == AUDIT_TOPIC:
            return False
        found = allowed = False
        for acl in self._of(kind, name):
            found = True
            if _is_about(acl, principal, host) and _speaks_of(acl, operation):
                if acl.permission is Permission.DENY:
                    return False
                allowed = True
        return allowed or (self._allow_if_no_acl and not found)

    def _of(self, kind: ResourceType, name: str) -> Iterator[Acl]:
        yield from self._literal.get((kind, name), ())
        if name != WILDCARD:
            yield from self._literal.get((kind, WILDCARD), ())
        for size in self._prefix_sizes:
            if size > len(name):
                break
            yield from self._prefixed.get((kind, name[:size]), ())


def parse_super_users(text: str) -> frozenset[Principal]:
    """`User:admin,ops`, a bare name being a user's; with `;` between them names may hold commas, as in TLS."""
    names = (part.strip() for part in text.split(";" if ";" in text else ","))
    return frozenset(Principal("User", name.removeprefix("User:")) for name in names if name)


def _is_about(acl: Acl, principal: Principal, host: str) -> bool:
    return acl.principal in (EVERYONE, str(principal)) and acl.host in (WILDCARD, host)


def _speaks_of(acl: Acl, operation: Operation) -> bool:
    if acl.operation in (operation, Operation.ALL):
        return True
    return acl.permission is Permission.ALLOW and acl.operation in _IMPLIED_BY.get(operation, ())
