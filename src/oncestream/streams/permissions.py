"""Permissions of a stream as access rules (ACLs) on the prefix of its topics' names.

Rules that allow something from every host on exactly that prefix are the stream's; all others are left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from oncestream.client.acls import WILDCARD, Acl, AclFilter, create_acls, delete_acls, describe_acls
from oncestream.client.cluster import Cluster
from oncestream.errors import CreatorUnknown, NoAuthorizer, PermissionsOff
from oncestream.streams.attributes import PERMISSIONS, StreamAttributes
from oncestream.streams.expressions import ANYBODY, EVERYONE, of_user, principals_of
from oncestream.streams.names import StreamPath
from oncestream.wire.acl_codes import Operation, PatternType, Permission, ResourceType

_TOPIC, _GROUP, _TXN = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID

GRANTS: Final[Mapping[str, tuple[tuple[ResourceType, Operation], ...]]] = {
    "produce": ((_TOPIC, Operation.WRITE), (_TOPIC, Operation.DESCRIBE), (_TXN, Operation.WRITE)),
    "consume": ((_TOPIC, Operation.READ), (_TOPIC, Operation.DESCRIBE), (_GROUP, Operation.READ)),
    "topic": (
        (_TOPIC, Operation.CREATE),
        (_TOPIC, Operation.ALTER),
        (_TOPIC, Operation.DELETE),
        (_TOPIC, Operation.DESCRIBE),
        (_TOPIC, Operation.DESCRIBE_CONFIGS),
    ),
    "copy": (
        (_TOPIC, Operation.READ),
        (_TOPIC, Operation.DESCRIBE),
        (_TOPIC, Operation.DESCRIBE_CONFIGS),
    ),
    "admin": ((_TOPIC, Operation.ALL), (_GROUP, Operation.ALL), (_TXN, Operation.ALL)),
}
AUTO_CREATE_GRANT: Final = (_TOPIC, Operation.CREATE)  # for those who may produce


def acls_of(path: StreamPath, attributes: StreamAttributes) -> set[Acl]:
    """The rules that the permissions come to."""
    rules: set[Acl] = set()
    for name, expression in attributes.permissions().items():
        grants = GRANTS[name]
        if name == "produce" and attributes.auto_create:
            grants = (*grants, AUTO_CREATE_GRANT)
        rules |= {
            Acl(resource, path.prefix, PatternType.PREFIXED, principal, operation)
            for principal in principals_of(expression)
            for resource, operation in grants
        }
    return rules


def rules_there(cluster: Cluster, path: StreamPath) -> set[Acl] | None:
    """The stream's rules as the cluster has them; None on a cluster that checks none."""
    try:
        found = describe_acls(cluster, AclFilter(resource=path.prefix, pattern=PatternType.PREFIXED))
    except NoAuthorizer:
        return None
    return {acl for acl in found if acl.permission is Permission.ALLOW and acl.host == WILDCARD}


def set_rules(cluster: Cluster, path: StreamPath, wanted: set[Acl]) -> None:
    """Makes the stream's rules these, by what is missing and what is too many."""
    there = rules_there(cluster, path)
    if there is None:
        return
    create_acls(cluster, sorted(wanted - there))
    delete_acls(cluster, [_exactly(acl) for acl in sorted(there - wanted)])


def default_permissions(path: StreamPath, user: str, *, checked: bool) -> dict[str, str]:
    """Everything belongs to the creator; to everyone, where there are neither users nor checks."""
    if not user and checked:
        raise CreatorUnknown(path=path)
    return dict.fromkeys(PERMISSIONS, of_user(user) if user else EVERYONE)


def refuse_if_off(given: Mapping[str, object]) -> None:
    """On a cluster that checks no rules, a permission for some would promise what nobody keeps."""
    for name in PERMISSIONS:
        if given.get(name, EVERYONE) != EVERYONE:
            raise PermissionsOff(name=name, value=given[name])


def let_everyone_read(cluster: Cluster, topic: str) -> None:
    try:
        create_acls(
            cluster,
            [
                Acl(_TOPIC, topic, PatternType.LITERAL, ANYBODY, operation)
                for operation in (Operation.READ, Operation.DESCRIBE)
            ],
        )
    except NoAuthorizer:
        return


def _exactly(acl: Acl) -> AclFilter:
    return AclFilter(
        acl.resource_type,
        acl.resource,
        acl.pattern,
        acl.principal,
        acl.operation,
        acl.permission,
        acl.host,
    )
