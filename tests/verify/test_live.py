"""The checker on running brokers: one that is known to be wrong, and those that are right."""

from __future__ import annotations

from pathlib import Path

import confluent_kafka

from oncestream.client.cluster import Cluster
from oncestream.client.settings import ClientSettings
from oncestream.client.topic_partition import TopicPartition
from oncestream.verify.anomalies import Anomaly
from oncestream.verify.checker import check
from oncestream.verify.final_log import read_final_logs
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
