"""Apache Kafka's own command-line tools, as its shell scripts start them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients.client import Message
from tests.clients.confluent import Confluent
from tests.clients.conftest import NewTopic, wait_until
from tests.conftest import Target
from tests.java_tools import KafkaTools

pytestmark = pytest.mark.java

START_MS = 1_700_000_000_000
TOOLS = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
}

Tool = Callable[..., str]


@pytest.fixture
def tool(kafka_tool: KafkaTools, bootstrap: str) -> Tool:
    """Runs a tool by the name of its script and gives what it printed; it must succeed."""

    def run(name: str, *arguments: str, stdin: str = "") -> str:
        server = () if name == "kafka-dump-log" else ("--bootstrap-server", bootstrap)
        done = kafka_tool(TOOLS[name], *arguments, *server, stdin=stdin)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_kafka_topics_creates_lists_describes_enlarges_and_deletes(tool: Tool, unused_topic: str) -> None:
    topic = ("--topic", unused_topic)
    made = tool("kafka-topics", "--create", *topic, "--partitions", "2", "--config", "retention.ms=12345")
    assert f"Created topic {unused_topic}." in made
    wait_until(lambda: unused_topic in tool("kafka-topics", "--list").split())
    described = tool("kafka-topics", "--describe", *topic)
    assert re.search(r"PartitionCount: 2\s+ReplicationFactor: 1\s+Configs:.*retention\.ms=12345", described)
    assert len(re.findall(r"Partition: \d\s+Leader: (\d+)\s+Replicas: \1\s+Isr: \1", described)) == 2
    tool("kafka-topics", "--alter", *topic, "--partitions", "3")
    wait_until(lambda: "PartitionCount: 3" in tool("kafka-topics", "--describe", *topic))
    tool("kafka-topics", "--delete", *topic)
    wait_until(lambda: unused_topic not in tool("kafka-topics", "--list").split())


def test_kafka_topics_says_that_a_topic_exists(
    kafka_tool: KafkaTools, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    again = kafka_tool(TOOLS["kafka-topics"], "--create", "--topic", topic, "--bootstrap-server", bootstrap)
    assert again.returncode == 1
    assert f"Topic '{topic}' already exists" in again.stdout + again.stderr


def test_what_kafka_console_producer_writes_kafka_console_consumer_reads(
    tool: Tool, new_topic: NewTopic
) -> None:
    topic = new_topic()
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "parse.headers=true")
    lines = ["h:1\ta\tone", "h:2\tb\ttwo", "h:3\tc\tthree"]
    tool("kafka-console-producer", "--topic", topic, *keyed, stdin="\n".join(lines) + "\n")
    shown = ("--formatter-property", "print.key=true", "--formatter-property", "print.headers=true")
    wish = ("--partition", "0", "--offset", "1", "--max-messages", "2")
    assert tool("kafka-console-consumer", "--topic", topic, *shown, *wish).splitlines() == lines[1:]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_kafka_console_producer_writes_every_compression(
    tool: Tool, new_topic: NewTopic, compression: str
) -> None:
    topic = new_topic()
    tool("kafka-console-producer", "--topic", topic, "--compression-codec", compression, stdin="x\ny\n")
    read = tool("kafka-console-consumer", "--topic", topic, "--partition", "0", "--offset", "earliest",
                "--max-messages", "2")  # fmt: skip
    assert read.splitlines() == ["x", "y"]


def test_kafka_console_consumer_reads_in_a_group(tool: Tool, bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    Confluent(bootstrap).produce(topic, [Message(b"%d" % n, partition=n % 2) for n in range(10)])
    group = ("--group", f"group-of-{topic}", "--from-beginning", "--max-messages", "10")
    read = tool("kafka-console-consumer", "--topic", topic, *group)
    assert sorted(read.split(), key=int) == [str(n) for n in range(10)]
    wait_until(lambda: Confluent(bootstrap).committed(topic, f"group-of-{topic}", 1) == 5)


def test_kafka_configs_describes_alters_and_deletes(tool: Tool, new_topic: NewTopic) -> None:
    topic = ("--entity-type", "topics", "--entity-name", new_topic())
    tool(
        "kafka-configs",
        "--alter",
        *topic,
        "--add-config",
        "retention.ms=12345,cleanup.policy=[compact,delete]",
    )
    wait_until(lambda: "retention.ms=12345 " in tool("kafka-configs", "--describe", *topic))
    described = tool("kafka-configs", "--describe", *topic)
    assert "cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:" in described
    tool("kafka-configs", "--alter", *topic, "--delete-config", "retention.ms")
    wait_until(lambda: "retention.ms" not in tool("kafka-configs", "--describe", *topic))
    assert "retention.ms=604800000" in tool("kafka-configs", "--describe", "--all", *topic)


def test_kafka_configs_sets_describes_and_deletes_the_configs_of_a_group(
    tool: Tool, new_topic: NewTopic
) -> None:
    group = ("--entity-type", "groups", "--entity-name", f"group-of-{new_topic()}")
    name = "consumer.session.timeout.ms"
    tool("kafka-configs", "--alter", *group, "--add-config", f"{name}=50000")
    wait_until(lambda: f"{name}=50000 " in tool("kafka-configs", "--describe", *group))
    assert f"{name}=50000 " in tool("kafka-configs", "--describe", "--entity-type", "groups")
    tool("kafka-configs", "--alter", *group, "--delete-config", name)
    wait_until(lambda: name not in tool("kafka-configs", "--describe", *group))


def test_kafka_configs_describes_the_broker(tool: Tool, bootstrap: str) -> None:
    node = str(Confluent(bootstrap).cluster().nodes[0][0])
    described = tool(
        "kafka-configs", "--describe", "--all", "--entity-type", "brokers", "--entity-name", node
    )
    assert "log.retention.hours=" in described
    assert "message.max.bytes=1048588" in described


@pytest.mark.parametrize(
    ("time", "offsets"),
    [
        ("earliest", {0: 2, 1: 0}),
        ("latest", {0: 5, 1: 0}),
        ("max-timestamp", {0: 3}),
        (str(START_MS + 15), {0: 3}),
    ],
)
def test_kafka_get_offsets(
    tool: Tool, bootstrap: str, new_topic: NewTopic, time: str, offsets: dict[int, int]
) -> None:
    topic = new_topic(partitions=2, retention_ms="-1")
    client = Confluent(bootstrap)
    client.produce(topic, [Message(b"x", timestamp_ms=START_MS + stamp) for stamp in (0, 10, 11, 30, 20)])
    client.delete_records(topic, 2)
    printed = tool("kafka-get-offsets", "--topic", topic, "--time", time)
    found = {int(p): int(offset) for p, offset in re.findall(rf"{topic}:(\d):(\d+)", printed)}
    assert found == offsets


def test_kafka_delete_records_moves_the_low_watermark(
    tool: Tool, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    Confluent(bootstrap).produce(topic, [Message(b"x")] * 5)
    wish = tmp_path / "wish.json"
    wish.write_text(f'{{"version": 1, "partitions": [{{"topic": "{topic}", "partition": 0, "offset": 3}}]}}')
    assert "low_watermark: 3" in tool("kafka-delete-records", "--offset-json-file", str(wish))
    assert Confluent(bootstrap).earliest(topic) == 3


def test_what_producer_performance_writes_consumer_performance_reads(
    tool: Tool, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(partitions=2)
    written = tool(
        "kafka-producer-perf-test", "--topic", topic, "--num-records", "20000", "--record-size", "100",
        "--throughput", "-1", "--command-property", "compression.type=lz4",
    )  # fmt: skip
    assert "20000 records sent" in written
    client = Confluent(bootstrap)
    assert client.latest(topic, 0) + client.latest(topic, 1) == 20_000
    read = tool("kafka-consumer-perf-test", "--topic", topic, "--num-records", "20000").splitlines()
    columns = dict(zip(read[0].split(", "), read[1].split(", "), strict=True))
    assert int(columns["data.consumed.in.nMsg"]) == 20_000


def test_kafka_broker_api_versions_finds_all_it_knows_usable(tool: Tool, bootstrap: str) -> None:
    said = tool("kafka-broker-api-versions")
    assert bootstrap in said
    assert re.search(r"Produce\(0\): 0 to \d+ \[usable: \d+\]", said)
    assert re.search(r"Fetch\(1\): 4 to \d+ \[usable: \d+\]", said)


def test_kafka_log_dirs_finds_the_partition_and_its_size(
    tool: Tool, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    Confluent(bootstrap).produce(topic, [Message(b"x" * 1000)])
    said = tool("kafka-log-dirs", "--describe", "--topic-list", topic)
    size = re.search(rf'"partition":"{topic}-0","size":(\d+)', said)
    assert size is not None, said
    assert 1000 < int(size[1]) < 1200


def test_kafka_leader_election_finds_nothing_to_elect(tool: Tool, new_topic: NewTopic) -> None:
    one = ("--election-type", "preferred", "--topic", new_topic(), "--partition", "0")
    assert "Valid replica already elected for partitions" in tool("kafka-leader-election", *one)
    assert tool("kafka-leader-election", "--election-type", "unclean", "--all-topic-partitions") == ""


def test_kafka_reassign_partitions_finds_partitions_where_they_shall_be(
    tool: Tool, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    plan = tmp_path / "plan.json"
    partition = {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": ["any"]}
    plan.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    assert "No partition reassignments found." in tool("kafka-reassign-partitions", "--list")
    file = ("--reassignment-json-file", str(plan))
    assert "Successfully started partition reassignment" in tool(
        "kafka-reassign-partitions", *file, "--execute"
    )
    said = tool("kafka-reassign-partitions", *file, "--verify")
    assert f"Reassignment of partition {topic}-0 is completed." in said


def test_kafka_client_metrics_finds_none(tool: Tool) -> None:
    assert tool("kafka-client-metrics", "--list").strip() == ""


def test_kafka_cluster_tells_the_cluster_id(tool: Tool, bootstrap: str) -> None:
    assert f"Cluster ID: {Confluent(bootstrap).cluster().id}" in tool("kafka-cluster", "cluster-id")


def test_kafka_dump_log_reads_the_segment_that_is_being_written(
    tool: Tool, target: Target, new_topic: NewTopic
) -> None:
    topic = new_topic()
    Confluent(target.bootstrap_servers).produce(
        topic,
        [Message(b"value", key=b"%d" % n, headers=(("h", b"1"),)) for n in range(5)],
        compression="zstd",
    )
    segment = target.data_folder / f"{topic}-0" / f"{0:020}.log"
    said = tool("kafka-dump-log", "--files", str(segment), "--deep-iteration", "--print-data-log")
    assert re.findall(r"\| offset: (\d) .* key: (\d) payload: value", said) == [
        (str(n), str(n)) for n in range(5)
    ]
    assert said.count("isvalid: true") == said.count("baseOffset:") > 0
