"""The embedded broker with one rule of its coordinators and logs switched off: each is caught, and none without."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException

from oncestream import Broker
from oncestream.broker.groups import commits
from oncestream.broker.transactions import end, join, markers
from oncestream.client.cluster import Cluster
from oncestream.client.offsets import committed_offsets
from oncestream.client.settings import ClientSettings
from oncestream.client.topic_partition import TopicPartition
from oncestream.storage import producers
from oncestream.storage.log import Log
from oncestream.storage.reading import LogReader
from oncestream.verify.anomalies import Anomaly
from oncestream.verify.checker import check
from oncestream.verify.final_log import read_final_logs
from oncestream.verify.history import History, HistoryWriter
from oncestream.verify.pipelines import Row, check_pipeline
from oncestream.verify.recorder import RecordedConsumer, RecordedProducer
from oncestream.verify.report import Report
from oncestream.wire.error_codes import ErrorCode, KafkaError
from tests.client.kit import new_topic
from tests.verify.workload import run_workload


class Bench:
    """A broker of its own, two partitions, and what clients wrote down about them."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.settings = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
        self.cluster = Cluster(ClientSettings.of(broker.bootstrap_servers))
        self.folder = folder
        self.topic = new_topic(self.cluster, 2)
        self.places = [TopicPartition(self.topic, number) for number in range(2)]

    def run(self) -> Report:
        run_workload(self.folder, self.settings, self.places, transactions=25)
        return self.check()

    def check(self) -> Report:
        logs = read_final_logs(self.cluster, [self.topic])
        return check(History.of_folder(self.folder), final_logs=logs)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with Broker(tmp_path / "data") as broker:
        bench = Bench(broker, tmp_path / "history")
        yield bench
        bench.cluster.close()


@pytest.mark.parametrize(
    ("commit", "anomaly"), [(True, Anomaly.PRECOMMITTED_READ), (False, Anomaly.ABORTED_READ)]
)
def test_a_last_stable_offset_that_is_too_high_shows_records_before_their_end(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, commit: bool, anomaly: Anomaly
) -> None:
    monkeypatch.setattr(LogReader, "stable_offset", lambda _log, high_watermark: high_watermark)
    here = bench.places[0]
    with HistoryWriter(bench.folder / "all.jsonl") as history:
        producer = RecordedProducer(history, "p", bench.settings, transactional_id="p")
        consumer = RecordedConsumer(history, "c", bench.settings)
        consumer.assign({here: 0})
        producer.begin()
        producer.send(here, 1)
        assert producer.flush() == 0
        assert consumer.poll(1, 30)
        if commit:
            producer.commit()
        else:
            producer.abort()
        consumer.close()
    assert bench.check().counts == {anomaly: 1}


@pytest.mark.parametrize(("commit", "anomaly"), [(True, Anomaly.LOST_WRITE), (False, Anomaly.ABORTED_READ)])
def test_a_skipped_marker_leaves_the_records_to_the_end_of_the_next_transaction(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, commit: bool, anomaly: Anomaly
) -> None:
    write, skipped = markers.write, iter([True])

    def skipping(node: Any, marker: Any, where: Any, then: Callable[[KafkaError | None], None]) -> None:
        if next(skipped, False):
            then(None)
        else:
            write(node, marker, where, then)

    monkeypatch.setattr(markers, "write", skipping)
    with HistoryWriter(bench.folder / "all.jsonl") as history:
        producer = RecordedProducer(history, "p", bench.settings, transactional_id="p")
        for number, ends_in_commit in enumerate((commit, not commit)):
            producer.begin()
            producer.send(bench.places[0], number)
            assert producer.flush() == 0
            if ends_in_commit:
                producer.commit()
            else:
                producer.abort()
    assert bench.check().counts == {anomaly: 1}


@pytest.mark.parametrize("recognised", [True, False])
def test_resent_batches_that_are_not_recognised_are_duplicates(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, recognised: bool
) -> None:
    """Some answers say that the batch was written and not replicated, at which clients send it again."""
    count = itertools.count()
    append, check_batch = Log.append, producers.Producers.check

    def unsure(log: Log, batch: memoryview, *, internal: bool = False) -> Any:
        appended = append(log, batch, internal=internal)
        if not internal and not appended.duplicate and next(count) % 4 == 0:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        return appended

    def forgetful(known: producers.Producers, header: Any) -> None:
        try:
            check_batch(known, header)
        except KafkaError as error:
            if error.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                raise

    monkeypatch.setattr(Log, "append", unsure)
    if not recognised:
        monkeypatch.setattr(producers.Producers, "check", forgetful)
    report = bench.run()
    if recognised:
        assert report.ok, report.text()
    else:
        assert Anomaly.DUPLICATE in report.counts


