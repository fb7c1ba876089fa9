"""`oncestream consume`: records of topics to standard output."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Final

import typer

from oncestream.cli.arguments import Topics, existing_topics, partitions_of
from oncestream.cli.command import Call, command
from oncestream.cli.completion import group_names
from oncestream.cli.output import Output
from oncestream.cli.positions import Kind, Position, offsets_at, parse_position
from oncestream.cli.receiving import Range, Receiver
from oncestream.cli.record_format import Format, record_format
from oncestream.client.cluster import Cluster
from oncestream.client.offsets import Committed, commit_offsets, committed_offsets
from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import BadArgument, UnknownTopic

COMMIT_INTERVAL_S: Final = 5.0
STARTS: Final = frozenset(Kind)
ENDS: Final = frozenset({Kind.LATEST, Kind.OFFSET, Kind.TIME})

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@command(app)
def consume(
    call: Call,
    topics: Topics,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="earliest, latest, committed, offset:N, time:T, or -N: the last N records.",
        ),
    ] = None,
    to: Annotated[
        str | None, typer.Option(help="end, offset:N or time:T; what lies there is left out.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more at the end.")] = False,
    committed: Annotated[
        bool, typer.Option("--committed/--uncommitted", help="Only what transactions have committed, or all.")
    ] = True,
    group: Annotated[
        str | None,
        typer.Option(help="Go on where this group is, and move its cursor.", autocompletion=group_names),
    ] = None,
    partition: Annotated[list[int] | None, typer.Option(min=0, help="Only this one; repeatable.")] = None,
    max_: Annotated[int | None, typer.Option("--max", min=1, help="Stop after so many records.")] = None,
    format_: Annotated[
        str | None,
        typer.Option("--format", help="value, json, or a text such as '{key} {value}\\n' with fields."),
    ] = None,
) -> None:
    """Print the records of topics, and end where they end."""
    if follow and to is not None and not to.startswith("offset:"):
        raise BadArgument(name=f"--to {to}", reason="with --follow the end is offset:N, or there is none")
    formatted = record_format(format_ or ("value" if call.output is Output.TABLE else call.output))
    start = parse_position("--from", from_ or ("committed" if group else "earliest"), STARTS)
    end = None if to is None else parse_position("--to", "latest" if to == "end" else to, ENDS)
    if start.kind is Kind.COMMITTED and group is None:
        raise BadArgument(name="--from committed", reason="it needs --group")
    chosen = _chosen_partitions(call.cluster, topics, partition)
    starts = _starts(call.cluster, chosen, start, group, read_committed=committed)
    ends = _ends(call.cluster, chosen, end, follow=follow, read_committed=committed)
    ranges = {each: Range(starts[each], ends[each]) for each in chosen}
    receiver = Receiver(call.cluster, ranges, read_committed=committed, on_damage=call.skip)
    try:
        with _interrupts() as is_interrupted:
            _print(receiver, formatted, max_, call.cluster, group, is_interrupted)
    except BrokenPipeError:
        # The reader has enough (| head); Python must not find the closed pipe once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        receiver.close()
        _commit(call.cluster, group, receiver.positions, starts)


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """The first Ctrl-C ends it between two batches, so that the cursor is where the output ends; the next at once."""
    asked: list[int] = []

    def ask(number: int, _: object) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, before)


def _print(
    receiver: Receiver,
    formatted: Format,
    limit: int | None,
    cluster: Cluster,
    group: str | None,
    is_interrupted: Callable[[], bool],
) -> None:
    left = limit
    committed = dict(receiver.positions)
    due = time.monotonic() + COMMIT_INTERVAL_S
    for records in receiver.batches():
        for record in records[:left]:
            sys.stdout.write(formatted(record))
        sys.stdout.flush()
        for record in records[:left]:
            receiver.took(record)  # not before: a reader that went away has not had them
        if left is not None:
            left -= len(records)
        if is_interrupted() or (left is not None and left <= 0):
            break
        if time.monotonic() > due:
            _commit(cluster, group, receiver.positions, committed)
            committed, due = dict(receiver.positions), time.monotonic() + COMMIT_INTERVAL_S


def _commit(
    cluster: Cluster,
    group: str | None,
    positions: Mapping[TopicPartition, int],
    before: Mapping[TopicPartition, int],
) -> None:
    moved = {place: Committed(at) for place, at in positions.items() if at != before[place]}
    if group is not None and moved:
        commit_offsets(cluster, group, moved)


def _chosen_partitions(
    cluster: Cluster, topics: Iterable[str], wanted: list[int] | None
) -> list[TopicPartition]:
    states = existing_topics(cluster, topics)
    for number in wanted or []:
        for state in states:
            if number >= len(state.partitions):
                raise UnknownTopic(topic=f"{state.name}-{number}")
    return [each for each in partitions_of(states) if not wanted or each.partition in wanted]


def _starts(
    cluster: Cluster,
    partitions: list[TopicPartition],
    start: Position,
    group: str | None,
    *,
    read_committed: bool,
) -> dict[TopicPartition, int]:
    """Where the group has no cursor, the earliest."""
    kind = Position(Kind.EARLIEST) if start.kind is Kind.COMMITTED else start
    found = offsets_at(cluster, partitions, kind, read_committed=read_committed)
    if start.kind is Kind.COMMITTED and group is not None:
        cursors = committed_offsets(cluster, group, partitions)
        found |= {each: max(cursor.offset, found[each]) for each, cursor in cursors.items()}
    return found


def _ends(
    cluster: Cluster,
    partitions: list[TopicPartition],
    end: Position | None,
    *,
    follow: bool,
    read_committed: bool,
) -> dict[TopicPartition, int | None]:
    """What is there now, unless more is awaited: then the end that was asked for, or none."""
    if follow:
        return dict.fromkeys(partitions, None if end is None else end.value)
    return dict(offsets_at(cluster, partitions, end or Position(Kind.LATEST), read_committed=read_committed))
