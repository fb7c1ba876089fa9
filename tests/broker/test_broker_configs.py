"""The broker's own configurations: changed by clients while it runs, on the embedded broker as on Apache Kafka."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncestream import Broker
from oncestream.testing.disk import DiskFaults, FaultyDisk
from oncestream.testing.ports import free_address
from oncestream.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.broker.config_kit import (
    APPEND,
    BROKER,
    CLUSTER,
    DELETE,
    LOGGER,
    NODE,
    SET,
    SUBTRACT,
    TOPIC,
    Change,
    chain,
    change,
    config,
    described,
    replace_all,
)
from tests.broker.conftest import Connect, StartBroker
from tests.broker.kit import (
    BrokerInThread,
    ClosedByBrokerError,
    Wire,
    batch,
    create_topic,
    error_name,
    metadata,
    produce,
    wait_until,
)

DONE = ("NONE", None)
OF_TOPIC, OF_BROKER, OF_CLUSTER, STATIC, DEFAULT = 1, 2, 3, 4, 5
INTERVAL, INTERVAL_OF_TOPIC = "log.index.interval.bytes", "index.interval.bytes"
RETENTION, POLICY = "log.retention.ms", "log.cleanup.policy"
USED = (INTERVAL, RETENTION, POLICY)


@pytest.fixture
def changing(wire: Wire) -> Iterator[Wire]:
    """A connection to a broker whose configurations are put back."""
    yield wire
    for name in (NODE, CLUSTER):
        assert change(wire, BROKER, name, *((key, DELETE, None) for key in USED)) == DONE
    wait_until(lambda: all(config(wire, BROKER, NODE, key).config_source == DEFAULT for key in USED))


def test_topics_without_a_value_of_their_own_follow_the_broker_and_then_the_cluster(changing: Wire) -> None:
    follows, stays = create_topic(changing), create_topic(changing, configs={INTERVAL_OF_TOPIC: "3000"})
    default = (INTERVAL, "4096", DEFAULT)

    def now(topic: str | None) -> list[tuple[str, str | None, int]]:
        return chain(config(changing, TOPIC, topic or "", INTERVAL_OF_TOPIC))

    def soon(*levels: tuple[str, str | None, int]) -> None:
        expected = [*levels, default]
        wait_until(lambda: now(follows.name) == expected)
        entry = config(changing, BROKER, NODE, INTERVAL)
        assert (chain(entry), entry.value, entry.read_only) == (expected, expected[0][1], False)
        assert now(stays.name) == [(INTERVAL_OF_TOPIC, "3000", OF_TOPIC), *expected]

    soon()
    assert change(changing, BROKER, CLUSTER, (INTERVAL, SET, "1000")) == DONE
    soon((INTERVAL, "1000", OF_CLUSTER))
    assert change(changing, BROKER, NODE, (INTERVAL, SET, "2000")) == DONE
    soon((INTERVAL, "2000", OF_BROKER), (INTERVAL, "1000", OF_CLUSTER))
    assert chain(config(changing, BROKER, CLUSTER, INTERVAL)) == [(INTERVAL, "1000", OF_CLUSTER)]
    assert change(changing, BROKER, CLUSTER, (INTERVAL, DELETE, None)) == DONE
    soon((INTERVAL, "2000", OF_BROKER))
    assert change(changing, BROKER, NODE, (INTERVAL, DELETE, None)) == DONE
    soon()


def test_what_is_unset_falls_back_to_a_setting_of_another_name(changing: Wire) -> None:
    topic = create_topic(changing).name or ""
    for kind, name, key, value in (
        (BROKER, NODE, RETENTION, None),
        (TOPIC, topic, "retention.ms", "604800000"),
    ):
        entry = config(changing, kind, name, key)
        assert (entry.value, entry.config_source, entry.synonyms) == (value, DEFAULT, [])
    assert change(changing, BROKER, NODE, (RETENTION, SET, "700000000")) == DONE
    expected = [(RETENTION, "700000000", OF_BROKER), ("log.retention.hours", "168", DEFAULT)]
    for kind, name, key in ((BROKER, NODE, RETENTION), (TOPIC, topic, "retention.ms")):
        wait_until(lambda: chain(config(changing, kind, name, key)) == expected)  # noqa: B023
    assert config(changing, BROKER, NODE, "log.retention.hours").value == "168"


def test_lists_grow_and_shrink(changing: Wire) -> None:
    for how, value, expected in (
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
    ):
        assert change(changing, BROKER, NODE, (POLICY, how, value)) == DONE
        wait_until(lambda: config(changing, BROKER, NODE, POLICY).value == expected)  # noqa: B023


def test_alter_configs_takes_away_what_it_does_not_name(changing: Wire) -> None:
    assert change(changing, BROKER, NODE, (INTERVAL, SET, "1000")) == DONE
    wait_until(lambda: config(changing, BROKER, NODE, INTERVAL).config_source == OF_BROKER)
    assert replace_all(changing, BROKER, NODE, (RETENTION, "700000000")) == DONE
    wait_until(lambda: config(changing, BROKER, NODE, INTERVAL).config_source == DEFAULT)
    wait_until(lambda: config(changing, BROKER, NODE, RETENTION).config_source == OF_BROKER)


def test_what_is_only_checked_changes_nothing(changing: Wire) -> None:
    assert change(changing, BROKER, NODE, (INTERVAL, SET, "1000"), only_check=True) == DONE
    assert change(changing, BROKER, NODE, (INTERVAL, SET, "no"), only_check=True)[0] == "INVALID_REQUEST"
    assert config(changing, BROKER, NODE, INTERVAL).config_source == DEFAULT


FIXED = "Cannot update these configs dynamically: "
WRONG = "Invalid value {} for configuration {}: "


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([("num.partitions", SET, "3")], FIXED + "[num.partitions]"),
        ([("node.id", SET, "3"), (INTERVAL, SET, "1000"), ("log.dirs", SET, "x")], FIXED),
        ([("log.retention.hours", SET, "3")], FIXED + "[log.retention.hours]"),
        ([(RETENTION, SET, "soon")], WRONG.format("soon", RETENTION) + "Not a number of type LONG"),
        ([(RETENTION, SET, "0")], "must be"),
        ([("log.segment.bytes", SET, "10")], WRONG.format(10, "log.segment.bytes") + "Value must be at least"),
        ([("message.max.bytes", SET, "-1")], "Value must be at least 0"),
        ([("compression.type", SET, "zip")], "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"),
        ([(POLICY, SET, "keep")], "String must be one of: compact, delete"),
        ([("log.cleaner.min.cleanable.ratio", SET, "7")], "Value must be no more than 1"),
        ([("producer.id.expiration.ms", SET, "0")], "Value must be at least 1"),
        ([("max.connections", SET, "-1")], "Value must be at least"),
        ([(RETENTION, SET, None)], "Null value not supported for : " + RETENTION),
        ([(RETENTION, SET, "1"), (RETENTION, DELETE, None)], "Error due to duplicate config keys"),
        ([(RETENTION, 9, "1")], "Unknown operations type 9"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", [NODE, CLUSTER])
def test_a_change_that_cannot_be_is_refused_as_a_whole(
    wire: Wire, name: str, changes: list[Change], message: str
) -> None:
    error, told = change(wire, BROKER, name, *changes)
    assert (error, message in (told or "")) == ("INVALID_REQUEST", True), told
    assert config(wire, BROKER, NODE, INTERVAL).config_source == DEFAULT


def test_of_other_brokers_nothing_is_told_and_nothing_changed(wire: Wire) -> None:
    for name, message in (
        ("7", "Unexpected broker id, expected 1"),
        ("x", "must be an integer, but it is: x"),
    ):
        error, told = change(wire, BROKER, name, (INTERVAL, SET, "1"))
        assert (error, message in (told or "")) == ("INVALID_REQUEST", True), told
        result = described(wire, BROKER, name)
        assert (error_name(result.error_code), message in (result.error_message or "")) == (error, True)
    assert change(wire, BROKER, NODE, (INTERVAL, APPEND, "1"))[0] == "INVALID_CONFIG"


@pytest.mark.parametrize("name", ["01", "1" * 5_000], ids=["zero", "long"])
def test_a_broker_has_one_name(start_broker: StartBroker, connect: Connect, name: str) -> None:
    wire = connect(start_broker().bootstrap_servers)
    assert change(wire, BROKER, name, (INTERVAL, SET, "1"))[0] == "INVALID_REQUEST"
    assert error_name(described(wire, LOGGER, name).error_code) == "INVALID_REQUEST"
    assert config(wire, BROKER, NODE, INTERVAL).value == "4096"


def test_what_was_never_set_can_be_taken_away(wire: Wire) -> None:
    """So Kafka's tools clear throttles."""
    for name in (NODE, CLUSTER):
        for key in ("leader.replication.throttled.rate", "num.partitions", INTERVAL):
            assert change(wire, BROKER, name, (key, DELETE, None)) == DONE