def _any_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    end_old, check_batch = end._end_old, producers.Producers.check

    def unfenced_end(txn: Any, producer: Any, commit: bool, now_ms: int) -> Any:
        return end_old(txn, producer._replace(epoch=txn.epoch), commit, now_ms)

    def unfenced_check(known: producers.Producers, header: Any) -> Any:
        producer = known.by_id.get(header.producer_id)
        if producer is not None and header.producer_epoch < producer.epoch:
            return None
        return check_batch(known, header)

    monkeypatch.setattr(end, "_end_old", unfenced_end)
    monkeypatch.setattr(join, "_check_producer", lambda txn, producer: None)
    monkeypatch.setattr(producers.Producers, "check", unfenced_check)


@pytest.mark.parametrize("fencing", [True, False])
def test_a_producer_that_is_not_fenced_commits_half_of_its_transaction(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, fencing: bool
) -> None:
    if not fencing:
        _any_epoch(monkeypatch)
    with HistoryWriter(bench.folder / "all.jsonl") as history:
        old = RecordedProducer(history, "old", bench.settings, transactional_id="same")
        old.begin()
        old.send(bench.places[0], 1)
        assert old.flush() == 0
        new = RecordedProducer(history, "new", bench.settings, transactional_id="same")
        try:
            old.send(bench.places[1], 2)
            old.commit()
        except KafkaException:
            assert fencing
        new.begin()
        new.send(bench.places[0], 3)
        new.commit()
    report = bench.check()
    if fencing:
        assert report.ok, report.text()
        assert report.figures.outcome_unknown == 1
    else:
        assert report.counts == {Anomaly.LOST_WRITE: 1, Anomaly.TORN_TRANSACTION: 1}


@pytest.mark.parametrize("inside", [True, False])
def test_offsets_outside_of_the_transaction_leave_inputs_without_output(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, inside: bool
) -> None:
    def outside(groups: Any, _producer: Any, who: Any, made: Sequence[Any], answer: Any, later: Any) -> None:
        commits.commit(groups, who, made, answer, later, version=8)

    if not inside:
        monkeypatch.setattr(commits, "commit_in_transaction", outside)
    source, sink = bench.places
    with HistoryWriter(bench.folder / "all.jsonl") as history:
        feeder = RecordedProducer(history, "feeder", bench.settings)
        for value in range(40):
            feeder.send(source, value)
        assert feeder.flush() == 0
        worker = RecordedProducer(history, "worker", bench.settings, transactional_id="worker")
        for attempt in range(12):
            _step(history, bench, worker, attempt)
    logs = read_final_logs(bench.cluster, [bench.topic])
    committed = {source: committed_offsets(bench.cluster, "worker")[source].offset}
    found = check_pipeline(
        [Row(source, offset, value) for offset, value in logs[source]],
        [Row(sink, offset, value % 1000) for offset, value in logs[sink]],
        committed,
    )
    if inside:
        assert not found.counts
    else:
        assert found.counts.keys() & {Anomaly.MISSING_OUTPUT, Anomaly.PROGRESS_AHEAD}


def _step(history: HistoryWriter, bench: Bench, worker: RecordedProducer, attempt: int) -> None:
    """Four inputs from the committed offset on; every third time they are aborted, and the worker starts again."""
    source, sink = bench.places
    known = committed_offsets(bench.cluster, "worker", [source]).get(source)
    start = 0 if known is None else known.offset
    if start >= 40:
        return
    consumer = RecordedConsumer(history, "worker", {**bench.settings, "group.id": "worker"}, of=worker)
    consumer.assign({source: start})
    worker.begin()
    for record in consumer.poll(4, 10):
        assert record.value is not None
        worker.send(sink, 1000 * (attempt + 1) + record.value)
    worker.send_offsets(consumer)
    worker.flush()
    if attempt % 3 == 1:
        worker.abort()
    else:
        worker.commit()
    consumer.close()
