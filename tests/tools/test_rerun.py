"""A failed test runs once more, alone; what passes then is named, what fails twice fails the run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PLUGINS = ("-p", "tools.suite.rerun", "-p", "tools.suite.order")

# `first_time(name)`: true in the first process that asks. Whatever happens only once in a test hangs on it.
SHARED = """
import os, signal, threading, time
from pathlib import Path
import pytest

def first_time(name):
    try:
        (Path(__file__).parent / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
"""


class Ran(NamedTuple):
    """A whole run of pytest on a folder of its own."""

    status: int
    out: str
    count_file: Path

    @property
    def closing_line(self) -> str:
        return self.out.strip().splitlines()[-1]

    @property
    def flaky(self) -> set[str]:
        return self._named("FLAKY test_")

    @property
    def failed_twice(self) -> set[str]:
        return self._named("FAILED TWICE test_")

    def _named(self, head: str) -> set[str]:
        lines = [line for line in self.out.splitlines() if line.startswith(head)]
        return {line.partition("::")[2].partition(" ")[0] for line in lines}


def run_suite(folder: Path, tests: str, *options: str) -> Ran:
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    (folder / "test_some.py").write_text(SHARED + tests)
    cache = folder / "cache"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", *PLUGINS, "--dist", "loadgroup", *options]
    done = subprocess.run(
        command,
        cwd=folder,
        env=inherited | {"PYTHONPATH": str(ROOT), "ONCESTREAM_CACHE": str(cache)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    return Ran(done.returncode, done.stdout + done.stderr, cache / "flaky-tests.jsonl")


ACCIDENTS = """
def test_quiet(): pass

@pytest.mark.xdist_group("group")
@pytest.mark.parametrize("name", ["a@b", "c"])
def test_fails_the_first_time(name):
    print("what the test printed")
    assert not first_time(f"fails-{name}"), "an accident"

def test_kills_its_worker_the_first_time():
    if first_time("kills"):
        os.kill(os.getpid(), signal.SIGKILL)

@pytest.mark.timeout(1)
def test_hangs_the_first_time():
    if first_time("hangs"):
        threading.Event().wait()

@pytest.fixture(scope="session")
def cluster():
    assert not first_time("fixture"), "no cluster today"

@pytest.mark.xdist_group("clusters")
@pytest.mark.parametrize("number", range(25))
def test_needs_the_cluster(cluster, number): pass

@pytest.fixture
def left_behind():
    yield
    assert not first_time("teardown"), "something is left"

def test_whose_teardown_fails_the_first_time(left_behind): pass
"""


def test_accidents_leave_the_run_green_and_are_named_with_both_outputs(tmp_path: Path) -> None:
    ran = run_suite(tmp_path, ACCIDENTS, "-n", "2")
    accidents = {
        "test_fails_the_first_time[a@b]",
        "test_fails_the_first_time[c]",
        "test_kills_its_worker_the_first_time",
        "test_hangs_the_first_time",
        "test_whose_teardown_fails_the_first_time",
        *(f"test_needs_the_cluster[{number}]" for number in range(25)),
    }
    assert ran.status == 0, ran.out
    assert ran.flaky == accidents
    assert "31 passed" not in ran.closing_line  # only what passed the first time counts as passed
    assert f"{len(accidents)} flaky" in ran.closing_line
    assert "failed" not in ran.closing_line
    assert "error" not in ran.closing_line
    for seen in ("an accident", "what the test printed", "crashed while running", "no cluster today"):
        assert seen in ran.out
    assert ran.out.count("--- second run ---") == 6  # a fixture's tests ran again together
    kept = [json.loads(line) for line in ran.count_file.read_text().splitlines()]
    assert {each["test"].partition("::")[2] for each in kept} == accidents
    assert len(kept) == len(accidents)


FAULTS = """
def test_quiet(): pass

def test_always_fails():
    assert False, "a fault"

def test_always_kills_its_worker():
    os.kill(os.getpid(), signal.SIGKILL)

def test_fails_the_first_time():
    assert not first_time("fails"), "an accident"

def test_skips_the_second_time():
    if not first_time("skips"):
        pytest.skip("not today")
    assert False

@pytest.fixture
def broken():
    raise OSError("no such cluster")

def test_needs_what_is_broken(broken): pass

@pytest.mark.parametrize("number", range(50))
def test_after_them(number): pass
"""


def test_what_fails_twice_fails_the_run_and_every_other_test_runs_once(tmp_path: Path) -> None:
    ran = run_suite(tmp_path, FAULTS, "-n", "2")
    assert ran.status == 1, ran.out
    assert ran.flaky == {"test_fails_the_first_time"}
    assert ran.failed_twice == {
        "test_always_fails",
        "test_always_kills_its_worker",
        "test_skips_the_second_time",
        "test_needs_what_is_broken",
    }
    assert "3 failed, 51 passed, 1 error, 1 flaky" in ran.closing_line


def test_the_count_goes_on_over_runs_and_without_workers(tmp_path: Path) -> None:
    tests = 'def test_fails_the_first_time(): assert not first_time("fails")'
    assert "(1 times so far" in run_suite(tmp_path, tests).out
    (tmp_path / "fails").unlink()
    with (tmp_path / "cache" / "flaky-tests.jsonl").open("a") as file:
        file.write('{"at": "half a line\n')
    again = run_suite(tmp_path, tests, "-n", "1")
    assert "(2 times so far" in again.out
    assert again.status == 0


def test_more_failures_than_accidents_explain_do_not_run_again(tmp_path: Path) -> None:
    tests = '@pytest.mark.parametrize("n", range(21))\ndef test_it(n): assert not first_time(f"fails-{n}")'
    ran = run_suite(tmp_path, tests)
    assert ran.status == 1
    assert "21 failures are no accident" in ran.out
    assert "21 failed" in ran.closing_line


@pytest.mark.parametrize("options", [(), ("-n", "1", "--max-worker-restart", "0")])
def test_a_run_that_did_not_come_to_its_end_is_never_green(tmp_path: Path, options: tuple[str, ...]) -> None:
    dies = 'os.kill(os.getpid(), signal.SIGKILL) if first_time("dies") else None'
    ran = run_suite(tmp_path, f"def test_first(): {dies}\ndef test_never(): pass", *options)
    assert ran.status != 0
    assert "FLAKY" not in ran.out


def test_a_run_that_stops_at_the_first_failure_has_no_second_run(tmp_path: Path) -> None:
    tests = 'def test_fails_the_first_time(): assert not first_time("fails")'
    ran = run_suite(tmp_path, tests, "-x")
    assert ran.status == 1
    assert "FLAKY" not in ran.out


WORKER_ONLY = "def pytest_{hook}({names}):\n    import os\n    if 'PYTEST_XDIST_WORKER' in os.environ: "
BROKEN_PARTS = {
    "INTERNALERROR": WORKER_ONLY.format(hook="runtest_makereport", names="item, call")
    + "assert '5' not in item.name or call.when != 'call'",
    "INTERNALERROR at the end of a worker": WORKER_ONLY.format(hook="sessionfinish", names="session")
    + "raise OSError",
    "workers died while they ran no test": WORKER_ONLY.format(hook="sessionfinish", names="session")
    + "os.kill(os.getpid(), 9)",
}


@pytest.mark.parametrize("said", BROKEN_PARTS)
def test_workers_that_break_without_a_failed_test_fail_the_run(tmp_path: Path, said: str) -> None:
    (tmp_path / "conftest.py").write_text(BROKEN_PARTS[said])
    ran = run_suite(
        tmp_path, '@pytest.mark.parametrize("number", range(6))\ndef test_it(number): pass', "-n", "2"
    )
    assert ran.status == 1, ran.out
    assert said in ran.out


IDLE_DEATH = (
    WORKER_ONLY.format(hook="sessionfinish", names="session")
    + """(
        Path(__file__).with_name("died").exists() or Path(__file__).with_name("died").touch() or os._exit(1))
"""
)


def test_a_worker_that_dies_between_tests_is_named_and_counted(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from pathlib import Path\n" + IDLE_DEATH)
    tests = '@pytest.mark.parametrize("number", range(6))\ndef test_it(number): pass'
    ran = run_suite(tmp_path, tests, "-n", "2")
    assert ran.status == 0, ran.out
    assert re.search(r"^FLAKY worker that died while it ran no test: gw\d \(1 times so far", ran.out, re.M)
    (kept,) = [json.loads(line) for line in ran.count_file.read_text().splitlines()]
    assert kept["test"] == "worker that died while it ran no test"


SUITES_OWN_OPTION = """
def pytest_addoption(parser):
    parser.addoption("--cluster")
"""


def test_a_second_run_meets_the_cluster_of_the_first(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(SUITES_OWN_OPTION)
    tests = (
        "def test_it(request):\n"
        '    assert request.config.getoption("--cluster") == "there:9092"\n'
        '    assert not first_time("fails")'
    )
    ran = run_suite(tmp_path, tests, "--cluster", "there:9092")
    assert ran.status == 0, ran.out
    assert ran.flaky == {"test_it"}


HARD_TO_RUN_AGAIN = """
def test_quiet(): pass

@pytest.mark.parametrize("name", ["x" * 200_000])
def test_of_a_long_name(name):
    assert not first_time("long")

def test_leaves_a_process_running():
    assert not first_time("process")
    if os.fork() == 0:
        time.sleep(3600)
"""

STRICT = """
import warnings, pytest
from pathlib import Path

@pytest.mark.xfail
def test_passes_against_its_mark(): pass

def test_warns(): warnings.warn("a warning")

def test_fails_the_first_time():
    seen = Path(__file__).with_name("seen")
    was_seen = seen.exists()
    seen.touch()
    assert was_seen
"""


def test_names_processes_and_options_do_not_change_what_a_second_run_says(tmp_path: Path) -> None:
    (tmp_path / "test_a@b.py").write_text(STRICT)
    options = ("-n", "2", "-W", "error", "-o", "xfail_strict=true")
    ran = run_suite(tmp_path, HARD_TO_RUN_AGAIN, *options)
    assert ran.status == 1, ran.out[-5000:]
    assert ran.failed_twice == {"test_passes_against_its_mark", "test_warns"}
    assert "2 failed, 1 passed, 3 flaky" in ran.closing_line
