"""`oncestream txn`: who holds what, and ending it by force."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from oncestream.client.cluster import Cluster
from oncestream.client.settings import ClientSettings
from oncestream.client.topic_partition import TopicPartition
from oncestream.client.transactions import Producer as Unknown
from tests.cli.in_process import Cli
from tests.client.kit import wait_until
from tests.client.test_inspection import late_write, verify_transactions
from tests.conftest import Target

TIMEOUT_S = 60
HOUR_S = 3_600


@pytest.fixture
def open_txn(cli: Cli, name: str, bootstrap: str) -> Iterator[Producer]:
    """A transaction of the topic's name that has written one record, after one that is committed; a group waits."""
    cli.ok("topic", "create", name)
    cli.ok("produce", name, stdin="before\n")
    cli.ok("consume", name, "--group", name)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce(name, "held")
    assert producer.flush(TIMEOUT_S) == 0
    yield producer
    producer.purge()


def test_an_open_transaction_is_listed_and_described(cli: Cli, name: str, open_txn: Producer) -> None:
    [row] = [row for row in cli.json("txn", "list", "--state", "Ongoing") if row["transactional_id"] == name]
    assert 0 <= row.pop("seconds") < HOUR_S
    producer_id = row.pop("producer_id")
    assert row == {"transactional_id": name, "state": "Ongoing", "partitions": 1}
    assert name in cli.ok("txn", "list", "--older-than", "0")
    assert name not in cli.ok("txn", "list", "--older-than", str(HOUR_S))
    told = cli.json("txn", "describe", name)
    assert (told["state"], told["partitions"], told["timeout_ms"]) == ("Ongoing", [f"{name}-0"], 60_000)
    [held] = told["open"]
    held.pop("seconds")
    held.pop("epoch")
    assert held == {
        "topic": name,
        "partition": 0,
        "producer_id": producer_id,
        "start_offset": 1,
        "last_stable": 1,
        "end": 2,
        "holds": True,
        "transactional_id": name,
        "waiting_groups": [name],
    }
    open_txn.abort_transaction(TIMEOUT_S)
    cli.await_end_of_transactions(name)
    assert cli.json("txn", "describe", name)["open"] == []


def test_a_live_transaction_is_aborted_only_by_force(cli: Cli, name: str, open_txn: Producer) -> None:
    abort = ("txn", "abort", "--topic", name, "--partition", "0")
    told = cli.refused(7, *abort, "--yes")
    assert f"the transaction of '{name}' may be alive (Ongoing, for" in told
    shown = cli(*abort, "--force", "--dry-run").err
    assert shown.startswith(f"would abort, in {name}-0, the transaction of producer ")
    assert shown.endswith(f"({name}) from offset 1; groups that wait: {name}\n")
    cli.refused(9, *abort, "--force")
    assert cli.json("topic", "offsets", name)[0]["last_stable"] == 1
    cli.ok(*abort, "--force", "--yes")
    assert cli.json("topic", "offsets", name)[0]["last_stable"] == 3
    assert cli.ok("consume", name) == "before\n"
    assert f"there is no transaction of any producer in {name}-0" in cli.refused(
        5, *abort, "--force", "--yes"
    )


def test_a_transaction_that_its_coordinator_knows_does_not_hang(
    cli: Cli, name: str, open_txn: Producer
) -> None:
    assert cli.json("txn", "find-hanging", "--topic", name, "--older-than", "0") == []
    open_txn.abort_transaction(TIMEOUT_S)
    assert cli.ok("txn", "find-hanging", "--topic", name) == (
        "topic   partition   producer_id   epoch   start_offset   seconds   transactional_id\n"
        "───────────────────────────────────────────────────────────────────────────────────\n"
    )


@pytest.mark.java
def test_a_hanging_transaction_is_found_and_aborted(apache_kafka: Target, tmp_path: Path, name: str) -> None:
    servers = apache_kafka.bootstrap_servers
    cli = Cli(tmp_path, servers)
    cli.ok("topic", "create", name)
    cluster = Cluster(ClientSettings.of(servers))
    verify_transactions(servers, False)
    try:
        # 987,655 is a producer that no coordinator has ever heard of.
        wait_until(lambda: late_write(cluster, TopicPartition(name, 0), Unknown(987_655, 0)))
    finally:
        verify_transactions(servers, True)
        cluster.close()
    cli.ok("produce", name, stdin="after\n")
    [found] = cli.json("txn", "find-hanging", "--topic", name, "--older-than", "0")
    assert 0 <= found.pop("seconds") < HOUR_S
    assert found == {
        "topic": name,
        "partition": 0,
        "producer_id": 987_655,
        "epoch": 0,
        "coordinator_epoch": -1,
        "start_offset": 0,
        "transactional_id": None,
    }
    assert cli.ok("consume", name) == ""
    abort = ("txn", "abort", "--topic", name, "--partition", "0")
    assert "'producer 987655' may be alive (no coordinator knows it, for" in cli.refused(7, *abort, "--yes")
    cli.ok(*abort, "--yes", "--force")
    assert cli.ok("consume", name) == "after\n"
    assert cli.json("txn", "find-hanging", "--topic", name, "--older-than", "0") == []


def test_what_is_not_there_is_told(cli: Cli, name: str) -> None:
    assert f"there is no transaction of {name}" in cli.refused(5, "txn", "describe", name)
    assert "there is no topic" in cli.refused(5, "txn", "find-hanging", "--topic", name)
    assert "there is no topic" in cli.refused(5, "txn", "abort", "--topic", name, "--partition", "0")
    assert "Sleeping" in cli.refused(2, "txn", "list", "--state", "Sleeping")
