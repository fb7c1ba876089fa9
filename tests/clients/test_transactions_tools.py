"""Apache Kafka's own tools for groups and transactions, as its shell scripts start them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from oncestream import Broker
from oncestream.testing.kafka_jars import run_tool
from tests.clients.client import TIMEOUT_S, Message
from tests.clients.confluent import Confluent
from tests.clients.conftest import NewTopic, wait_until
from tests.java_tools import KafkaTools

pytestmark = pytest.mark.java

START_MS = 1_700_000_000_000  # 2023-11-14T22:13:20Z
TOOLS = {
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
}

Tool = Callable[..., str]


def tool_for(kafka_tool: KafkaTools, bootstrap: str) -> Tool:
    """Runs a tool by the name of its script and gives what it printed; it must succeed."""

    def run(name: str, *arguments: str) -> str:
        done = kafka_tool(TOOLS[name], "--bootstrap-server", bootstrap, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture
def tool(kafka_tool: KafkaTools, bootstrap: str) -> Tool:
    return tool_for(kafka_tool, bootstrap)


@pytest.fixture
def topic(bootstrap: str, new_topic: NewTopic) -> str:
    """Two partitions of ten records each, a second apart."""
    name = new_topic(partitions=2, retention_ms="-1")
    records = [
        Message(b"x", timestamp_ms=START_MS + 1000 * n, partition=p) for n in range(10) for p in (0, 1)
    ]
    Confluent(bootstrap).produce(name, records)
    return name


@pytest.fixture
def group(bootstrap: str, topic: str) -> str:
    """A group without members that has committed 4 and 7."""
    commit(bootstrap, f"group-of-{topic}", topic, 4, 7)
    return f"group-of-{topic}"


def commit(bootstrap: str, group: str, topic: str, *offsets: int) -> None:
    with closing(Consumer({"bootstrap.servers": bootstrap, "group.id": group})) as consumer:
        positions = [TopicPartition(topic, partition, offset) for partition, offset in enumerate(offsets)]
        consumer.commit(offsets=positions, asynchronous=False)


def rows(printed: str, *columns: str) -> list[tuple[str, ...]]:
    """These columns of a table as a tool prints it; without its head."""
    lines = [line.split() for line in printed.splitlines() if line.strip()]
    head = next(line for line in lines if set(columns) <= set(line))
    places = [head.index(column) for column in columns]
    table = lines[lines.index(head) + 1 :]
    return sorted(tuple(line[place] for place in places) for line in table if len(line) > max(places))


@contextmanager
def member(bootstrap: str, group: str, topic: str, protocol: str = "classic") -> Iterator[Consumer]:
    """A consumer that owns all partitions of the topic."""
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "client.id": "watched",
        "group.protocol": protocol,
        "enable.auto.commit": False,
    }
    with closing(Consumer(config)) as consumer:
        consumer.subscribe([topic])

        def owns_all() -> bool:
            consumer.poll(0.1)
            return len(consumer.assignment()) == 2

        wait_until(owns_all)
        yield consumer


# -- groups -----------------------------------------------------------------------------------


def test_kafka_consumer_groups_describes_offsets_and_lag(tool: Tool, topic: str, group: str) -> None:
    described = tool("kafka-consumer-groups", "--describe", "--group", group)
    columns = ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID")
    assert rows(described, *columns) == [
        (group, topic, "0", "4", "10", "6", "-"),
        (group, topic, "1", "7", "10", "3", "-"),
    ]
    assert group in tool("kafka-consumer-groups", "--list").split()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_kafka_consumer_groups_describes_members_and_state(
    tool: Tool, bootstrap: str, topic: str, protocol: str
) -> None:
    group = f"{protocol}-group-of-{topic}"
    with member(bootstrap, group, topic, protocol):
        described = tool("kafka-consumer-groups", "--describe", "--group", group, "--members", "--verbose")
        ((_, _, host, client, partitions),) = rows(
            described, "GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"
        )
        assert (host, client, partitions) == ("/127.0.0.1", "watched", "2")
        assert f"{topic}:0,1" in described
        state = tool("kafka-consumer-groups", "--describe", "--group", group, "--state", "--verbose")
        assert re.search(rf"^{group}\s+\S+\s+\(1\)\s+\S+\s+Stable\s.*\s1\s*$", state, re.MULTILINE), state
        listed = tool("kafka-consumer-groups", "--list", "--state", "Stable", "--type", protocol)
        assert group in listed
    wait_until(lambda: "Empty" in tool("kafka-consumer-groups", "--describe", "--group", group, "--state"))


@pytest.mark.parametrize(
    ("wish", "offsets"),
    [
        (("--to-earliest",), ("0", "0")),
        (("--to-latest",), ("10", "10")),
        (("--to-offset", "6"), ("6", "6")),
        (("--to-datetime", "2023-11-14T22:13:22.500"), ("3", "3")),
        (("--shift-by", "-2"), ("2", "5")),
    ],
    ids=lambda value: value[0] if value[0].startswith("--") else "",
)
def test_kafka_consumer_groups_resets_offsets(
    tool: Tool, topic: str, group: str, wish: tuple[str, ...], offsets: tuple[str, str]
) -> None:
    def current() -> list[tuple[str, ...]]:
        described = tool("kafka-consumer-groups", "--describe", "--group", group)
        return rows(described, "PARTITION", "CURRENT-OFFSET")

    reset = ("--reset-offsets", "--group", group, "--topic", topic, *wish)
    planned = tool("kafka-consumer-groups", *reset, "--dry-run")
    assert rows(planned, "PARTITION", "NEW-OFFSET") == [("0", offsets[0]), ("1", offsets[1])]
    assert current() == [("0", "4"), ("1", "7")]
    tool("kafka-consumer-groups", *reset, "--execute")
    assert current() == [("0", offsets[0]), ("1", offsets[1])]


def test_kafka_consumer_groups_resets_nothing_while_members_are_in(
    kafka_tool: KafkaTools, bootstrap: str, topic: str, group: str
) -> None:
    with member(bootstrap, group, topic):
        reset = ("--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
        done = kafka_tool(TOOLS["kafka-consumer-groups"], "--bootstrap-server", bootstrap, *reset)
        assert "can only be reset if the group" in done.stdout + done.stderr
    assert Confluent(bootstrap).committed(topic, group, 0) == 4


def test_kafka_consumer_groups_deletes_offsets_and_groups(
    tool: Tool, bootstrap: str, topic: str, group: str
) -> None:
    deleted = tool("kafka-consumer-groups", "--delete-offsets", "--group", group, "--topic", f"{topic}:0")
    assert "Request succeeded for deleting offsets" in deleted
    assert Confluent(bootstrap).committed(topic, group, 0) is None
    assert Confluent(bootstrap).committed(topic, group, 1) == 7
    assert "successful" in tool("kafka-consumer-groups", "--delete", "--group", group)
    wait_until(lambda: group not in tool("kafka-consumer-groups", "--list").split())
    assert Confluent(bootstrap).committed(topic, group, 1) is None


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_what_kafka_verifiable_producer_writes_kafka_verifiable_consumer_reads(
    java: None, bootstrap: str, new_topic: NewTopic, protocol: str
) -> None:
    topic = new_topic(partitions=2)
    written = events("VerifiableProducer", bootstrap, topic, "--acks", "-1")
    acknowledged = [event for event in written if event["name"] == "producer_send_success"]
    assert sorted(int(event["value"]) for event in acknowledged) == list(range(1000))

    wish = ("--group-id", f"group-of-{topic}", "--group-protocol", protocol, "--verbose")
    read = events("VerifiableConsumer", bootstrap, topic, *wish)
    records = [event for event in read if event["name"] == "record_data"]
    assert sorted(int(event["value"]) for event in records) == list(range(1000))
    assert {event["name"] for event in read} >= {
        "startup_complete", "partitions_assigned", "partitions_revoked", "offsets_committed", "shutdown_complete",
    }  # fmt: skip
    assert all(event["success"] for event in read if event["name"] == "offsets_committed")


def events(tool: str, bootstrap: str, topic: str, *arguments: str) -> list[dict[str, Any]]:
    """What a tool of Kafka's system tests tells; in a JVM of its own, for its last words come as it exits."""
    common = ("--bootstrap-server", bootstrap, "--topic", topic, "--max-messages", "1000")
    done = run_tool(f"org.apache.kafka.tools.{tool}", *common, *arguments)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


