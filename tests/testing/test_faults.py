"""Faults of processes, and plans that a seed repeats."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncestream.errors import BadFault, ProcessNotThere
from oncestream.testing.faults import FaultKind, freeze, frozen, kill, random_plan
from oncestream.testing.network_faults import QUICK, Trouble, random_rules
from oncestream.wire.api import ApiKey
from oncestream.wire.error_codes import ErrorCode

ECHO = "import sys\nfor line in sys.stdin: print(line.strip(), flush=True)"
TARGETS = {"broker": (FaultKind.KILL, FaultKind.FREEZE), "network": (FaultKind.CUT, FaultKind.PAUSE)}


@pytest.fixture
def child() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", ECHO]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def test_a_frozen_process_is_stopped_and_goes_on_when_thawed(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    assert child.stdout is not None
    with frozen(child.pid):
        _, status = os.waitpid(child.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        child.stdin.write("a\n")
        child.stdin.flush()
    assert child.stdout.readline() == "a\n"


def test_a_killed_process_is_gone(child: subprocess.Popen[str]) -> None:
    kill(child.pid)
    assert child.wait(60) == -signal.SIGKILL
    with pytest.raises(ProcessNotThere, match=f"process {child.pid} cannot be sent SIGSTOP"):
        freeze(child.pid)


@pytest.mark.parametrize("pid", [0, 1, -1, pytest.param(os.getpid(), id="own")])
def test_this_process_and_all_processes_are_spared(pid: int) -> None:
    with pytest.raises(BadFault, match="a child"):
        kill(pid)


@given(st.integers(), st.floats(0, 3_600), st.floats(0.5, 60))
def test_a_plan_is_that_of_its_seed_and_its_faults_do_not_overlap(
    seed: int, duration_s: float, every_s: float
) -> None:
    plan = random_plan(seed, duration_s, TARGETS, every_s=every_s)
    assert plan == random_plan(seed, duration_s, TARGETS, every_s=every_s)
    assert [fault.at_s for fault in plan] == sorted(fault.at_s for fault in plan)
    for target, kinds in TARGETS.items():
        over_at = 0.0
        for fault in plan:
            if fault.target == target:
                assert fault.kind in kinds
                assert fault.at_s >= over_at - 0.01
                over_at = fault.at_s + fault.lasts_s
                assert over_at <= duration_s + 0.01


def test_other_seeds_have_other_plans() -> None:
    assert random_plan(1, 600, TARGETS) != random_plan(2, 600, TARGETS)
    assert {fault.kind for fault in random_plan(1, 600, TARGETS)} == {
        kind for of in TARGETS.values() for kind in of
    }


def test_a_plan_without_faults_is_refused() -> None:
    with pytest.raises(BadFault, match="name a kind"):
        random_plan(1, 60, {"broker": ()})


@given(st.integers(), st.integers(0, 50))
def test_random_rules_are_those_of_their_seed(seed: int, count: int) -> None:
    rules = random_rules(seed, count, apis=["EndTxn", "Produce"])
    assert rules == random_rules(seed, count, apis=["EndTxn", "Produce"])
    assert len(rules) == count
    for rule in rules:
        assert rule.api in {ApiKey.END_TXN, ApiKey.PRODUCE}
        assert rule.trouble in QUICK
        assert (rule.error is not ErrorCode.NONE) == (rule.trouble is Trouble.FAIL)
        assert rule.error is ErrorCode.NONE or rule.error.is_retriable
