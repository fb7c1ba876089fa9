"""`oncestream cursor`: what consumer groups have committed, and how far behind they are."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from oncestream.cli.arguments import TOPIC_HELP, existing_topics, partitions_of
from oncestream.cli.command import Call, command, noun
from oncestream.cli.completion import group_names, topic_names
from oncestream.cli.confirm import DryRun, Yes, may_go_on
from oncestream.cli.positions import Kind, offsets_at, parse_position
from oncestream.client.groups import delete_groups, delete_offsets, describe_groups, list_groups
from oncestream.client.lag import PartitionLag, group_lags
from oncestream.client.offsets import Committed, commit_offsets, committed_offsets
from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import BadArgument, UnknownTopic
from oncestream.streams.names import parse_topic

COLUMNS: Final = ("group", "topic", "partition", "offset", "end", "lag", "exact", "seconds")
MOVES: Final = ("group", "topic", "partition", "before", "after")
PLACES: Final = frozenset({Kind.EARLIEST, Kind.LATEST, Kind.OFFSET, Kind.TIME})

app = noun("Cursors: how far the consumer groups are.")

Group = Annotated[str, typer.Argument(help="The consumer group.", autocompletion=group_names)]
TopicOption = Annotated[
    list[str] | None,
    typer.Option("--topic", help=f"{TOPIC_HELP} Repeatable; default: all.", autocompletion=topic_names),
]
To = Annotated[str, typer.Option("--to", help="earliest, latest, offset:N or time:2026-01-31T12:00:00Z.")]


@command(app, "list")
def list_(
    call: Call,
    group: Annotated[
        str | None, typer.Argument(help="The consumer group; default: all.", autocompletion=group_names)
    ] = None,
    topic: TopicOption = None,
) -> None:
    """Cursors of groups, and their lag in committed records and in seconds."""
    names = {parse_topic(each) for each in topic or []}
    if group is not None:
        describe_groups(call.cluster, [group])
    groups = [group] if group is not None else [each.group for each in list_groups(call.cluster)]
    rows = [
        cursor_row(name, at, lag)
        for name in groups
        for at, lag in group_lags(call.cluster, name, on_damage=call.skip).items()
        if not names or at.topic in names
    ]
    call.show(rows, COLUMNS)


@command(app)
def reset(
    call: Call,
    group: Group,
    to: To,
    topic: TopicOption = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Only this one; default: all.")] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Move the cursors of a group that has no live members; default: in all topics where it has some."""
    position = parse_position("--to", to, PLACES)
    committed = committed_offsets(call.cluster, group)
    names = topic or sorted({at.topic for at in committed})
    if not names:
        raise BadArgument(
            name="cursor reset", reason=f"group {group!r} has no cursor; name topics by --topic"
        )
    chosen = [
        each
        for each in partitions_of(existing_topics(call.cluster, names))
        if partition in (None, each.partition)
    ]
    if not chosen:
        raise UnknownTopic(topic=f"{', '.join(names)} with a partition {partition}")
    places = offsets_at(call.cluster, chosen, position)
    moves = [
        {
            "group": group,
            "topic": at.topic,
            "partition": at.partition,
            "before": committed[at].offset if at in committed else None,
            "after": after,
        }
        for at, after in places.items()
    ]
    if may_go_on(move_lines(moves), dry_run=dry_run, yes=yes):
        commit_offsets(call.cluster, group, {at: Committed(offset) for at, offset in places.items()})
    call.show(moves, MOVES)


@command(app)
def delete(
    call: Call, group: Group, topic: TopicOption = None, dry_run: DryRun = False, yes: Yes = False
) -> None:
    """Forget a group and its cursors, or its cursors in some topics."""
    describe_groups(call.cluster, [group])
    names = {parse_topic(each) for each in topic or []}
    cursors = committed_offsets(call.cluster, group, stable=False)
    doomed = [at for at in sorted(cursors) if not names or at.topic in names]
    plan = [f"forget the cursor of {group} at {at} ({cursors[at].offset})" for at in doomed]
    if not names:
        plan.append(f"delete group {group}")
    if not may_go_on(plan, dry_run=dry_run, yes=yes):
        return
    if names:
        delete_offsets(call.cluster, group, doomed)
    else:
        delete_groups(call.cluster, [group])


def cursor_row(group: str, at: TopicPartition, lag: PartitionLag) -> dict[str, Any]:
    return {
        "group": group,
        "topic": at.topic,
        "partition": at.partition,
        "offset": lag.committed,
        "end": lag.end,
        "lag": lag.records,
        "exact": lag.exact,
        "seconds": None if lag.seconds is None else round(lag.seconds, 1),
        "metadata": lag.metadata,
    }


def move_lines(moves: list[dict[str, Any]]) -> list[str]:
    return [
        f"move the cursor of {each['group']} in {each['topic']}-{each['partition']}"
        f" from {'nowhere' if each['before'] is None else each['before']} to {each['after']}"
        for each in moves
    ]