def test_a_change_is_durable_before_it_is_answered(tmp_path: Path) -> None:
    address, limit = free_address(), "message.max.bytes"
    with Broker(tmp_path, process=True, listen=address) as broker:
        with Wire(address) as wire:
            topic = create_topic(wire).name or ""
            assert change(wire, BROKER, CLUSTER, (limit, SET, "500"), ("max.connections", SET, "7")) == DONE
            assert change(wire, BROKER, NODE, (limit, SET, "1000")) == DONE
            assert change(wire, BROKER, NODE, (RETENTION, SET, "5"), (RETENTION, SET, "6")) != DONE
        broker.kill()
    with Broker(tmp_path, process=True, listen=address), Wire(address) as wire:
        expected = [(limit, "1000", OF_BROKER), (limit, "500", OF_CLUSTER), (limit, "1048588", DEFAULT)]
        assert chain(config(wire, BROKER, NODE, limit)) == expected
        assert config(wire, BROKER, NODE, "max.connections").value == "7"
        assert config(wire, BROKER, NODE, RETENTION).value is None
        assert error_name(produce(wire, topic, batch(b"x" * 1100)).error_code) == "MESSAGE_TOO_LARGE"
        assert produce(wire, topic, batch(b"x" * 600)).error_code == 0
        assert change(wire, BROKER, NODE, (limit, DELETE, None)) == DONE
        assert error_name(produce(wire, topic, batch(b"x" * 600)).error_code) == "MESSAGE_TOO_LARGE"
        assert change(wire, BROKER, CLUSTER, (limit, DELETE, None)) == DONE
        assert produce(wire, topic, batch(b"x" * 1100)).error_code == 0


