"""Topics made on first use: behind the answer, once, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from oncestream.broker.call import Call
from oncestream.broker.clock import Clock
from oncestream.broker.first_use import FirstUse
from oncestream.broker.handlers.metadata import handle
from oncestream.broker.node import Node
from oncestream.broker.settings import BrokerSettings
from oncestream.testing.disk import DiskFaults, FaultyDisk
from oncestream.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from oncestream.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.broker.conftest import Connect, StartBroker
from tests.broker.kit import BrokerInThread, Wire, create_topic, error_name, metadata, new_name, wait_until


def first_use(*names: str) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=True
    )


def is_there(wire: Wire, name: str) -> bool:
    return metadata(wire, [name])[0].error_code == 0


@pytest.mark.parametrize("version", [0, 3, 4, 9, 13])
def test_a_deleted_topic_is_gone_before_it_is_made_anew_on_first_use(wire: Wire, version: int) -> None:
    old = create_topic(wire)
    name = old.name or ""
    gone = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=15_000)
    assert wire.ask(gone, 6, DeleteTopicsResponse).responses[0].error_code == 0
    wait_until(lambda: not is_there(wire, name))  # on Apache Kafka that takes a moment
    told = wire.ask(first_use(name), version, MetadataResponse).topics[0]
    assert (error_name(told.error_code), told.name, told.partitions) == (
        "UNKNOWN_TOPIC_OR_PARTITION",
        name,
        [],
    )
    wait_until(lambda: is_there(wire, name))
    assert metadata(wire, [name])[0].topic_id != old.topic_id


def test_a_topic_is_made_once_however_many_ask_for_it(wire: Wire) -> None:
    name = new_name()
    for _ in range(20):  # in one go
        wire.send(first_use(name), 12)
    told = [wire.receive(MetadataResponse, 12).topics[0] for _ in range(20)]
    assert told[0].error_code != 0
    wait_until(lambda: is_there(wire, name))
    ids = {topic.topic_id for topic in told if topic.error_code == 0}
    assert ids <= {metadata(wire, [name])[0].topic_id}


@pytest.mark.parametrize("fault", ["the name collides", "the disk is full"])
def test_what_cannot_be_made_is_logged_once_and_nothing_is_left_of_it(
    tmp_path: Path, fault: str, connect: Connect, warnings_logged: Callable[[], list[str]]
) -> None:
    disk = FaultyDisk()
    with BrokerInThread(tmp_path / "data", disk=disk) as broker:
        wire = connect(broker.bootstrap_servers)
        create_topic(wire, "taken.name")
        if fault == "the disk is full":
            disk.set_faults(DiskFaults(room_bytes=0))
        for _ in range(3):
            told = wire.ask(first_use("taken_name"), 12, MetadataResponse).topics[0]
            assert error_name(told.error_code) == "UNKNOWN_TOPIC_OR_PARTITION"
        assert len([line for line in warnings_logged() if "taken_name" in line]) == 1
        assert list((tmp_path / "data").glob("taken_name-*")) == []
        disk.set_faults(DiskFaults())
        assert is_there(wire, "taken.name")


def test_a_topic_that_could_not_be_made_is_made_once_it_can(
    tmp_path: Path, connect: Connect, warnings_logged: Callable[[], list[str]]
) -> None:
    disk = FaultyDisk()
    with BrokerInThread(tmp_path / "data", disk=disk) as broker:
        wire = connect(broker.bootstrap_servers)
        disk.set_faults(DiskFaults(room_bytes=0))
        wire.ask(first_use("events"), 12, MetadataResponse)
        wait_until(lambda: any("events" in line for line in warnings_logged()))
        disk.set_faults(DiskFaults())
        wire.ask(first_use("events"), 12, MetadataResponse)
        wait_until(lambda: is_there(wire, "events"))


def test_a_broker_that_stops_before_the_topic_is_made_leaves_nothing_of_it(tmp_path: Path) -> None:
    async def ask_and_stop() -> None:
        node = Node(BrokerSettings(data=tmp_path), asyncio.get_running_loop(), Clock())
        told = handle(first_use("events"), Call(node, 12, 1, "test", "127.0.0.1:1")).topics[0]
        assert error_name(told.error_code) == "UNKNOWN_TOPIC_OR_PARTITION"
        await node.close()
        await asyncio.sleep(0)  # what was to be done soon has had its turn

    async def names() -> list[str]:
        node = Node(BrokerSettings(data=tmp_path), asyncio.get_running_loop(), Clock())
        await node.close()
        return list(node.topics)

    asyncio.run(ask_and_stop())
    assert asyncio.run(names()) == []
    assert list(tmp_path.glob("events-*")) == []


def test_the_room_for_partitions_is_checked_before_the_answer(
    start_broker: StartBroker, connect: Connect
) -> None:
    wire = connect(start_broker(default_partitions=3, partitions_max=5).bootstrap_servers)
    wire.ask(first_use("one", "two"), 12, MetadataResponse)
    wait_until(lambda: is_there(wire, "one"))
    told = wire.ask(first_use("two"), 12, MetadataResponse).topics[0]
    assert (error_name(told.error_code), is_there(wire, "two")) == ("POLICY_VIOLATION", False)


def test_each_topic_is_made_in_a_turn_of_its_own() -> None:
    """A request with many names holds nobody up for longer than one of them takes."""
    loop = asyncio.new_event_loop()
    turns: list[str] = []
    awaited = FirstUse(loop)
    for name in ("a", "b", "a", "c"):
        awaited.make_soon(name, partial(turns.append, name))
    for _ in range(3):
        loop.call_soon(loop.stop)
        loop.run_forever()
        turns.append("-")
    loop.close()
    assert turns == ["a", "-", "b", "-", "c", "-"]
