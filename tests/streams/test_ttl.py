"""Time-to-live: records go when they are older, and never where it is 0."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import cast

import pytest

from oncestream import Broker
from oncestream.streams.stream import Stream
from oncestream.testing.apache_kafka import ApacheKafka
from tests.streams.kit import TIMEOUT_S, new_path, produce, soon

HOUSEKEEPING_MS = 100


@pytest.fixture(scope="module")
def tidy_embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Broker(tmp_path_factory.mktemp("tidy"), housekeeping_ms=HOUSEKEEPING_MS) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="module")
def tidy_apache(java: None) -> Iterator[str]:
    settings = {"log.retention.check.interval.ms": str(HOUSEKEEPING_MS), "log.initial.task.delay.ms": "0"}
    with ApacheKafka(settings=settings) as kafka:
        yield kafka.bootstrap_servers


@pytest.fixture(params=["embedded", pytest.param("apache", marks=[pytest.mark.java, pytest.mark.slow])])
def tidy(request: pytest.FixtureRequest) -> str:
    """A broker that looks for expired records all the time."""
    return cast("str", request.getfixturevalue(f"tidy_{request.param}"))


def earliest(stream: Stream) -> int:
    return stream.topic_info("warning").partitions[0].earliest


def test_records_older_than_the_ttl_are_deleted_while_others_come_and_with_0_never(tidy: str) -> None:
    short, forever = (Stream(new_path(kind), tidy) for kind in ("short", "forever"))
    short.create(ttl_s=1)
    forever.create(ttl_s=0)
    for stream in (short, forever):
        stream.create_topic("warning")
        produce(tidy, stream.path.topic("warning"), ["a", "b"])
        produce(tidy, stream.path.topic("warning"), ["of 2001"], timestamp_ms=1_000_000_000_000)
    # A topic that is written to all the time must begin new segments, or nothing of it would ever go.
    deadline = time.monotonic() + TIMEOUT_S
    written = 3
    while earliest(short) < 3:
        assert time.monotonic() < deadline
        produce(tidy, short.path.topic("warning"), ["more"])
        written += 1
    soon(lambda: earliest(short), lambda offset: offset == written)
    assert earliest(forever) == 0


def test_a_shorter_ttl_counts_for_records_that_are_there_already(tidy: str) -> None:
    stream = Stream(new_path(), tidy)
    stream.create(ttl_s=0)
    stream.create_topic("warning")
    produce(tidy, stream.path.topic("warning"), ["a", "b"])
    stream.edit(ttl_s=1)
    soon(lambda: earliest(stream), lambda offset: offset == 2)
