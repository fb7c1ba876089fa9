"""Start-up on a data folder with very many transactional ids and committed offsets."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import time
from pathlib import Path
from typing import Final, TypeVar

from benchmarks.loads import connect
from benchmarks.peers import Oncestream, Peer
from oncestream.broker.clock import Clock
from oncestream.broker.groups.offsets import Committed, commit_record
from oncestream.broker.node import Node
from oncestream.broker.settings import BrokerSettings, Durability
from oncestream.broker.state_log import StateLog
from oncestream.broker.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from oncestream.broker.transactions.record import encode_transaction
from oncestream.broker.transactions.state import State, Transaction
from oncestream.wire.api import is_flexible
from oncestream.wire.codec import decode, encode
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.header import decode_response_header, encode_request_header
from oncestream.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from oncestream.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from oncestream.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from oncestream.wire.schema import Message

CACHE: Final = Path(__file__).parent.parent / ".cache" / "benchmarks"
TRANSACTIONAL_IDS: Final = 100_000
GROUPS: Final = 10_000
TOPICS_PER_GROUP: Final = 10
PARTITIONS_PER_TOPIC: Final = 10  # a commit is one batch: as many offsets as one consumer has partitions
TIMEOUT_MS: Final = 60_000

M = TypeVar("M", bound=Message)


def recovery_s(peer: Peer) -> tuple[float, float]:
    """Seconds from exec to the first answers of both coordinators: after a clean stop, and after SIGKILL."""
    peer.stop()
    after_stop = _start_and_ask(peer)
    os.kill(peer.pid, signal.SIGKILL)
    peer.stop()
    return after_stop, _start_and_ask(peer)


def full_coordinators(name: str) -> Oncestream:
    """A broker, not running, with 100,000 transactional ids and 1,000,000 offsets; written once on a machine."""
    folder = CACHE / "full-coordinators-1"
    if not folder.is_dir():
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        asyncio.run(_fill(partial))
        partial.rename(folder)
    return Oncestream(name, folder)


def _start_and_ask(peer: Peer) -> float:
    """Both must know what they have: the last group's last offset, the last transactional id."""
    group, topic, transactional_id = (
        _group(GROUPS - 1),
        _topic(TOPICS_PER_GROUP - 1),
        _id(TRANSACTIONAL_IDS - 1),
    )
    began = time.perf_counter()
    peer.start()
    with connect(peer) as connection:
        found = _ask(connection, FindCoordinatorRequest(key=group), 2, FindCoordinatorResponse)
        wanted = OffsetFetchRequestTopic(name=topic, partition_indexes=[PARTITIONS_PER_TOPIC - 1])
        fetched = _ask(
            connection, OffsetFetchRequest(group_id=group, topics=[wanted]), 5, OffsetFetchResponse
        )
        took = time.perf_counter() - began
        described = _ask(
            connection,
            DescribeTransactionsRequest(transactional_ids=[transactional_id]),
            0,
            DescribeTransactionsResponse,
        )
    assert found.error_code == ErrorCode.NONE
    assert fetched.topics[0].partitions[0].committed_offset == GROUPS - 1
    assert described.transaction_states[0].error_code == ErrorCode.NONE
    return took


def _ask(connection: socket.socket, request: Message, version: int, answer: type[M]) -> M:
    body = encode_request_header(request.__api_key__, version, 1, "bench") + encode(request, version)
    connection.sendall(len(body).to_bytes(4, "big") + body)
    size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
    said = connection.recv(size, socket.MSG_WAITALL)
    _, position = decode_response_header(said, is_flexible(request.__api_key__, version))
    return decode(answer, said, version, position)


async def _fill(folder: Path) -> None:
    settings = BrokerSettings(data=folder, durability=Durability.OS)
    node = Node(settings, asyncio.get_running_loop(), Clock())
    try:
        _write_transactions(StateLog(node, TRANSACTIONS_TOPIC, settings.transaction_partitions), node)
        _write_offsets(StateLog(node, OFFSETS_TOPIC, settings.offsets_partitions))
    finally:
        await node.close()


def _write_transactions(log: StateLog, node: Node) -> None:
    for number in range(TRANSACTIONAL_IDS):
        now_ms = _now_ms()
        txn = Transaction(
            id=_id(number),
            producer_id=node.new_producer_id(),
            epoch=number % 1000,
            timeout_ms=TIMEOUT_MS,
            state=State.COMPLETE_COMMIT,
            updated_ms=now_ms,
            started_ms=now_ms,
        )
        log.append(log.partition_of(txn.id), [encode_transaction(txn)], now_ms)


def _write_offsets(log: StateLog) -> None:
    for number in range(GROUPS):
        group, now_ms = _group(number), _now_ms()
        for topic in map(_topic, range(TOPICS_PER_GROUP)):
            committed = Committed(number, 0, "", now_ms)
            records = [
                commit_record(group, topic, partition, committed) for partition in range(PARTITIONS_PER_TOPIC)
            ]
            log.append(log.partition_of(group), records, now_ms)


def _id(number: int) -> str:
    return f"transactional-id-{number}"


def _group(number: int) -> str:
    return f"group-{number}"


def _topic(number: int) -> str:
    return f"topic-{number}"


def _now_ms() -> int:
    return int(time.time() * 1000)
