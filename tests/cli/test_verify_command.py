"""`oncestream verify`: what is wrong between inputs and outputs, as a person and as a script see it."""

from __future__ import annotations

import json

import pytest

from oncestream.client.cluster import Cluster
from oncestream.client.offsets import Committed, commit_offsets
from oncestream.client.settings import ClientSettings
from oncestream.client.topic_partition import TopicPartition
from tests.cli.in_process import Cli


@pytest.fixture
def topics(embedded_cli: Cli, name: str) -> tuple[str, str]:
    """Ten inputs, without outputs yet."""
    source, sink = f"{name}.in", f"{name}.out"
    for topic in (source, sink):
        embedded_cli.ok("topic", "create", topic, "--partitions", "1")
    embedded_cli.ok("produce", source, stdin=lines(10))
    return source, sink


def lines(count: int) -> str:
    return "".join(f'{{"id": {number}}}\n' for number in range(count))


def test_topics_with_every_input_once_are_clean(embedded_cli: Cli, topics: tuple[str, str]) -> None:
    source, sink = topics
    embedded_cli.ok("produce", sink, stdin=lines(10))
    told = embedded_cli.ok("verify", "--input", source, "--output", sink, "--key", "json:$.id")
    assert told.startswith("10 inputs, 10 outputs, 0 inputs not processed yet\n")
    assert told.endswith("no problem found\n")


def test_a_duplicate_and_a_gap_are_told_with_their_offsets(
    embedded_cli: Cli, topics: tuple[str, str]
) -> None:
    source, sink = topics
    embedded_cli.ok("produce", sink, stdin=lines(9) + '{"id": 3}\n')
    ended = embedded_cli("verify", "--input", source, "--output", sink, "--key", "json:$.id")
    assert ended.exit_code == 1
    assert "PROBLEM: 1 inputs without their output" in ended.out
    assert f"missing: {source}-0 offset 9 key '9'" in ended.out
    assert f"duplicate: {sink}-0 offset 9 key '3'" in ended.out
    assert "FAILED" in ended.out


def test_the_answer_as_json(embedded_cli: Cli, topics: tuple[str, str]) -> None:
    source, sink = topics
    embedded_cli.ok("produce", sink, stdin=lines(9))
    ended = embedded_cli("verify", "--input", source, "--output", sink, "-o", "json")
    content = json.loads(ended.out)
    assert ended.exit_code == 1
    assert (content["ok"], content["inputs"], content["outputs"], content["missing"]) == (False, 10, 9, 1)
    assert content["problems"][0]["offset"] == 9


def test_a_pipelines_inputs_count_as_far_as_it_has_committed(
    embedded_cli: Cli, topics: tuple[str, str]
) -> None:
    source, sink = topics
    embedded_cli.ok("produce", sink, stdin=lines(4))
    cluster = Cluster(ClientSettings.of(embedded_cli.environment["ONCESTREAM_BOOTSTRAP"]))
    commit_offsets(cluster, f"{source}.group", {TopicPartition(source, 0): Committed(4)})
    cluster.close()
    told = embedded_cli.ok("verify", "--pipeline", f"{source}.group", "--output", sink)
    assert told.startswith("4 inputs, 4 outputs, 6 inputs not processed yet\n")


def test_outputs_that_differ_from_their_input_are_told(embedded_cli: Cli, topics: tuple[str, str]) -> None:
    source, sink = topics
    embedded_cli.ok("produce", sink, stdin=lines(10).replace('{"id": 7}', '{"id": 7, "more": 1}'))
    keys = ("--key", "json:$.id", "--output-key", "json:$.id")
    assert embedded_cli("verify", "--input", source, "--output", sink, *keys).exit_code == 0
    ended = embedded_cli("verify", "--input", source, "--output", sink, *keys, "--compare", "value")
    assert ended.exit_code == 1
    assert "PROBLEM: 1 outputs that differ from their input" in ended.out


def test_what_is_not_there_is_refused(embedded_cli: Cli, topics: tuple[str, str]) -> None:
    source, sink = topics
    assert "--pipeline NAME, or --input TOPIC" in embedded_cli.refused(2, "verify", "--output", sink)
    embedded_cli.refused(5, "verify", "--input", source, "--output", f"{sink}-not")
    embedded_cli.refused(2, "verify", "--input", source, "--output", sink, "--key", "jason:$.id")
    told = embedded_cli.refused(2, "verify", "--pipeline", f"{source}.nobody", "--output", sink)
    assert "has committed nothing on this cluster" in told