# -- transactions -----------------------------------------------------------------------------


@contextmanager
def open_transaction(bootstrap: str, transactional_id: str, topic: str) -> Iterator[Producer]:
    """A producer with one record of an open transaction in partition 0."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "log_level": 0}
    )
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    yield producer
    producer.purge()


def last_stable_offset(bootstrap: str, topic: str) -> int:
    config = {"bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": "read_committed"}
    with closing(Consumer(config)) as consumer:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT_S)[1])


def test_kafka_transactions_lists_describes_and_finds_the_producer(
    tool: Tool, bootstrap: str, topic: str
) -> None:
    name = f"id-of-{topic}"
    with open_transaction(bootstrap, name, topic) as producer:
        listed = rows(
            tool("kafka-transactions", "list"),
            "TransactionalId", "Coordinator", "ProducerId", "TransactionState",
        )  # fmt: skip
        ((_, coordinator, producer_id, state),) = [row for row in listed if row[0] == name]
        assert (coordinator, state) == ("1", "Ongoing")
        described = tool("kafka-transactions", "describe", "--transactional-id", name)
        columns = ("TransactionalId", "ProducerId", "ProducerEpoch", "TransactionTimeoutMs")
        assert rows(described, *columns) == [(name, producer_id, "0", "60000")]
        assert f"{topic}-0" in described
        found = tool("kafka-transactions", "describe-producers", "--topic", topic, "--partition", "0")
        columns = ("ProducerId", "ProducerEpoch", "LastSequence", "CurrentTransactionStartOffset")
        assert (producer_id, "0", "0", "10") in rows(found, *columns)
        hanging = tool(
            "kafka-transactions", "find-hanging", "--topic", topic, "--max-transaction-timeout", "0"
        )
        assert topic not in hanging, "its coordinator knows it"
        producer.commit_transaction(TIMEOUT_S)
        wait_until(
            lambda: "CompleteCommit" in tool("kafka-transactions", "describe", "--transactional-id", name)
        )


def test_kafka_transactions_aborts_the_transaction_that_holds_a_partition(
    tool: Tool, bootstrap: str, topic: str
) -> None:
    with open_transaction(bootstrap, f"id-of-{topic}", topic):
        assert last_stable_offset(bootstrap, topic) == 10
        tool("kafka-transactions", "abort", "--topic", topic, "--partition", "0", "--start-offset", "10")
        wait_until(lambda: last_stable_offset(bootstrap, topic) == 12)


def test_kafka_transactions_finds_nothing_hanging_after_the_transaction_log_was_lost(
    kafka_tool: KafkaTools, tmp_path: Path
) -> None:
    """The embedded broker, when it starts, ends what no coordinator knows; Apache Kafka leaves it to this tool."""
    broker = Broker(tmp_path)
    with broker:
        Confluent(broker.bootstrap_servers).create_topic("held")
        with open_transaction(broker.bootstrap_servers, "lost", "held"):
            assert last_stable_offset(broker.bootstrap_servers, "held") == 0
    for folder in tmp_path.glob("__transaction_state-*"):
        shutil.rmtree(folder)
    with broker:
        tool = tool_for(kafka_tool, broker.bootstrap_servers)
        assert "lost" not in tool("kafka-transactions", "list")
        find = ("find-hanging", "--broker-id", "1", "--max-transaction-timeout", "0")
        assert "held" not in tool("kafka-transactions", *find)
        assert last_stable_offset(broker.bootstrap_servers, "held") == 2


def test_kafka_features_tells_the_version_of_transactions(tool: Tool) -> None:
    described = tool("kafka-features", "describe")
    assert re.search(r"Feature: transaction\.version\s.*FinalizedVersionLevel: 2\s", described), described
    assert re.search(r"Feature: group\.version\s.*FinalizedVersionLevel: 1\s", described), described
