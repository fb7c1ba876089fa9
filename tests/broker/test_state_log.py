"""The log of a coordinator on the real storage: what is written is what a restart replays."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from oncestream.broker.clock import Clock
from oncestream.broker.node import Node
from oncestream.broker.settings import BrokerSettings
from oncestream.broker.state_log import Producer, StateLog, StateRecord, Transaction, java_hash

TOPIC = "state-log-under-test"
Seen = tuple[object, ...]


class Recorder:
    """Keeps what is replayed."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []

    def replay(self, record: StateRecord, offset: int, transaction: Transaction | None) -> None:
        self.seen.append((record, offset, transaction))

    def end_transaction(self, transaction: Transaction, commit: bool) -> None:
        self.seen.append((transaction, commit))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("abc", 96354),
        ("hello", 99162322),
        ("polygenelubricants", 0x80000000),
        ("\U0001f600", 1772899),
    ],
)
def test_names_hash_as_java_strings_do(text: str, expected: int) -> None:
    assert java_hash(text) == expected


def test_records_transactions_and_markers_come_back_after_a_restart(tmp_path: Path) -> None:
    long = StateRecord(b"k" * 200, b"v" * 70_000)
    records = [StateRecord(b"a", b"1"), StateRecord(b"b", None), StateRecord(b"c", b""), long]

    async def write() -> None:
        node = Node(BrokerSettings(data=tmp_path), asyncio.get_running_loop(), Clock())
        log = StateLog(node, TOPIC, 3)
        assert log.append(1, records, 1_000).base_offset == 0
        log.append(1, records[:1], 2_000, Producer(7, 0))
        node.topics[TOPIC].partitions[1].log.append_marker(7, 0, 0, True)
        durable = asyncio.Event()
        log.when_durable(1, lambda error: durable.set() if error is None else None)
        await asyncio.wait_for(durable.wait(), 10)
        await node.close()

    async def read() -> list[Seen]:
        node = Node(BrokerSettings(data=tmp_path), asyncio.get_running_loop(), Clock())
        assert len(node.topics[TOPIC].partitions) == 3
        assert node.topics[TOPIC].entry.configs["cleanup.policy"] == "compact"
        recorder = Recorder()
        assert StateLog(node, TOPIC, 8).replay(recorder) == 5
        await node.close()
        return recorder.seen

    asyncio.run(write())
    transaction = Transaction(1, 7)
    assert asyncio.run(read()) == [
        *((record, offset, None) for offset, record in enumerate(records)),
        (records[0], 4, transaction),
        (transaction, True),
    ]


def test_a_log_that_was_never_written_is_empty_and_durable(tmp_path: Path) -> None:
    async def run() -> None:
        node = Node(BrokerSettings(data=tmp_path), asyncio.get_running_loop(), Clock())
        log = StateLog(node, TOPIC, 8)
        answers: list[object] = []
        log.when_durable(0, answers.append)
        assert (log.replay(Recorder()), answers, node.topics) == (0, [None], {})
        await node.close()

    asyncio.run(run())
