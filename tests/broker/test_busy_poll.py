"""A broker stays awake for clients that await each answer, and for nobody else."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oncestream.broker.busy_poll import ROW, BusyPoll, has_cores_to_spare
from oncestream.broker.embedded import Broker
from tests.broker.kit import Wire, metadata

WINDOW_US = 100
SOON_S = 50e-6
LATE_S = 150e-6
WIDE_US = 1_000_000  # a busy machine may take its time
SPENT_S = 0.05  # of such a window: less than who stays awake, more than who sleeps


class Turns:
    """A loop as far as it is needed: what is to be done soon, and a clock that the test sets."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.soon: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def turn(self) -> bool:
        """Whether the loop would go to sleep after it."""
        callbacks, self.soon = self.soon, []
        for callback in callbacks:
            callback()
        return not self.soon


class Client:
    """Sends requests, the next one some time after the last."""

    def __init__(self, loop: Turns) -> None:
        self._loop = loop
        self._poll = BusyPoll(loop.call_soon, WINDOW_US, lambda: loop.now_s)

    def send(self, *pauses_s: float) -> None:
        for pause_s in pauses_s:
            self._loop.now_s += pause_s
            self._poll.heard_one()


@pytest.fixture
def loop() -> Turns:
    return Turns()


@pytest.fixture
def client(loop: Turns) -> Client:
    return Client(loop)


def test_requests_that_come_late_let_it_sleep(loop: Turns, client: Client) -> None:
    client.send(*[LATE_S] * 100)
    assert loop.turn()


def test_a_row_of_requests_is_needed(loop: Turns, client: Client) -> None:
    for _ in range(10):
        client.send(LATE_S, *[SOON_S] * (ROW - 1))
        assert loop.turn()
    client.send(SOON_S)
    assert not loop.turn()


def test_it_stays_awake_as_long_as_the_next_one_comes_soon(loop: Turns, client: Client) -> None:
    client.send(*[SOON_S] * (ROW + 1))
    for _ in range(100):
        client.send(SOON_S)
        assert not loop.turn()
        assert len(loop.soon) == 1, "one callback is enough"
    loop.now_s += LATE_S
    assert loop.turn()


def test_who_was_waited_for_in_vain_has_to_hurry_again(loop: Turns, client: Client) -> None:
    client.send(*[SOON_S] * (ROW + 1))
    loop.now_s += LATE_S
    assert loop.turn()
    client.send(*[SOON_S] * (ROW - 1))
    assert loop.turn()


@pytest.mark.parametrize(
    ("cores", "quota", "spare"), [(4, math.inf, True), (4, 2.5, True), (4, 1.0, False), (1, math.inf, False)]
)
def test_with_the_time_of_one_core_there_is_none_to_spare(cores: int, quota: float, spare: bool) -> None:
    assert has_cores_to_spare(cores, quota) == spare


def test_in_a_thread_of_a_program_it_sleeps(tmp_path: Path) -> None:
    others = set(threading.enumerate())
    with Broker(tmp_path / "data", durability="os", busy_poll_us=WIDE_US) as broker:
        (loop,) = (each for each in set(threading.enumerate()) - others if each.name == "oncestream-broker")
        ask_a_row(broker)
        assert spent_s(broker, loop.native_id) < SPENT_S


def test_where_threads_flush_for_those_who_wait_it_sleeps(tmp_path: Path) -> None:
    with Broker(tmp_path / "data", process=True, durability="fsync", busy_poll_us=WIDE_US) as broker:
        ask_a_row(broker)
        assert spent_s(broker) < SPENT_S


def test_it_stays_awake_after_a_row_of_requests_and_then_sleeps(awake: Broker) -> None:
    assert spent_s(awake) < SPENT_S
    ask_a_row(awake)
    assert spent_s(awake) > SPENT_S
    time.sleep(WIDE_US / 1e6)
    assert spent_s(awake) < SPENT_S, "it spins although nobody asks anything"


@pytest.fixture
def awake(tmp_path: Path) -> Iterator[Broker]:
    if not has_cores_to_spare():
        pytest.skip("there is one core only: the broker never stays awake")
    with Broker(tmp_path / "data", process=True, durability="os", busy_poll_us=WIDE_US) as broker:
        yield broker


def ask_a_row(broker: Broker) -> None:
    with Wire(broker.bootstrap_servers) as wire:
        for _ in range(2 * ROW):
            metadata(wire, [])


def spent_s(broker: Broker, thread: int | None = None) -> float:
    """Processor time of its loop in one window; the loop runs in this thread of the process, or in the first."""
    schedstat = Path(f"/proc/{broker.pid}/task/{thread or broker.pid}/schedstat")
    before = int(schedstat.read_text().split()[0])
    time.sleep(WIDE_US / 1e6)
    return (int(schedstat.read_text().split()[0]) - before) / 1e9
