"""`oncestream stream cursor`: what consumer groups have committed in the topics of a stream."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from oncestream.cli.command import Call, command, noun
from oncestream.cli.completion import group_names, topics_of_stream
from oncestream.cli.confirm import DryRun, Yes, may_go_on
from oncestream.cli.cursor import COLUMNS, MOVES, PLACES, To, move_lines
from oncestream.cli.positions import Kind, parse_position
from oncestream.cli.stream_path import Path, stream_of
from oncestream.streams.cursors import Cursor, Which, cursors_of

app = noun("What consumer groups have committed in the topics of a stream.")

Group = Annotated[
    str | None,
    typer.Option("--consumergroup", help="The consumer group; default: all.", autocompletion=group_names),
]
Topic = Annotated[
    str | None,
    typer.Option(
        "--topic", help="Name of the topic in its stream; default: all.", autocompletion=topics_of_stream
    ),
]
Partition = Annotated[int | None, typer.Option("--partition", min=0, help="The partition; default: all.")]


@command(app, "list")
def list_(
    call: Call, path: Path, consumergroup: Group = None, topic: Topic = None, partition: Partition = None
) -> None:
    """Cursors, and their lag in committed records and in seconds."""
    which = Which(consumergroup, topic, partition)
    found = cursors_of(call.cluster, stream_of(call, path).path, which, call.skip)
    call.show([_row(each) for each in found], COLUMNS)


@command(app)
def delete(
    call: Call,
    path: Path,
    consumergroup: Group = None,
    topic: Topic = None,
    partition: Partition = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Forget cursors; the forgotten ones are printed."""
    stream = stream_of(call, path)
    doomed = stream.delete_cursors(consumergroup, topic, partition, dry_run=True)
    plan = [
        f"forget the cursor of {each.group} at {each.topic}-{each.partition} ({each.offset})"
        for each in doomed
    ]
    if may_go_on(plan, dry_run=dry_run, yes=yes or not doomed):
        doomed = stream.delete_cursors(consumergroup, topic, partition)
    call.show([_row(each) for each in doomed], COLUMNS)


@command(app)
def reset(
    call: Call,
    path: Path,
    consumergroup: Annotated[
        str, typer.Option("--consumergroup", help="The consumer group.", autocompletion=group_names)
    ],
    to: To,
    topic: Topic = None,
    partition: Partition = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Move the cursors of a group that has no live members."""
    position = parse_position("--to", to, PLACES)
    place: str | int | datetime = str(position.kind)
    if position.kind is Kind.OFFSET:
        place = position.value
    elif position.kind is Kind.TIME:
        place = datetime.fromtimestamp(position.value / 1000, UTC)
    stream = stream_of(call, path)
    moves = stream.reset_cursors(consumergroup, place, topic, partition, dry_run=True)
    plan = move_lines([each._asdict() for each in moves])
    if may_go_on(plan, dry_run=dry_run, yes=yes or not moves):
        moves = stream.reset_cursors(consumergroup, place, topic, partition)
    call.show([each._asdict() for each in moves], MOVES)


def _row(cursor: Cursor) -> dict[str, Any]:
    seconds = None if cursor.seconds is None else round(cursor.seconds, 1)
    return {**cursor._asdict(), "seconds": seconds}
