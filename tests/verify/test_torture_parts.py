"""The parts of a torture run: its plan, its numbers, the lives of its programs, what it counts and tells."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import BrokerFailed, ProcessNotThere
from oncestream.testing.disk import DiskFaults
from oncestream.testing.faults import Fault, FaultKind, kill
from oncestream.verify.anomalies import Anomaly
from oncestream.verify.audit_report import AuditReport, Problem
from oncestream.verify.final_log import number_of
from oncestream.verify.history import History, HistoryWriter, Kind, Phase, Record
from oncestream.verify.report import Report
from oncestream.verify.timeline import Timeline
from oncestream.verify.torture_clients import LIFE_OVER, Role, Task
from oncestream.verify.torture_cluster import Embedded
from oncestream.verify.torture_copier import copies_of
from oncestream.verify.torture_lanes import Lane, disk_faults_of
from oncestream.verify.torture_live import LiveCounts
from oncestream.verify.torture_lives import Lives
from oncestream.verify.torture_numbers import (
    CLIENTS_MAX,
    COPIERS_MAX,
    COUNT_MAX,
    LIVES_MAX,
    TRIES_MAX,
    copied_by,
    copy_number,
    input_number,
)
from oncestream.verify.torture_plan import (
    APACHE_ALONE_PACE,
    APACHE_PACE,
    BROKER,
    EMBEDDED_PACE,
    KILL_OR_FREEZE,
    NETWORK,
    PIPELINE,
    Pace,
    plan_of,
)
from oncestream.verify.torture_report import Efforts, TortureReport, findings_of

TIMEOUT_S = 60
DISK = (FaultKind.DISK_FULL, FaultKind.SLOW_DISK, FaultKind.DISK_ERROR)
NAMES = st.tuples(st.integers(0, CLIENTS_MAX - 1), st.integers(0, LIVES_MAX), st.integers(0, COUNT_MAX))
TRIES = st.tuples(st.integers(0, COPIERS_MAX - 1), st.integers(0, LIVES_MAX), st.integers(0, TRIES_MAX))


# -- the plan ----------------------------------------------------------------------------------


@given(st.integers(0, 2**31), st.floats(10, 600))
def test_a_seed_makes_the_same_plan_again(seed: int, duration_s: float) -> None:
    plan = plan_of(seed, duration_s, broker=EMBEDDED_PACE, spark=True)
    assert plan == plan_of(seed, duration_s, broker=EMBEDDED_PACE, spark=True)
    assert all(0 < fault.at_s < duration_s + 0.001 for faults in plan.faults.values() for fault in faults)


def test_another_seed_makes_another_plan() -> None:
    plans = [plan_of(seed, 300, broker=EMBEDDED_PACE, spark=True) for seed in (1, 2)]
    assert plans[0].faults != plans[1].faults
    assert min(plan.count for plan in plans) > 100


@given(st.integers(0, 2**31))
def test_in_the_second_half_no_broker_dies(seed: int) -> None:
    faults = plan_of(seed, 600, broker=EMBEDDED_PACE, spark=False).faults[BROKER]
    late = {fault.kind for fault in faults if fault.at_s > 300}
    assert late <= {FaultKind.FREEZE, FaultKind.CLOCK, FaultKind.DISK_FULL, FaultKind.SLOW_DISK}


def test_in_the_first_half_brokers_are_killed() -> None:
    faults = plan_of(1, 600, broker=EMBEDDED_PACE, spark=False).faults[BROKER]
    assert len([fault for fault in faults if fault.kind is FaultKind.KILL]) > 5


@pytest.mark.parametrize(
    ("pace", "kinds"),
    [
        (EMBEDDED_PACE, {*KILL_OR_FREEZE, FaultKind.CLOCK, *DISK}),
        (APACHE_PACE, {*KILL_OR_FREEZE}),
        (APACHE_ALONE_PACE, {FaultKind.FREEZE}),
    ],
    ids=["embedded", "apache", "apache-alone"],
)
def test_only_the_embedded_broker_has_its_clock_and_its_disk_spoiled(
    pace: Pace, kinds: set[FaultKind]
) -> None:
    faults = plan_of(1, 1800, broker=pace, spark=False).faults
    assert {fault.kind for fault in faults[BROKER]} == kinds
    others = {fault.kind for name, each in faults.items() if name != BROKER for fault in each}
    assert not others & {FaultKind.CLOCK, *DISK}


@given(st.integers(0, 2**31), st.sampled_from(DISK))
def test_what_goes_wrong_with_a_disk_is_drawn_from_the_seed(seed: int, kind: FaultKind) -> None:
    fault = Fault(1.0, kind, BROKER, 1.0, seed)
    faults = disk_faults_of(fault)
    assert faults == disk_faults_of(fault) != DiskFaults()
    assert (faults.room_bytes is not None) == (kind is FaultKind.DISK_FULL)
    assert bool(faults.sync_delay_ms) == (kind is FaultKind.SLOW_DISK)
    assert bool(faults.sync_errors) == (kind is FaultKind.DISK_ERROR)


def test_what_is_not_there_or_not_ours_meets_no_fault() -> None:
    plan = plan_of(1, 300, broker=None, spark=False)
    assert {BROKER, PIPELINE} & plan.faults.keys() == set()
    assert plan.faults[NETWORK]


# -- the numbers -------------------------------------------------------------------------------


@given(NAMES, NAMES, TRIES, TRIES)
def test_a_copy_tells_what_it_copies_and_no_two_are_the_same(
    name: tuple[int, int, int],
    other: tuple[int, int, int],
    attempt: tuple[int, int, int],
    again: tuple[int, int, int],
) -> None:
    number, second = input_number(*name), input_number(*other)
    assert (number == second) == (name == other)
    first, later = copy_number(*attempt, number), copy_number(*again, second)
    assert (first == later) == ((name, attempt) == (other, again))
    assert copied_by(first) == number
    assert number_of(b"%d" % first) == first


def test_a_number_that_a_log_has_twice_is_copied_twice() -> None:
    records = [Record("in", 0, offset, value) for offset, value in enumerate([5, 6, 5, 5])]
    copies, last = copies_of(records, (1, 2), 7)
    assert [copied_by(copy) for copy in copies] == [5, 6, 5, 5]
    assert len(set(copies)) == 4
    assert last == 9


def test_a_task_goes_to_its_process_and_back() -> None:
    task = Task(Role.COPIER, 1, 7, "localhost:9092", "in", "copies", 4, "/tmp/history", 3)
    assert Task.of_json(task.to_json()) == task
    assert task.process == "copier-1.7"


# -- lives -------------------------------------------------------------------------------------


class Program:
    def __init__(self, folder: Path) -> None:
        self.status = ""
        self._log = folder / "log"
        self.lives = Lives("program", self._command, self._log)

    def said(self) -> list[str]:
        return self._log.read_text().splitlines() if self._log.exists() else []

    def _command(self, life: int) -> list[str]:
        return ["tests.verify.life", str(life), *([self.status] if self.status else [])]


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    program = Program(tmp_path)
    yield program
    program.lives.end()


def test_a_killed_program_begins_another_life(program: Program) -> None:
    program.lives.start()
    wait_for(lambda: program.said() == ["life 0"])
    program.lives.kill()
    wait_for(lambda: program.said() == ["life 0", "life 1"], program.lives.look)
    program.lives.finish(TIMEOUT_S)
    assert (program.lives.count, program.lives.problems) == (2, [])


def test_one_that_ends_is_started_again_and_a_crash_is_told(program: Program) -> None:
    program.status = str(LIFE_OVER)
    program.lives.start()
    wait_for(lambda: program.lives.ended_alone == 1, program.lives.look)
    assert program.lives.problems == []
    program.status = "3"
    wait_for(lambda: bool(program.lives.problems), program.lives.look)
    assert program.lives.problems[0].startswith("program crashed with exit status 3: ")


def test_a_frozen_program_can_be_replaced_and_wakes_up_beside_its_successor(program: Program) -> None:
    program.lives.start()
    wait_for(lambda: program.said() == ["life 0"])
    frozen = program.lives.freeze()
    assert frozen is not None
    program.lives.replace()
    wait_for(lambda: program.said() == ["life 0", "life 1"])
    program.lives.thaw(frozen)
    program.lives.look()
    assert frozen.poll() is None
    program.lives.finish(TIMEOUT_S)
    assert frozen.poll() is not None
    assert program.lives.problems == []


# -- lanes -------------------------------------------------------------------------------------


class Noted(Lane):
    def __init__(self, faults: list[Fault], folder: Path, rest_s: float) -> None:
        super().__init__("noted", faults, folder, threading.Event(), rest_s=rest_s)
        self.done: list[Fault] = []

    def do(self, fault: Fault) -> None:
        self.done.append(fault)


FAULTS = [Fault(0.001 * number, FaultKind.CUT, "noted", 0.0, number) for number in range(1, 4)]


def test_a_lane_writes_its_faults_down_and_leaves_out_those_that_come_too_soon(tmp_path: Path) -> None:
    lane = Noted(FAULTS, tmp_path, rest_s=1000.0)
    lane.start()
    wait_for(lambda: bool(lane.counts))
    lane.stop.set()
    lane.join()
    assert lane.failure is None
    assert lane.done == FAULTS[:1]
    assert lane.counts == {FaultKind.CUT: 1}
    assert [(event.kind, event.note) for event in History.of_folder(tmp_path)] == [(Kind.FAULT, "cut noted")]


def test_a_lane_that_fails_says_so(tmp_path: Path) -> None:
    class Failing(Noted):
        def do(self, fault: Fault) -> None:
            raise ProcessNotThere(pid=fault.seed, signal="SIGKILL", reason="gone")

    lane = Failing(FAULTS, tmp_path, 0.0)
    lane.start()
    lane.join()
    assert isinstance(lane.failure, ProcessNotThere)


def test_a_broker_that_ends_by_itself_is_not_taken_for_one_that_was_killed(tmp_path: Path) -> None:
    victim = Embedded(tmp_path)
    victim.start()
    victim.kill(1)
    victim.restart(1)
    pid = victim.pid(1)
    kill(pid)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(BrokerFailed, match="it ended by itself"):
        victim.kill(1)
    victim.stop()


# -- counts and reports ------------------------------------------------------------------------


def test_counts_follow_histories_that_grow(tmp_path: Path) -> None:
    counts = LiveCounts(tmp_path)
    with HistoryWriter(tmp_path / "a.jsonl") as history:
        history.write(Kind.SEND, Phase.INVOKE, "p")
        history.write(Kind.SEND, Phase.OK, "p")
        assert counts.look()["sent"] == 1
        history.write(Kind.COMMIT, Phase.OK, "p")
        history.write(Kind.SEND, Phase.OK, "p")
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write('{"kind":"send","phase":"ok"')
    told = counts.look()
    assert {name: told[name] for name in ("events", "sent", "committed", "polls")} == {
        "events": 4,
        "sent": 2,
        "committed": 1,
        "polls": 0,
    }


def test_what_an_audit_finds_fails_the_run_and_is_in_all_reports(tmp_path: Path) -> None:
    here = TopicPartition("out", 0)
    audit = AuditReport(10, 11, missing=1, duplicates=2, problems=(Problem("duplicate", here, 7, key="k"),))
    findings = findings_of("pipeline", audit)
    assert findings.counts == {Anomaly.MISSING_OUTPUT: 1, Anomaly.DUPLICATE_OUTPUT: 2}
    report = Report({}, ()).with_findings(findings)
    efforts = Efforts("nowhere", 5, 60.0, 1, 2, 3, 4, 5, 6, 7)
    found = TortureReport(efforts, report, {"pipeline": audit}, Timeline(0, 1.0, (), ()))
    assert not found.ok
    found.save(tmp_path)
    for name in ("torture.txt", "torture.json", "torture.html"):
        assert "duplicate output" in (tmp_path / name).read_text()
    assert "out-0 offset 7 key &#x27;k&#x27;" in (tmp_path / "torture.html").read_text()


def test_a_problem_without_an_anomaly_fails_the_run_too() -> None:
    efforts = Efforts("nowhere", 5, 60.0, 1, 2, 3, 4, 5, 6, 7)
    clean = TortureReport(efforts, Report({}, ()), {}, Timeline(0, 1.0, (), ()))
    assert clean.ok
    stuck = TortureReport(efforts, Report({}, ()), {}, Timeline(0, 1.0, (), ()), ("the copiers did not",))
    assert not stuck.ok
    assert "PROBLEM: the copiers did not" in stuck.text()


def wait_for(condition: Callable[[], bool], meanwhile: Callable[[], None] = lambda: None) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        meanwhile()
        time.sleep(0.02)