def test_a_change_that_cannot_be_written_is_not_made(tmp_path: Path, connect: Connect) -> None:
    disk = FaultyDisk()
    with BrokerInThread(tmp_path, disk=disk) as broker:
        wire = connect(broker.bootstrap_servers)
        disk.set_faults(DiskFaults(sync_errors="*/__cluster_metadata-*"))
        assert change(wire, BROKER, NODE, (INTERVAL, SET, "1000"))[0] == "KAFKA_STORAGE_ERROR"
        assert config(wire, BROKER, NODE, INTERVAL).value == "4096"
        disk.set_faults(DiskFaults())


def test_settings_of_the_start_stand_under_what_clients_give(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(topic_defaults={"retention.ms": "1000", "cleanup.policy": "compact"})
    wire = connect(broker.bootstrap_servers)
    topic = create_topic(wire).name or ""
    static = [(RETENTION, "1000", STATIC), ("log.retention.hours", "168", DEFAULT)]
    assert chain(config(wire, TOPIC, topic, "retention.ms")) == static
    assert change(wire, BROKER, CLUSTER, (RETENTION, SET, "-1")) == DONE
    assert chain(config(wire, TOPIC, topic, "retention.ms")) == [(RETENTION, "-1", OF_CLUSTER), *static]
    assert change(wire, BROKER, NODE, (POLICY, APPEND, "delete")) == DONE
    assert config(wire, TOPIC, topic, "cleanup.policy").value == "compact,delete"


def test_a_limit_for_records_does_not_bind_the_coordinators(
    start_broker: StartBroker, connect: Connect
) -> None:
    wire = connect(start_broker().bootstrap_servers)
    begin = InitProducerIdRequest(transactional_id="first", transaction_timeout_ms=1_000)
    assert wire.ask(begin, 4, InitProducerIdResponse).error_code == 0
    assert change(wire, BROKER, CLUSTER, ("message.max.bytes", SET, "10")) == DONE
    for name in ("first", "second"):
        begin = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1_000)
        assert wire.ask(begin, 4, InitProducerIdResponse).error_code == 0


