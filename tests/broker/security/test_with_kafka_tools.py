"""kafka-acls and kafka-configs, Apache Kafka's own tools, against both brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.kit import new_name, wait_until
from tests.broker.security.rights import ADMIN, PATIENCE_S, SECRET
from tests.java_tools import KafkaTools

pytestmark = pytest.mark.java

ACLS = "org.apache.kafka.tools.AclCommand"
CONFIGS = "kafka.admin.ConfigCommand"


@pytest.fixture
def as_admin(tmp_path: Path) -> str:
    """A file by which a tool logs in."""
    login = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{ADMIN}"'
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={login} password="{SECRET}";\n'
    )
    return str(file)


def test_kafka_acls_adds_lists_and_removes(kafka_tool: KafkaTools, secured: str, as_admin: str) -> None:
    topic = new_name()

    def run(*arguments: str) -> str:
        done = kafka_tool(ACLS, "--bootstrap-server", secured, "--command-config", as_admin, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    rule = ("--allow-principal", "User:carol", "--operation", "Read", "--operation", "Describe")
    run("--add", *rule, "--topic", topic, "--resource-pattern-type", "prefixed")
    wait_until(
        lambda: run("--list", "--topic", topic, "--resource-pattern-type", "match").count("carol") == 2
    )
    assert "carol" not in run("--list", "--topic", topic)
    run("--remove", *rule, "--topic", topic, "--resource-pattern-type", "prefixed", "--force")
    wait_until(lambda: "carol" not in run("--list", "--topic", topic, "--resource-pattern-type", "match"))


def test_kafka_configs_sets_shows_and_removes_quotas(
    kafka_tool: KafkaTools, secured: str, as_admin: str
) -> None:
    who = (
        "--entity-type",
        "users",
        "--entity-name",
        new_name(),
        "--entity-type",
        "clients",
        "--entity-default",
    )

    def run(*arguments: str) -> str:
        done = kafka_tool(
            CONFIGS, "--bootstrap-server", secured, "--command-config", as_admin, *who, *arguments
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("--alter", "--add-config", "producer_byte_rate=1024,request_percentage=50")
    wait_until(lambda: "producer_byte_rate=1024" in run("--describe"), PATIENCE_S)
    assert "request_percentage=50" in run("--describe")
    run("--alter", "--delete-config", "producer_byte_rate,request_percentage")
    wait_until(lambda: "producer_byte_rate" not in run("--describe"), PATIENCE_S)
