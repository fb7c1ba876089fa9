"""Audits of topics on the embedded broker: clean ones, and each way of being wrong."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncestream.client.admin import create_topics, delete_records
from oncestream.client.cluster import Cluster
from oncestream.client.offsets import Committed, commit_offsets
from oncestream.client.settings import ClientSettings
from oncestream.client.topic_partition import TopicPartition
from oncestream.client.writing import Writer
from oncestream.errors import AuditImpossible, BadKeyExpression
from oncestream.spark import progress
from oncestream.verify.audit import audit_topics
from oncestream.verify.audit_compare import Comparison, Expected, Role
from oncestream.verify.audit_report import AuditReport
from oncestream.verify.buckets import ROWS_EACH, Buckets, rows_of
from tests.client.kit import Driver, new_name, new_topic, numbered, write
from tests.conftest import Target


@pytest.fixture(scope="module")
def settings(embedded: Target) -> ClientSettings:
    return ClientSettings.of(embedded.bootstrap_servers)


@pytest.fixture(scope="module")
def cluster(settings: ClientSettings) -> Iterator[Cluster]:
    cluster = Cluster(settings)
    yield cluster
    cluster.close()


class Topics:
    """An input and an output of one partition each, and their audit by value."""

    def __init__(self, cluster: Cluster, settings: ClientSettings) -> None:
        self.cluster = cluster
        self.settings = settings
        self.input = TopicPartition(new_topic(cluster), 0)
        self.output = TopicPartition(new_topic(cluster), 0)

    def audit(self, key: str = "value", **options: object) -> AuditReport:
        options = {"input_topics": [self.input.topic], **options}
        return audit_topics(self.settings, output_topics=[self.output.topic], key=key, **options)  # type: ignore[arg-type]


@pytest.fixture
def topics(cluster: Cluster, settings: ClientSettings) -> Topics:
    return Topics(cluster, settings)


def test_an_output_with_every_input_once_in_any_order_is_clean(topics: Topics, cluster: Cluster) -> None:
    write(cluster, topics.input, numbered(1000))
    write(cluster, topics.output, numbered(1000)[::-1])
    told: list[tuple[int, int]] = []
    report = topics.audit(on_progress=lambda done, total: told.append((done, total)))
    assert report.ok, report.text()
    assert (report.inputs, report.outputs, report.problems) == (1000, 1000, ())
    assert told == sorted(told)
    assert told[-1] == (2000, 2000)


def test_aborted_outputs_do_not_count(topics: Topics, cluster: Cluster) -> None:
    write(cluster, topics.input, numbered(10))
    driver = Driver(cluster)
    driver.write(topics.output, numbered(10))
    driver.transactions.fence_abort()
    driver.write(topics.output, numbered(10))
    driver.transactions.commit()
    assert topics.audit().ok


def test_a_duplicate_is_listed_with_its_offsets(topics: Topics, cluster: Cluster) -> None:
    write(cluster, topics.input, numbered(10))
    write(cluster, topics.output, [*numbered(10), "v3"])
    report = topics.audit()
    assert (report.duplicates, report.missing, report.extra) == (1, 0, 0)
    (problem,) = report.problems
    assert (problem.kind, problem.at, problem.offset, problem.key) == ("duplicate", topics.output, 10, "v3")
    assert f"{topics.output} offset 3" in problem.text
    assert "1 outputs more often than their inputs" in report.text()


def test_a_gap_is_listed_with_the_offset_of_its_input(topics: Topics, cluster: Cluster) -> None:
    write(cluster, topics.input, numbered(10))
    write(cluster, topics.output, [value for value in numbered(10) if value != "v7"])
    report = topics.audit()
    assert (report.duplicates, report.missing, report.extra) == (0, 1, 0)
    (problem,) = report.problems
    assert (problem.kind, problem.at, problem.offset, problem.key) == ("missing", topics.input, 7, "v7")


def test_a_corrupted_value_is_a_gap_and_an_extra(topics: Topics, cluster: Cluster) -> None:
    write(cluster, topics.input, numbered(10))
    write(cluster, topics.output, [value.replace("v4", "w4") for value in numbered(10)])
    report = topics.audit()
    assert (report.duplicates, report.missing, report.extra) == (0, 1, 1)
    assert {(problem.kind, problem.offset) for problem in report.problems} == {("missing", 4), ("extra", 4)}


def test_a_value_that_changed_under_its_key_is_found_where_values_are_compared(
    topics: Topics, cluster: Cluster
) -> None:
    write(cluster, topics.input, ['{"id": 1, "x": 5}', '{"id": 2, "x": 6}'])
    write(cluster, topics.output, ['{"id": 1, "x": 5}', '{"id": 2, "x": 7}'])
    assert topics.audit("json:$.id").ok
    report = topics.audit("json:$.id", compare="json:$.x")
    assert (report.changed, report.missing, report.duplicates, report.extra) == (1, 0, 0, 0)
    assert [problem.offset for problem in report.problems] == [1]


def test_an_input_that_came_twice_may_come_out_twice(topics: Topics, cluster: Cluster) -> None:
    write(cluster, topics.input, ["a", "a", "b"])
    write(cluster, topics.output, ["a", "b", "a"])
    assert topics.audit().ok
    write(cluster, topics.output, ["a"])
    assert topics.audit().duplicates == 1


def test_sides_may_have_their_key_in_different_places(topics: Topics, cluster: Cluster) -> None:
    write(cluster, topics.input, ["x", "y"])
    write(cluster, topics.output, [f'{{"from": "{topics.input}@{offset}"}}' for offset in range(2)])
    assert topics.audit("position", output_key="json:$.from").ok


def test_records_without_a_key_are_counted_and_the_first_is_listed(topics: Topics, cluster: Cluster) -> None:
    write(cluster, topics.input, ['{"id": 1}', "broken", '{"id": 2}', "{}"])
    write(cluster, topics.output, ['{"id": 2}', '{"id": 1}'])
    report = topics.audit("json:$.id")
    assert not report.ok
    assert (report.inputs_without_key, report.missing) == (2, 0)
    assert [(problem.kind, problem.offset) for problem in report.problems] == [("input without a key", 1)]


@pytest.mark.parametrize(
    ("expected", "missing", "duplicates"),
    [(Expected.ONE, 1, 2), (Expected.AT_MOST_ONE, 0, 2), (Expected.AT_LEAST_ONE, 1, 0)],
)
def test_pipelines_that_filter_or_split_may_be_audited_too(
    topics: Topics, cluster: Cluster, expected: Expected, missing: int, duplicates: int
) -> None:
    write(cluster, topics.input, ["a", "b"])
    write(cluster, topics.output, ["a", "a", "a", "other"])
    report = topics.audit(expected=expected)
    assert (report.missing, report.duplicates, report.extra) == (missing, duplicates, 1)


def test_inputs_above_the_pipelines_committed_offsets_wait(topics: Topics, cluster: Cluster) -> None:
    pipeline = new_name("pipeline")
    write(cluster, topics.input, numbered(10))
    write(cluster, topics.output, numbered(6))
    commit_offsets(cluster, pipeline, {topics.input: Committed(6)})
    report = topics.audit(pipeline=pipeline)
    assert report.ok, report.text()
    assert (report.inputs, report.waiting, report.outputs) == (6, 4, 6)
    assert topics.audit().missing == 4


def test_the_inputs_are_those_that_the_pipeline_committed_where_none_are_named(
    topics: Topics, cluster: Cluster
) -> None:
    pipeline = new_name("pipeline")
    write(cluster, topics.input, numbered(3))
    write(cluster, topics.output, numbered(2))
    commit_offsets(cluster, pipeline, {topics.input: Committed(3)})
    report = topics.audit(pipeline=pipeline, input_topics=[])
    assert (report.inputs, report.missing) == (3, 1)


def test_an_output_ahead_of_the_committed_offsets_is_told(topics: Topics, cluster: Cluster) -> None:
    pipeline = new_name("pipeline")
    write(cluster, topics.input, numbered(10))
    write(cluster, topics.output, numbered(7))
    commit_offsets(cluster, pipeline, {topics.input: Committed(6)})
    report = topics.audit(pipeline=pipeline)
    assert (report.behind, report.missing, report.extra, report.duplicates) == (1, 0, 0, 0)
    assert [(problem.kind, problem.offset) for problem in report.problems] == [("not committed", 6)]


def test_a_running_pipeline_is_clean_at_any_moment(
    topics: Topics, cluster: Cluster, embedded: Target
) -> None:
    pipeline = new_name("pipeline")
    write(cluster, topics.input, numbered(3000))
    done = threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            driver = Driver(Cluster(topics.settings), pipeline)
            for start in range(0, 3000, 30):
                driver.write(topics.output, numbered(3000)[start : start + 30])
                driver.transactions.commit_offsets(pipeline, {topics.input: Committed(start + 30)})
                driver.transactions.commit()
        except BaseException as error:
            failures.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=run)
    thread.start()
    reports: list[AuditReport] = []
    try:
        while not done.is_set():
            try:
                reports.append(topics.audit(pipeline=pipeline, input_topics=[]))
            except AuditImpossible:  # before its first commit
                continue
    finally:
        thread.join()
    assert not failures
    reports.append(topics.audit(pipeline=pipeline))
    for report in reports:
        assert report.ok, report.text()
    assert (reports[-1].inputs, reports[-1].waiting) == (3000, 0)


def test_of_a_pipeline_of_files_only_duplicates_are_told(topics: Topics, cluster: Cluster) -> None:
    pipeline = new_name("pipeline")
    create_topics(cluster, [progress.PROGRESS_TOPIC], exist_ok=True)
    place = progress.progress_partition(cluster, progress.pipeline_key(pipeline))
    writer = Writer(cluster, producer=None)
    content = {"query": "q", "batch": 1, "sources": ["{}"]}
    writer.write(place, progress.progress_row(progress.pipeline_key(pipeline), content))
    writer.flush()
    write(cluster, topics.output, ["a", "b", "a"])
    report = topics.audit(pipeline=pipeline, input_topics=[])
    assert (report.duplicates, report.extra, report.outputs) == (1, 0, 3)
    assert "only duplicates can be told" in report.notes[0]


def test_where_inputs_were_deleted_the_report_says_so(topics: Topics, cluster: Cluster) -> None:
    write(cluster, topics.input, numbered(10))
    write(cluster, topics.output, numbered(10))
    delete_records(cluster, {topics.input: 4})
    report = topics.audit()
    assert (report.extra, report.inputs) == (4, 6)
    assert any("read from offset 4" in note for note in report.notes)


def test_inputs_may_count_from_a_later_offset_on(topics: Topics, cluster: Cluster) -> None:
    write(cluster, topics.input, numbered(10))
    write(cluster, topics.output, numbered(10)[5:])
    assert topics.audit(starts={topics.input: 5}).ok


def test_what_cannot_be_audited_is_refused(topics: Topics) -> None:
    with pytest.raises(AuditImpossible, match="has committed nothing"):
        topics.audit(pipeline="nobody", input_topics=[])
    with pytest.raises(AuditImpossible, match="input and output at once"):
        topics.audit(input_topics=[topics.output.topic])
    with pytest.raises(AuditImpossible, match="no output topics"):
        audit_topics(topics.settings, output_topics=[], key="value")
    with pytest.raises(BadKeyExpression):
        topics.audit("valu")


def test_the_report_is_json_too(topics: Topics, cluster: Cluster) -> None:
    write(cluster, topics.input, ["a"])
    content = json.loads(topics.audit().json())
    assert (content["ok"], content["missing"]) == (False, 1)
    assert content["problems"][0] == {
        "kind": "missing",
        "topic": topics.input.topic,
        "partition": 0,
        "offset": 0,
        "key": "a",
        "text": "",
    }


PLACES = [TopicPartition("in", 0), TopicPartition("out", 0)]


def compared(
    work: Path, inputs: Iterable[int], outputs: Iterable[int], buckets_rows: int, waiting_bytes_max: int
) -> Comparison:
    sides = [[b"%d" % each for each in side] for side in (inputs, outputs)]
    spread = Buckets(work, buckets_rows, waiting_bytes_max)
    for place, (keys, role) in enumerate(zip(sides, (Role.REQUIRED, Role.OUTPUT), strict=True)):
        for start in range(0, len(keys), 7):
            part = keys[start : start + 7]
            spread.add(rows_of(part, None, np.arange(start, start + len(part)), place, role))
    comparison = Comparison(Expected.ONE, PLACES, compare=False)
    for rows in spread:
        comparison.take(rows)
    return comparison


@given(
    st.lists(st.integers(0, 30), max_size=60),
    st.lists(st.integers(0, 30), max_size=60),
    st.integers(1, 9),
    st.booleans(),
)
def test_buckets_count_what_multisets_count(
    tmp_path_factory: pytest.TempPathFactory, inputs: list[int], outputs: list[int], count: int, spill: bool
) -> None:
    work = tmp_path_factory.mktemp("buckets")
    comparison = compared(work, inputs, outputs, (count - 1) * ROWS_EACH, 100 if spill else 10**9)
    assert any(work.iterdir()) == (spill and len(inputs) + len(outputs) > 2)
    missing = sum(max(0, inputs.count(each) - outputs.count(each)) for each in set(inputs))
    duplicates = sum(max(0, outputs.count(each) - inputs.count(each)) for each in set(inputs))
    assert comparison.missing == missing
    assert comparison.duplicates == duplicates
    assert comparison.extra == sum(each not in inputs for each in outputs)
    assert (comparison.inputs, comparison.outputs) == (len(inputs), len(outputs))


def test_keys_that_share_half_of_their_hash_are_two_keys() -> None:
    rows = np.concatenate(
        [rows_of([b"a"], None, np.array([0]), place, place * Role.OUTPUT) for place in (0, 1)]
    )
    rows["hash2"] = [1, 2]
    comparison = Comparison(Expected.ONE, PLACES, compare=False)
    comparison.take(rows)
    assert (comparison.missing, comparison.extra) == (1, 1)


def test_both_halves_of_a_hash_tell_keys_apart() -> None:
    rows = rows_of([b"%d" % number for number in range(1000)], None, np.arange(1000), 0, Role.REQUIRED)
    assert len(set(rows["hash"].tolist())) == len(set(rows["hash2"].tolist())) == 1000


@pytest.mark.slow
def test_a_million_records_with_one_gap_and_one_duplicate(topics: Topics, cluster: Cluster) -> None:
    count = 1_000_000
    values = np.char.add("value-", np.arange(count).astype("U7")).astype("S13")
    wrong = values.copy()
    wrong[123_456] = wrong[654_321]
    for at, content in ((topics.input, values), (topics.output, wrong)):
        writer = Writer(cluster, producer=None)
        for start in range(0, count, 100_000):
            array = pa.array(content[start : start + 100_000].tolist(), pa.binary())
            writer.write(at, pa.record_batch({"value": array}))
        writer.flush()
    report = topics.audit()
    assert (report.missing, report.duplicates, report.extra) == (1, 1, 0)
    assert (report.inputs, report.outputs) == (count, count)
    places = {(problem.kind, problem.offset) for problem in report.problems}
    assert places in ({("missing", 123_456), ("duplicate", at)} for at in (123_456, 654_321))
