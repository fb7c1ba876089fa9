"""`oncestream acl`: access rights as Kafka has them."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Any, TypeVar

import typer

from oncestream.cli.command import Call, command, noun
from oncestream.cli.completion import group_names, topic_names, transactional_ids
from oncestream.cli.confirm import DryRun, Yes, may_go_on
from oncestream.client.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    create_acls,
    delete_acls,
    describe_acls,
)
from oncestream.errors import BadArgument
from oncestream.streams.names import parse_topic
from oncestream.wire.acl_codes import Operation, PatternType, Permission, ResourceType

E = TypeVar("E", bound=IntEnum)

app = noun("Access rights as Kafka has them.")

COLUMNS = ("principal", "permission", "operation", "resource_type", "pattern", "resource", "host")

User = Annotated[str | None, typer.Option("--user", help="User name, User:NAME, or * for everyone.")]
Operations = Annotated[
    list[str] | None, typer.Option("--operation", help="read, write, create, describe, all ...; repeatable.")
]
TopicOption = Annotated[
    str | None,
    typer.Option("--topic", help="Topic, /stream:topic, or * for all.", autocompletion=topic_names),
]
GroupOption = Annotated[
    str | None, typer.Option("--group", help="Consumer group, or * for all.", autocompletion=group_names)
]
TxnOption = Annotated[
    str | None,
    typer.Option(
        "--transactional-id", help="Transactional id, or * for all.", autocompletion=transactional_ids
    ),
]
ClusterOption = Annotated[bool, typer.Option("--cluster", help="The cluster itself.")]
Prefixed = Annotated[bool, typer.Option("--prefixed", help="All names that begin so.")]
Deny = Annotated[bool, typer.Option("--deny", help="Rules that refuse, not allow.")]
Host = Annotated[str | None, typer.Option("--host", help="Only from this address; default: everywhere.")]


@command(app)
def add(
    call: Call,
    user: User = None,
    operation: Operations = None,
    topic: TopicOption = None,
    group: GroupOption = None,
    transactional_id: TxnOption = None,
    cluster: ClusterOption = False,
    prefixed: Prefixed = False,
    deny: Deny = False,
    host: Host = None,
) -> None:
    """Allow (or deny) a user operations on one resource."""
    if user is None or not operation:
        raise BadArgument(name="acl add", reason="--user and --operation are needed")
    kind, name = _resource(topic, group, transactional_id, cluster, prefixed, needed=True)
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    permission = Permission.DENY if deny else Permission.ALLOW
    rules = [
        Acl(kind, str(name), pattern, _principal(user), _code(Operation, each), permission, host or "*")
        for each in operation
    ]
    create_acls(call.cluster, rules)


@command(app, "list")
def list_(
    call: Call,
    user: User = None,
    operation: Operations = None,
    topic: TopicOption = None,
    group: GroupOption = None,
    transactional_id: TxnOption = None,
    cluster: ClusterOption = False,
    prefixed: Prefixed = False,
) -> None:
    """The rules, all or those about one user or resource."""
    filters = _filters(user, operation, topic, group, transactional_id, cluster, prefixed)
    call.show([_row(acl) for each in filters for acl in describe_acls(call.cluster, each)], COLUMNS)


@command(app)
def delete(
    call: Call,
    user: User = None,
    operation: Operations = None,
    topic: TopicOption = None,
    group: GroupOption = None,
    transactional_id: TxnOption = None,
    cluster: ClusterOption = False,
    prefixed: Prefixed = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Remove the rules that match; the removed ones are printed."""
    filters = _filters(user, operation, topic, group, transactional_id, cluster, prefixed)
    if filters == [AclFilter()]:
        raise BadArgument(name="acl delete", reason="say which rules: --user, --topic, --group, ...")
    doomed = [acl for each in filters for acl in describe_acls(call.cluster, each)]
    plan = [f"remove: {' '.join(map(str, _row(acl).values()))}" for acl in doomed]
    if may_go_on(plan, dry_run=dry_run, yes=yes or not doomed):
        doomed = delete_acls(call.cluster, filters)
    call.show([_row(acl) for acl in doomed], COLUMNS)


def _filters(
    user: str | None,
    operations: list[str] | None,
    topic: str | None,
    group: str | None,
    transactional_id: str | None,
    cluster: bool,
    prefixed: bool,
) -> list[AclFilter]:
    """One per operation; each matches only rules of exactly the resource that is named."""
    kind, name = _resource(topic, group, transactional_id, cluster, prefixed, needed=False)
    pattern = PatternType.PREFIXED if prefixed else PatternType.ANY if name is None else PatternType.LITERAL
    principal = None if user is None else _principal(user)
    return [
        AclFilter(kind, name, pattern, principal, _code(Operation, each))
        for each in operations or [Operation.ANY.name]
    ]


def _resource(
    topic: str | None,
    group: str | None,
    transactional_id: str | None,
    cluster: bool,
    prefixed: bool,
    *,
    needed: bool,
) -> tuple[ResourceType, str | None]:
    given = [
        (ResourceType.TOPIC, topic and _topic(topic, prefixed)),
        (ResourceType.GROUP, group),
        (ResourceType.TRANSACTIONAL_ID, transactional_id),
        (ResourceType.CLUSTER, CLUSTER_NAME if cluster else None),
    ]
    found = [(kind, name) for kind, name in given if name is not None]
    if len(found) > 1 or (needed and not found):
        raise BadArgument(
            name="the resource", reason="give one of --topic, --group, --transactional-id and --cluster"
        )
    return found[0] if found else (ResourceType.ANY, None)


def _topic(text: str, prefixed: bool) -> str:
    """The start of a name need not be a name."""
    return text if text == "*" or (prefixed and not text.startswith("/")) else parse_topic(text)


def _principal(user: str) -> str:
    return user if ":" in user else f"User:{user}"


def _code(kind: type[E], text: str) -> E:
    try:
        return kind[text.upper().replace("-", "_")]
    except KeyError:
        known = ", ".join(each.name.lower().replace("_", "-") for each in kind if each.name != "ANY")
        raise BadArgument(name=f"--operation {text!r}", reason=f"it is none of {known}") from None


def _row(acl: Acl) -> dict[str, Any]:
    return {
        "principal": acl.principal,
        "permission": _word(acl.permission),
        "operation": _word(acl.operation),
        "resource_type": _word(acl.resource_type),
        "pattern": _word(acl.pattern),
        "resource": acl.resource,
        "host": acl.host,
    }


def _word(code: IntEnum) -> str:
    return code.name.lower().replace("_", "-")
