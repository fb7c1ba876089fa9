"""A broker whose clock jumps on command."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncestream.client.admin import NewTopic, create_topics
from oncestream.client.cluster import Cluster
from oncestream.client.settings import ClientSettings
from oncestream.testing import FaultyBroker
from oncestream.testing.clock import JUMP_MS_MAX, MINUTE_MS, FileControlledClock, random_jump_ms, save_offset
from tests.testing.kit import TIMEOUT_S, producer

HOUR_MS = 60 * MINUTE_MS
TOPIC = "stamped"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[FaultyBroker]:
    """With a topic whose records get the time of the broker."""
    with FaultyBroker(tmp_path / "data", durability="os") as running:
        cluster = Cluster(ClientSettings.of(running.bootstrap_servers))
        configs = {"message.timestamp.type": "LogAppendTime"}
        create_topics(cluster, [NewTopic(TOPIC, 1, configs=configs)])
        cluster.close()
        yield running


def hours_off(broker: FaultyBroker) -> int:
    """How far the broker's clock is from ours, by the time that it gives a record."""
    stamps: list[int] = []
    client = producer(broker.bootstrap_servers)
    client.produce(TOPIC, "now?", on_delivery=lambda _, record: stamps.append(record.timestamp()[1]))
    assert client.flush(TIMEOUT_S) == 0
    return round((stamps[0] - time.time() * 1000) / HOUR_MS)


def test_a_jump_is_in_the_time_of_records_and_stays_over_a_restart(broker: FaultyBroker) -> None:
    assert hours_off(broker) == 0
    broker.set_clock_ms(3 * HOUR_MS)
    assert hours_off(broker) == 3
    broker.set_clock_ms(-5 * HOUR_MS)
    assert hours_off(broker) == -5
    broker.kill()
    broker.start()
    assert hours_off(broker) == -5
    broker.set_clock_ms(0)
    assert hours_off(broker) == 0


def test_what_is_measured_does_not_jump(tmp_path: Path) -> None:
    clock = FileControlledClock(tmp_path / "control")
    before_ms = clock.elapsed_ms()
    save_offset(tmp_path / "control", 5 * HOUR_MS)
    assert clock.now_ms() - time.time() * 1000 > 4 * HOUR_MS
    assert before_ms <= clock.elapsed_ms() < before_ms + HOUR_MS


@given(st.integers())
def test_a_random_jump_is_that_of_its_seed(seed: int) -> None:
    jump_ms = random_jump_ms(seed)
    assert jump_ms == random_jump_ms(seed)
    assert MINUTE_MS <= abs(jump_ms) <= JUMP_MS_MAX


def test_random_jumps_go_both_ways() -> None:
    assert {random_jump_ms(seed) > 0 for seed in range(20)} == {True, False}
