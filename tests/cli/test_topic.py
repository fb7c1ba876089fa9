"""`oncestream topic`."""

from __future__ import annotations

import pytest

from tests.cli.in_process import Cli
from tests.client.kit import wait_until


def test_topics_are_made_described_altered_and_deleted(cli: Cli, name: str) -> None:
    assert cli.ok("topic", "create", name, "--partitions", "2", "-c", "retention.ms=1000000") == ""
    assert {"topic": name, "partitions": 2, "replicas": 1, "internal": False} in cli.json("topic", "list")
    described = cli.json("topic", "describe", name)
    partition = {"leader": 1, "replicas": [1], "in_sync": [1], "earliest": 0, "last_stable": 0, "end": 0}
    assert described == {
        "topic": name,
        "internal": False,
        "replicas": 1,
        "configs": {"retention.ms": "1000000"},
        "partitions": [{"partition": number, **partition} for number in range(2)],
    }
    cli.ok("topic", "alter", name, "--partitions", "3", "-c", "retention.ms=", "-c", "cleanup.policy=compact")
    wait_until(lambda: cli.json("topic", "describe", name)["configs"] == {"cleanup.policy": "compact"})
    assert len(cli.json("topic", "describe", name)["partitions"]) == 3
    assert len(cli.json("topic", "describe", name, "--all")["configs"]) > 10
    cli.ok("topic", "delete", name, "--yes")
    wait_until(lambda: name not in [row["topic"] for row in cli.json("topic", "list", "--all")])


def test_the_table_of_a_topic_and_its_offsets(cli: Cli, name: str) -> None:
    cli.ok("topic", "create", name)
    cli.ok("produce", name, "--transaction-size", "0", stdin="a\nb\n")
    cli.await_end_of_transactions(name)
    assert cli.ok("topic", "describe", name) == (
        f"topic       {name}\n"
        "internal    no\n"
        "replicas    1\n"
        "configs     -\n"
        "\n"
        "partitions:\n"
        "partition   leader   replicas   in_sync   earliest   last_stable   end\n"
        "──────────────────────────────────────────────────────────────────────\n"
        "        0        1   1          1                0             3     3\n"
    )
    assert cli.ok("topic", "offsets", name) == (
        "topic               partition   earliest   last_stable   end\n"
        "────────────────────────────────────────────────────────────\n"
        f"{name}           0          0             3     3\n"
    )


def test_the_list_in_all_forms(fresh: Cli) -> None:
    fresh.ok("topic", "create", "b", "apps.pump.warning", "--partitions", "2")
    fresh.ok("consume", "b", "--group", "g")
    assert fresh.ok("topic", "list") == (
        "topic               partitions   replicas   internal\n"
        "────────────────────────────────────────────────────\n"
        "apps.pump.warning            2          1   no\n"
        "b                            2          1   no\n"
    )
    assert fresh.ok("topic", "list", "-o", "yaml").splitlines()[:4] == [
        '- topic: "apps.pump.warning"',
        "  partitions: 2",
        "  replicas: 1",
        "  internal: false",
    ]
    assert fresh.json("topic", "list")[1] == {"topic": "b", "partitions": 2, "replicas": 1, "internal": False}


def test_a_dry_run_changes_nothing(cli: Cli, name: str) -> None:
    assert cli("topic", "create", name, "--dry-run").err == f"would create topic {name}\n"
    assert name not in [row["topic"] for row in cli.json("topic", "list")]
    cli.ok("topic", "create", name)
    told = cli("topic", "alter", name, "--partitions", "4", "-c", "retention.ms=5", "--dry-run")
    assert told.err == f"would set retention.ms of {name} to 5\nwould grow {name} from 1 to 4 partitions\n"
    assert cli("topic", "delete", name, "--dry-run").err == f"would delete topic {name} and all its records\n"
    described = cli.json("topic", "describe", name)
    assert (len(described["partitions"]), described["configs"]) == (1, {})


def test_nothing_is_deleted_without_a_yes(cli: Cli, name: str) -> None:
    cli.ok("topic", "create", name)
    told = cli.refused(9, "topic", "delete", name)
    assert told.startswith(f"about to delete topic {name} and all its records\n")
    assert "there is no terminal to ask at" in told
    cli.ok("topic", "describe", name)


@pytest.mark.parametrize("verb", ["describe", "delete", "offsets"])
def test_a_topic_that_is_not_there_is_told_at_once(cli: Cli, name: str, verb: str) -> None:
    assert f"there is no topic or partition {name}" in cli.refused(5, "topic", verb, name)


BAD = [
    (2, ["create", "/a b:c"], "'a b' holds more than"),
    (2, ["create", "../../etc/passwd"], "neither /path/of/stream:topic nor the name of a Kafka topic"),
    (2, ["create", "x" * 250], "250 characters"),
    (2, ["create", "x", "--partitions", "many"], "--partitions"),
    (2, ["create", "x", "--partitions", "0"], "--partitions"),
    (2, ["create", "x", "-c", "retention.ms"], "it is not name=value"),
    (2, ["create"], "topics"),
    (2, ["alter", "x"], "neither --partitions nor --config"),
    (2, ["list", "-o", "xml"], "xml"),
    (2, ["fly"], "No such command 'fly'"),
]


@pytest.mark.parametrize(("code", "arguments", "told"), BAD)
def test_bad_input_is_refused(nowhere: Cli, code: int, arguments: list[str], told: str) -> None:
    assert told in nowhere.refused(code, "topic", *arguments)


def test_what_the_broker_refuses_is_told(cli: Cli, name: str) -> None:
    assert "INVALID_CONFIG" in cli.refused(5, "topic", "create", name, "-c", "retention.ms=soon")
    cli.ok("topic", "create", name, "--partitions", "2")
    assert "TOPIC_ALREADY_EXISTS" in cli.refused(5, "topic", "create", name)
    cli.ok("topic", "create", name, "--if-not-exists")
    assert "INVALID_PARTITIONS" in cli.refused(5, "topic", "alter", name, "--partitions", "1")
