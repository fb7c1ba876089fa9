"""Apache Kafka's own client and tools: every behaviour is a method of java/TransactionCheck.java, in one JVM."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from oncestream import Broker
from oncestream.broker.settings import Durability
from tests.broker.transactions.test_coordinator import ready
from tests.broker.transactions.world import World
from tests.clients.confluent import Confluent as Admin
from tests.clients.transactional_producers import Confluent
from tests.java_tools import KafkaTools, behaviours_of, run_behaviours

pytestmark = pytest.mark.java

PROGRAM = Path(__file__).parent / "java" / "TransactionCheck.java"
BEHAVIOURS = behaviours_of(PROGRAM)
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
DUMP = "org.apache.kafka.tools.DumpLogSegments"
FEATURES = "org.apache.kafka.tools.FeatureCommand"


@pytest.fixture(scope="module")
def outcomes(java: None, bootstrap: str) -> dict[str, str]:
    return run_behaviours(PROGRAM, bootstrap)


@pytest.mark.parametrize("behaviour", BEHAVIOURS)
def test_the_java_client(outcomes: dict[str, str], behaviour: str) -> None:
    assert outcomes[behaviour] == "ok"


def test_kafkas_tools_see_end_and_read_transactions(kafka_tool: KafkaTools, tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        bootstrap = broker.bootstrap_servers
        Admin(bootstrap).create_topic("t")
        producer = Confluent(bootstrap, "seen")
        producer.begin()
        producer.send("t", 0, b"v")
        producer.commit()
        producer.begin()
        producer.send("t", 0, b"open")

        def tool(*arguments: str) -> str:
            done = kafka_tool(TRANSACTIONS, "--bootstrap-server", bootstrap, *arguments)
            assert done.returncode == 0, done.stderr
            return done.stdout

        assert re.search(r"seen\s+1\s+\d+\s+Ongoing", tool("list"))
        assert "t-0" in tool("describe", "--transactional-id", "seen")
        assert re.search(r"^\d+\s+0\s", tool("describe-producers", "--topic", "t", "--partition", "0"), re.M)
        hanging = tool("find-hanging", "--broker-id", "1", "--max-transaction-timeout", "0")
        assert len(hanging.strip().splitlines()) == 1, "the transaction has its coordinator"
        tool("abort", "--topic", "t", "--partition", "0", "--start-offset", "2")
        assert producer.read("t", 0, committed=True) == [b"v"]
        features = kafka_tool(FEATURES, "--bootstrap-server", bootstrap, "describe").stdout
        assert re.search(r"transaction.version\s.*FinalizedVersionLevel: 2", features)
        producer.close()
    assert dumped_states(kafka_tool, tmp_path, "seen") == [0, 1, 2, 4, 1]


def test_kafkas_tool_reads_the_log_of_newer_transactions(kafka_tool: KafkaTools, tmp_path: Path) -> None:
    world = World(tmp_path, durability=Durability.OS)
    client = ready(world)
    for commit in (True, False):
        client.produce(b"v")
        client.end(commit)
    world.stop()
    assert dumped_states(kafka_tool, tmp_path, "x") == [0, 1, 2, 4, 1, 3, 5]


def dumped_states(kafka_tool: KafkaTools, folder: Path, transactional_id: str) -> list[int]:
    dumped = ""
    for log in sorted(folder.glob("__transaction_state-*/*.log")):
        done = kafka_tool(DUMP, "--transaction-log-decoder", "--files", str(log))
        assert done.returncode == 0, done.stderr
        dumped += done.stdout
    lines = [line for line in dumped.splitlines() if f'"transactionalId":"{transactional_id}"' in line]
    found = [re.search(r'"transactionStatus":(\d)', line) for line in lines]
    return [int(match[1]) for match in found if match]
