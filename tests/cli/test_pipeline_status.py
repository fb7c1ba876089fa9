"""`oncestream pipeline list` and `status`, from what pipelines leave in Kafka."""

from __future__ import annotations

import json

import pytest

from oncestream.client.cluster import Cluster
from oncestream.client.offsets import Committed, commit_offsets
from oncestream.client.settings import ClientSettings
from oncestream.client.topic_partition import TopicPartition
from tests.cli.in_process import Cli


@pytest.fixture
def pipeline(cli: Cli, name: str, bootstrap: str) -> str:
    """One that has committed batch 4 after the first of three records."""
    cli.ok("topic", "create", name)
    cli.ok("produce", name, "--transaction-size", "1", stdin="1\n2\n3\n")
    cli.await_end_of_transactions(name)
    cluster = Cluster(ClientSettings.of(bootstrap))
    marker = json.dumps({"query": "q-1", "batch": 4})
    commit_offsets(cluster, name, {TopicPartition(name, 0): Committed(2, marker)})
    cluster.close()
    return name


def test_progress_and_lag_of_a_pipeline(cli: Cli, pipeline: str) -> None:
    told = cli.json("pipeline", "status", pipeline)
    [source] = told["sources"]
    assert told.pop("seconds") == pytest.approx(source.pop("seconds"))
    assert told == {
        "pipeline": pipeline,
        "query": "q-1",
        "batch": 4,
        "lag": 2,
        "exact": True,
        "transaction": None,
        "other_sources": [],
        "sources": [{"topic": pipeline, "partition": 0, "offset": 2, "end": 6, "lag": 2, "exact": True}],
    }
    [row] = [row for row in cli.json("pipeline", "list") if row["pipeline"] == pipeline]
    assert (row["query"], row["batch"], row["lag"]) == ("q-1", 4, 2)


def test_a_pipeline_that_reads_files_is_known_from_its_progress_record(cli: Cli, name: str) -> None:
    cli.ok("topic", "create", "oncestream.progress", "-c", "cleanup.policy=compact", "--if-not-exists")
    records = [
        {"key": {"pipeline": name}, "value": {"query": "q", "batch": batch, "sources": ["{file}"]}}
        for batch in (6, 7)
    ]
    run = {"key": {"pipeline": name, "run": "monday"}, "value": {"run": "monday", "at_ms": 1}}
    lines = "\n".join(json.dumps({**each, "key": json.dumps(each["key"])}) for each in [*records, run])
    cli.ok("produce", "oncestream.progress", "--json", "--transaction-size", "0", stdin=lines)
    cli.await_end_of_transactions("oncestream.progress")
    told = cli.json("pipeline", "status", name)
    assert (told["query"], told["batch"], told["lag"]) == ("q", 7, None)
    assert (told["other_sources"], told["sources"]) == (["{file}"], [])


def test_a_group_that_is_no_pipeline_is_none(cli: Cli, name: str) -> None:
    cli.ok("topic", "create", name)
    cli.ok("produce", name, stdin="1\n")
    cli.ok("consume", name, "--group", name)
    assert name not in cli.ok("pipeline", "list")
    assert f"pipeline '{name}' has committed nothing" in cli.refused(5, "pipeline", "status", name)
