"""The checker on running brokers: one that is known to be wrong, and those that are right."""

from __future__ import annotations

import time
from pathlib import Path

import confluent_kafka

from oncestream.client.cluster import Cluster
from oncestream.client.offsets import committed_offsets
from oncestream.client.settings import ClientSettings
from oncestream.client.topic_partition import TopicPartition
from oncestream.verify.anomalies import Anomaly
from oncestream.verify.checker import check
from oncestream.verify.final_log import read_final_logs
from oncestream.verify.history import History, HistoryWriter, Kind
from oncestream.verify.pipelines import Row, check_pipeline
from oncestream.verify.recorder import RecordedConsumer, RecordedProducer
from tests.client.kit import new_name, new_topic
from tests.verify.workload import run_workload


def test_librdkafkas_mock_broker_is_caught_showing_aborted_records(tmp_path: Path) -> None:
    owner = confluent_kafka.Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1})
    (broker,) = owner.list_topics(timeout=30).brokers.values()
    here = TopicPartition(new_name(), 0)
    history = run_workload(
        tmp_path, {"bootstrap.servers": f"{broker.host}:{broker.port}"}, [here], transactions=10
    )
    report = check(history, final_logs={})
    assert report.counts.keys() >= {Anomaly.ABORTED_READ}
    assert "aborted" in report.text()


def test_a_right_broker_has_no_anomaly(bootstrap: str, tmp_path: Path) -> None:
    cluster = Cluster(ClientSettings.of(bootstrap))
    topic = new_topic(cluster, 2)
    places = [TopicPartition(topic, number) for number in range(2)]
    history = run_workload(tmp_path, {"bootstrap.servers": bootstrap}, places)
    report = check(history, final_logs=read_final_logs(cluster, [topic]))
    cluster.close()
    assert report.ok, report.text()
    assert report.figures.committed > 10
    assert report.figures.aborted > 3
    assert report.figures.polled == report.figures.in_logs > 100


def test_a_worker_that_reads_and_writes_in_transactions_is_followed_through_its_aborts(
    bootstrap: str, tmp_path: Path
) -> None:
    cluster = Cluster(ClientSettings.of(bootstrap))
    source, sink = (TopicPartition(new_topic(cluster), 0) for _ in range(2))
    settings = {"bootstrap.servers": bootstrap}
    with HistoryWriter(tmp_path / "all.jsonl") as history:
        feeder = RecordedProducer(history, "feeder", settings)
        for value in range(20):
            feeder.send(source, value)
        assert feeder.flush() == 0
        group = new_name("worker")
        worker = RecordedProducer(history, "worker", settings, transactional_id=group)
        consumer = RecordedConsumer(history, "worker", {**settings, "group.id": group}, of=worker)
        consumer.assign({source: 0})
        committed = attempts = 0
        while committed < 20:
            attempts += 1
            records = consumer.poll(5, 10)
            worker.begin()
            for record in records:
                assert record.value is not None
                worker.send(sink, 1000 * attempts + record.value)
            worker.send_offsets(consumer)
            if attempts % 2:
                worker.flush()
                worker.abort()
                consumer.seek(source, committed)
            else:
                worker.commit()
                committed += len(records)
        consumer.close()
    logs = read_final_logs(cluster, [source.topic, sink.topic])
    events = list(History.of_folder(tmp_path))
    report = check(events, final_logs=logs)
    assert report.ok, report.text()
    assert {event.transaction for event in events if event.kind is Kind.POLL} == set(range(attempts))
    assert [value % 1000 for value in logs[sink].values] == list(range(20))
    assert committed_offsets(cluster, group)[source].offset == 20
    found = check_pipeline(
        [Row(source, offset, value) for offset, value in logs[source]],
        [Row(sink, offset, value % 1000) for offset, value in logs[sink]],
        {source: 20},
    )
    assert not found.counts
    cluster.close()


def test_members_of_a_group_take_over_from_each_other_without_a_skip(bootstrap: str, tmp_path: Path) -> None:
    cluster = Cluster(ClientSettings.of(bootstrap))
    topic = new_topic(cluster, 2)
    settings = {"bootstrap.servers": bootstrap, "group.id": new_name("group"), "session.timeout.ms": 6000}
    seen: set[int | None] = set()
    with HistoryWriter(tmp_path / "all.jsonl") as history:
        feeder = RecordedProducer(history, "feeder", {"bootstrap.servers": bootstrap})
        for value in range(100):
            feeder.send(TopicPartition(topic, value % 2), value)
        assert feeder.flush() == 0
        for name in ("first", "second"):
            consumer = RecordedConsumer(history, name, settings)
            consumer.subscribe([topic])
            until = 40 if name == "first" else 100
            deadline = time.monotonic() + 60
            while len(seen) < until:
                assert time.monotonic() < deadline, f"{name} saw {len(seen)}"
                seen.update(record.value for record in consumer.poll(10, 0.2))
            consumer.commit()
            consumer.close()
    report = check(History.of_folder(tmp_path), final_logs=read_final_logs(cluster, [topic]))
    cluster.close()
    assert report.ok, report.text()
    assert report.figures.polled == 100
