"""`oncestream txn`: transactions, what they hold back, and ending one that hangs."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final

import typer

from oncestream.cli.arguments import TOPIC_HELP, existing_topics
from oncestream.cli.command import Call, command, noun
from oncestream.cli.completion import topic_names, transactional_ids
from oncestream.cli.confirm import DryRun, Yes, may_go_on
from oncestream.client.inspection import (
    HANGING_AFTER_MS,
    OPEN,
    abort_transaction,
    describe_transactions,
    hanging_transactions,
    known_transactions,
    list_transactions,
)
from oncestream.client.open_transactions import OpenTransaction, open_transactions
from oncestream.errors import BadArgument, TransactionAlive, UnknownTransaction
from oncestream.streams.names import parse_topic

LISTED: Final = ("transactional_id", "producer_id", "state", "seconds", "partitions")
HANGING: Final = ("topic", "partition", "producer_id", "epoch", "start_offset", "seconds", "transactional_id")

app = noun("Transactions: who holds what, and for how long.")


@command(app, "list")
def list_(
    call: Call,
    state: Annotated[
        list[str] | None, typer.Option(help="Only in this state (Ongoing, PrepareCommit, ...); repeatable.")
    ] = None,
    older_than: Annotated[float | None, typer.Option(min=0, help="Only open for so many seconds.")] = None,
) -> None:
    """Transactional ids, the state of each, and how long its transaction has been open."""
    older_ms = None if older_than is None else round(older_than * 1000)
    listed = list_transactions(call.cluster, state or (), older_ms)
    known = known_transactions(call.cluster, (each.transactional_id for each in listed))
    rows = []
    for each in listed:
        state_now = known.get(each.transactional_id)
        rows.append(
            {
                "transactional_id": each.transactional_id,
                "producer_id": each.producer_id,
                "state": each.state,
                "seconds": _age_s(state_now.start_ms if state_now and each.state in OPEN else None),
                "partitions": len(state_now.partitions) if state_now else 0,
            }
        )
    call.show(rows, LISTED)


@command(app)
def describe(
    call: Call,
    transactional_id: Annotated[
        str, typer.Argument(help="The transactional id.", autocompletion=transactional_ids)
    ],
) -> None:
    """One transaction: its partitions, those whose last stable offset it holds, and the groups that read there."""
    state = describe_transactions(call.cluster, [transactional_id])[0]
    topics = sorted({at.topic for at in state.partitions})
    held = [
        each
        for each in (open_transactions(call.cluster, topics) if topics else [])
        if each.producer_id == state.producer_id
    ]
    call.show_one(
        {
            "transactional_id": state.transactional_id,
            "producer_id": state.producer_id,
            "epoch": state.epoch,
            "state": state.state,
            "timeout_ms": state.timeout_ms,
            "seconds": _age_s(state.start_ms if state.state in OPEN else None),
            "partitions": [str(at) for at in state.partitions],
            "open": [_held_row(each) for each in held],
        }
    )


@command(app, "find-hanging")
def find_hanging(
    call: Call,
    topic: Annotated[
        list[str] | None,
        typer.Option(help=f"{TOPIC_HELP} Repeatable; default: all.", autocompletion=topic_names),
    ] = None,
    older_than: Annotated[
        float, typer.Option(min=0, help="Last written to so many seconds ago; above the longest timeout.")
    ] = HANGING_AFTER_MS / 1000,
) -> None:
    """Open transactions that no coordinator will end: `txn abort` ends them."""
    names = [each.name for each in existing_topics(call.cluster, topic)] if topic else None
    rows = [
        {
            "topic": each.partition.topic,
            "partition": each.partition.partition,
            "producer_id": each.producer_id,
            "epoch": each.epoch,
            "coordinator_epoch": each.coordinator_epoch,
            "start_offset": each.start_offset,
            "seconds": _age_s(each.last_timestamp_ms),
            "transactional_id": each.transactional_id,
        }
        for each in hanging_transactions(call.cluster, round(older_than * 1000), names)
    ]
    call.show(rows, HANGING)


@command(app)
def abort(
    call: Call,
    topic: Annotated[str, typer.Option(help=TOPIC_HELP, autocompletion=topic_names)],
    partition: Annotated[int, typer.Option(min=0, help="The partition that it holds back.")],
    start_offset: Annotated[
        int | None,
        typer.Option(min=0, help="Where it begins there; default: the one that holds readers back."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Even if its producer may be alive.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """End a transaction in one partition by an abort marker; its records there are never seen."""
    name = parse_topic(topic)
    existing_topics(call.cluster, [name])
    doomed = _doomed(open_transactions(call.cluster, [name]), name, partition, start_offset)
    if not force:
        _refuse_alive(call, doomed)
    plan = [
        f"abort, in {doomed.partition}, the transaction of producer {doomed.producer_id} epoch {doomed.epoch}"
        f" ({doomed.transactional_id or 'no transactional id'}) from offset {doomed.start_offset};"
        f" groups that wait: {', '.join(doomed.waiting_groups) or 'none'}"
    ]
    if may_go_on(plan, dry_run=dry_run, yes=yes):
        abort_transaction(
            call.cluster, doomed.partition, doomed.producer_id, doomed.epoch, doomed.coordinator_epoch
        )
    call.show_one(_held_row(doomed))


def _refuse_alive(call: Call, doomed: OpenTransaction) -> None:
    """One that `find-hanging` does not find is ended by its producer or its timeout."""
    hanging = hanging_transactions(call.cluster, HANGING_AFTER_MS, [doomed.partition.topic])
    if (doomed.partition, doomed.producer_id) not in {(each.partition, each.producer_id) for each in hanging}:
        since_ms = doomed.last_timestamp_ms if doomed.start_ms is None else doomed.start_ms
        raise TransactionAlive(
            transactional_id=doomed.transactional_id or f"producer {doomed.producer_id}",
            state=doomed.state or "no coordinator knows it",
            seconds=_age_s(since_ms),
        )


def _doomed(
    found: list[OpenTransaction], topic: str, partition: int, start_offset: int | None
) -> OpenTransaction:
    chosen = [
        each
        for each in found
        if each.partition.partition == partition
        and (each.holds if start_offset is None else each.start_offset == start_offset)
    ]
    if not chosen:
        where = "" if start_offset is None else f" at offset {start_offset}"
        raise UnknownTransaction(transactional_id=f"any producer in {topic}-{partition}{where}")
    if len(chosen) > 1:
        raise BadArgument(name="txn abort", reason="several begin there; use find-hanging")
    return chosen[0]


def _held_row(each: OpenTransaction) -> dict[str, Any]:
    return {
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "producer_id": each.producer_id,
        "epoch": each.epoch,
        "start_offset": each.start_offset,
        "last_stable": each.last_stable_offset,
        "end": each.high_watermark,
        "holds": each.holds,
        "transactional_id": each.transactional_id,
        "seconds": _age_s(each.start_ms if each.start_ms is not None else each.last_timestamp_ms),
        "waiting_groups": list(each.waiting_groups),
    }


def _age_s(since_ms: int | None) -> float | None:
    return None if since_ms is None else round(max(0.0, time.time() - since_ms / 1000), 1)
