"""A named producer: its numbers go on after a restart, also after a crash; a resend can be told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from typing import Any

import pytest

from oncestream.client.cluster import Cluster
from oncestream.client.offsets import LATEST, list_offsets
from oncestream.client.settings import ClientSettings
from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import ClientMisused
from oncestream.messaging.numbering import Numbering
from oncestream.messaging.producer import Producer
from oncestream.messaging.record import NAME_HEADER, SEQUENCE_HEADER, Header, Record
from oncestream.messaging.settings import Access
from tests.client.kit import new_name
from tests.messaging.kit import new_topic, read_all


def test_numbers_rise_in_each_partition_and_go_on_after_a_restart(bootstrap: str) -> None:
    topic, name = new_topic(bootstrap, 2), new_name("producer")
    for _ in range(3):
        with Producer(bootstrap, name=name) as producer:
            for number in range(10):
                producer.send(topic, "v", partition=number % 2, headers={"own": "h"})
    records = read_all(bootstrap, topic, 30)
    for partition in range(2):
        numbers = _numbers([record for record in records if record.partition == partition])
        assert numbers == list(range(numbers[0], numbers[0] + 15))
    assert {record.header(NAME_HEADER) for record in records} == {name.encode()}
    assert {record.header("own") for record in records} == {b"h"}


def test_the_last_number_is_found_behind_the_records_of_others(embedded: Any) -> None:
    bootstrap, name = embedded.bootstrap_servers, new_name("producer")
    topic = new_topic(bootstrap)
    with Producer(bootstrap, name=name) as producer:
        producer.send(topic, "mine", sequence=41)
    with Producer(bootstrap) as other:
        for _ in range(200):
            other.send(topic, "of another")
    numbering = _numbering(bootstrap, name, window=10)
    assert numbering.last(TopicPartition(topic, 0)) == 41
    assert _sequence(numbering.headers(TopicPartition(topic, 0), None)) == 42


def test_a_number_never_falls_where_the_log_tells_none(embedded: Any) -> None:
    """Too far back to be looked for, or deleted: a reader may know it still."""
    bootstrap, name = embedded.bootstrap_servers, new_name("producer")
    topic = new_topic(bootstrap)
    with Producer(bootstrap, name=name) as producer:
        producer.send(topic, "mine")
    with Producer(bootstrap) as other:
        for _ in range(100):
            other.send(topic, "of another")
    numbering = _numbering(bootstrap, name, window=10, search_max=50)
    assert numbering.last(TopicPartition(topic, 0)) is None
    (first,) = _numbers(read_all(bootstrap, topic, 101)[:1])
    assert _sequence(numbering.headers(TopicPartition(topic, 0), None)) > first


def test_an_application_may_number_by_itself_but_only_upwards(embedded: Any) -> None:
    bootstrap, name = embedded.bootstrap_servers, new_name("producer")
    topic = new_topic(bootstrap)
    with Producer(bootstrap, name=name) as producer:
        producer.send(topic, "a", sequence=5)
        producer.send(topic, "b", sequence=9)
        with pytest.raises(ClientMisused, match="number 9 was sent before it, and numbers must rise"):
            producer.send(topic, "c", sequence=9)
        producer.send(topic, "c")
    with Producer(bootstrap, name=name) as again:
        again.send(topic, "b", sequence=9)  # a resend: readers know the number
    assert _numbers(read_all(bootstrap, topic, 4)) == [5, 9, 10, 9]
    with (
        Producer(bootstrap) as nameless,
        pytest.raises(ClientMisused, match="the producer has no name"),
    ):
        nameless.send(topic, "v", sequence=1)


@pytest.mark.slow
def test_a_producer_that_is_killed_and_sends_again_loses_and_repeats_nothing(bootstrap: str) -> None:
    topic, name, total = new_topic(bootstrap, 2), new_name("producer"), 3_000
    for kill_after in (300, 900, None):
        _resender(bootstrap, topic, name, total, kill_after)
    seen: dict[int, int] = {}
    kept = []
    records = read_all_of(bootstrap, topic)
    for record in records:
        (number,) = _numbers([record])
        if number > seen.get(record.partition, -1):
            seen[record.partition] = number
            kept.append(int(record.value))
    assert sorted(kept) == list(range(total))
    assert len(records) > total  # the killed ones had sent something


def read_all_of(bootstrap: str, topic: str) -> list[Record]:
    with closing(Cluster(ClientSettings.of(bootstrap))) as cluster:
        ends = list_offsets(cluster, {TopicPartition(topic, each): LATEST for each in range(2)})
    return read_all(bootstrap, topic, sum(end or 0 for end in ends.values()))


RESENDER = """
import sys
from oncestream.messaging.producer import Producer
bootstrap, topic, name, total = sys.argv[1:]
with Producer(bootstrap, name=name, flush_ms=1) as producer:
    for number in range(int(total)):
        producer.send(topic, str(number), partition=number % 2, sequence=number)
        if number % 100 == 0:
            producer.flush()
            print(number, flush=True)
"""


def _resender(bootstrap: str, topic: str, name: str, total: int, kill_after: int | None) -> None:
    """A program that sends all of its input from the start, whatever was sent before; killed on its way."""
    command = [sys.executable, "-c", RESENDER, bootstrap, topic, name, str(total)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if kill_after is not None and int(line) >= kill_after:
                child.send_signal(signal.SIGKILL)
                break
        child.stdout.read()
    assert child.returncode == (0 if kill_after is None else -signal.SIGKILL)


def _numbering(bootstrap: str, name: str, **limits: int) -> Numbering:
    access = Access.of(bootstrap, {})
    return Numbering(name, access, access.faults(), **limits)


def _sequence(headers: list[Header]) -> int:
    return int(dict(headers)[SEQUENCE_HEADER] or b"-1")


def _numbers(records: list[Record]) -> list[int]:
    return [int(record.header(SEQUENCE_HEADER) or b"-1") for record in records]