def test_the_limit_of_connections_changes_at_once(start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker()
    wire = connect(broker.bootstrap_servers)
    assert change(wire, BROKER, NODE, ("max.connections", SET, "1")) == DONE
    second = connect(broker.bootstrap_servers)
    with pytest.raises((ClosedByBrokerError, BrokenPipeError)):
        metadata(second, [])
    assert change(wire, BROKER, NODE, ("max.connections", DELETE, None)) == DONE
    assert metadata(connect(broker.bootstrap_servers), []) == []


@pytest.fixture
def levels_kept() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("oncestream", "oncestream.broker")]
    before = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


def test_levels_of_loggers_change_while_the_broker_runs(
    start_broker: StartBroker, connect: Connect, levels_kept: None
) -> None:
    wire, name = connect(start_broker().bootstrap_servers), "oncestream.broker"
    assert change(wire, LOGGER, NODE, ("root", SET, "WARN"), (name, SET, "debug")) == DONE
    assert {entry.name: entry.value for entry in described(wire, LOGGER, NODE).configs} == {
        "root": "WARN",
        name: "DEBUG",
        "oncestream.storage": "WARN",
    }
    assert logging.getLogger("oncestream.broker.anything").isEnabledFor(logging.DEBUG)
    assert change(wire, LOGGER, NODE, (name, SET, "ERROR"), only_check=True) == DONE
    assert config(wire, LOGGER, NODE, name).value == "DEBUG"
    assert change(wire, LOGGER, NODE, (name, DELETE, None)) == DONE
    entry = config(wire, LOGGER, NODE, name)
    assert (entry.value, entry.config_source, entry.read_only, entry.synonyms) == ("WARN", 6, False, [])


@pytest.mark.parametrize(
    ("name", "changed", "error", "message"),
    [
        (NODE, ("no.such.logger", SET, "DEBUG"), "INVALID_CONFIG", "Logger no.such.logger does not exist!"),
        (NODE, ("root", SET, "LOUD"), "INVALID_CONFIG", "Cannot set the log level of root to LOUD"),
        (NODE, ("root", APPEND, "DEBUG"), "INVALID_REQUEST", "APPEND operation is not allowed"),
        (NODE, ("root", DELETE, None), "INVALID_REQUEST", "Removing the log level of the root logger"),
        ("7", ("root", SET, "DEBUG"), "INVALID_REQUEST", "received 7"),
    ],
)
def test_a_level_that_cannot_be_is_refused(
    wire: Wire, name: str, changed: Change, error: str, message: str
) -> None:
    told = change(wire, LOGGER, name, changed)
    assert (told[0], message in (told[1] or "")) == (error, True), told
    assert replace_all(wire, LOGGER, NODE, ("root", "DEBUG")) == (
        "INVALID_REQUEST",
        "Unknown resource type 8",
    )
