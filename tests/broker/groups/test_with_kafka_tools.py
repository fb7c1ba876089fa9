"""Groups as Kafka's own consumer and tools see them, and what Kafka reads in our log of them."""

from __future__ import annotations

import pytest

from tests.broker.conftest import StartBroker
from tests.broker.groups.test_with_clients import PARTITIONS, make_topic
from tests.java_tools import KafkaTools

CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
DUMP_LOG = "org.apache.kafka.tools.DumpLogSegments"


@pytest.mark.java
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_java_consumer_and_kafka_consumer_groups(
    start_broker: StartBroker, kafka_tool: KafkaTools, protocol: str
) -> None:
    broker = start_broker(process=True)
    address = broker.bootstrap_servers
    topic = make_topic(address, records=100)
    at = ("--bootstrap-server", address)
    read = kafka_tool(
        CONSOLE_CONSUMER,
        *(*at, "--topic", topic, "--group", "g", "--max-messages", "100"),
        *("--command-property", f"group.protocol={protocol}"),
        *("--command-property", "auto.offset.reset=earliest"),
    )
    assert len(read.stdout.splitlines()) == 100, read.stderr

    described = kafka_tool(CONSUMER_GROUPS, *at, "--describe", "--group", "g").stdout
    rows = [line.split() for line in described.splitlines() if topic in line]
    assert sorted((row[2], row[3], row[5]) for row in rows) == [
        (str(p), "25", "0") for p in range(PARTITIONS)
    ]
    wish = ("--reset-offsets", "--to-earliest", "--topic", topic, "--execute")
    reset = kafka_tool(CONSUMER_GROUPS, *at, "--group", "g", *wish)
    assert reset.returncode == 0, reset.stderr
    listed = kafka_tool(CONSUMER_GROUPS, *at, "--list", "--state").stdout
    assert [line.split() for line in listed.splitlines() if line.startswith("g ")] == [["g", "Empty"]]
    deleted = kafka_tool(CONSUMER_GROUPS, *at, "--delete", "--group", "g")
    assert "was successful" in deleted.stdout, deleted.stderr
    broker.stop()

    logs = broker.settings.data.glob("__consumer_offsets-*/*.log")
    (log,) = [log for log in logs if log.stat().st_size]
    dumped = kafka_tool(DUMP_LOG, "--files", str(log), "--offsets-decoder")
    assert "<DELETE>" in dumped.stdout, dumped.stderr
    assert not [w for w in ("isvalid: false", "Exception", "unknown") if w in dumped.stdout + dumped.stderr]
