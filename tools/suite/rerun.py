"""Runs each failed test once more, alone, after all the others.

A test that passes the second time leaves the run green; the last lines name it as FLAKY, with the output of both
runs, and `flaky-tests.jsonl` in the cache folder keeps count. A test that fails twice fails the run.
A dead worker, a time-out and a failed fixture count as failures of the tests they hit. Tests whose fixture failed
with the same words run again together, in one process.
A worker that dies between tests leaves the run green, and is named and counted as FLAKY, too.
A run that lost a test, broke inside, or lost two workers between tests is never green.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import pytest
from xdist.workermanage import WorkerController

from oncestream.spark.java import cache_folder

SECOND_RUNS_MAX: Final = 20  # more failures than that are no accident
SECOND_RUN_TIMEOUT_S: Final = 1800  # each test has a time-out of its own; this one ends a process that hangs
OUTPUT_LINES_MAX: Final = 150
IDLE_DEATHS_MAX: Final = 1  # workers that die of no test: the second one is no accident
CLUSTER: Final = "--cluster"  # an option of the suite's own
CRASH: Final = "???"  # the phase in pytest-xdist's report of a test that its worker died of
BROKE_AT_END: Final = "broke_at_end"
IDLE_DEATH: Final = "worker that died while it ran no test"
COUNT_FILE: Final = "flaky-tests.jsonl"


@dataclass(frozen=True, slots=True)
class SecondRun:
    """Tests that ran once more, in a process of their own."""

    tests: tuple[str, ...]
    passed: bool
    output: str


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Rerun(config), "rerun")
    else:
        config.pluginmanager.register(Worker(), "rerun")


class Worker:
    """Lives in a worker: pytest-xdist keeps to itself that the end of a worker's session failed."""

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        try:
            return (yield)
        except BaseException:
            session.config.workeroutput[BROKE_AT_END] = traceback.format_exc()  # type: ignore[attr-defined]
            raise


class Rerun:
    """Lives in the process that reports, beside or without pytest-xdist."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._seen: set[str] = set()
        self._failures: dict[str, list[pytest.TestReport]] = {}
        self._second_runs: list[SecondRun] = []
        self._verdict = ""
        self._broke_inside = False
        self._dead: dict[str, str] = {}  # workers and how they ended
        self._died_of_a_test: set[str] = set()

    def pytest_internalerror(self) -> None:
        self._broke_inside = True  # pytest-xdist goes on without the worker and its tests

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: WorkerController, error: object | None) -> None:
        if error is not None:
            self._dead[node.gateway.id] = str(error)
        if said := getattr(node, "workeroutput", {}).get(BROKE_AT_END):
            self._broke_inside = True
            self._say(f"INTERNALERROR at the end of a worker\n{said}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seen.add(report.nodeid)
        if str(report.when) == CRASH:
            self._died_of_a_test.add(report.node.gateway.id)
        if report.failed:
            self._failures.setdefault(report.nodeid, []).append(report)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Iterator[None]:
        result = yield
        self._verdict = self._why_never_green(session)
        for reason in self._idle_deaths.values():
            _keep_count((IDLE_DEATH,), reason)
        if self._verdict:
            session.testsfailed += 1
        elif self._failures:
            self._run_failed_again(session)
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
        yield
        for run in self._second_runs:
            self._print_both_runs(terminalreporter, run)
        if self._verdict:
            terminalreporter.section("Second runs", yellow=True)
            terminalreporter.line(self._verdict)
        counts = _counts() if self._second_runs or self._idle_deaths else Counter()
        for worker in self._idle_deaths:
            terminalreporter.line(f"FLAKY {IDLE_DEATH}: {worker} {_so_far(counts[IDLE_DEATH])}")
        for run in self._second_runs:
            for test in map(plain_id, run.tests):
                said = f"FLAKY {test} {_so_far(counts[test])}"
                terminalreporter.line(said if run.passed else f"FAILED TWICE {test}")

    @property
    def _idle_deaths(self) -> dict[str, str]:
        return {worker: how for worker, how in self._dead.items() if worker not in self._died_of_a_test}

    def _why_never_green(self, session: pytest.Session) -> str:
        never_ran = 0 if self._config.option.collectonly else session.testscollected - len(self._seen)
        idle_deaths = len(self._idle_deaths)
        if never_ran > 0:
            return f"none: {never_ran} tests never ran"
        if self._broke_inside:
            return "none: pytest broke inside a worker, see INTERNALERROR"
        if idle_deaths > IDLE_DEATHS_MAX:
            return f"none: {idle_deaths} workers died while they ran no test"
        return ""

    def _run_failed_again(self, session: pytest.Session) -> None:
        groups = _groups(self._failures)
        if len(groups) > SECOND_RUNS_MAX:
            self._verdict = (
                f"none: {len(groups)} failures are no accident (at most {SECOND_RUNS_MAX} run again)"
            )
        else:
            for number, tests in enumerate(groups, 1):
                self._say(f"second run {number} of {len(groups)}, alone: {_listed(tests)}")
                self._second_runs.append(
                    run := run_alone(tests, self._config.rootpath, _options(self._config))
                )
                self._say("passed" if run.passed else "failed again")
                if run.passed:
                    self._forgive(session, tests)

    def _forgive(self, session: pytest.Session, tests: tuple[str, ...]) -> None:
        """The run counts these tests as flaky instead of failed."""
        reports = [report for test in tests for report in self._failures[test]]
        session.testsfailed -= len(reports)
        _keep_count(tests, reports[0].longreprtext)
        reporter = self._config.pluginmanager.getplugin("terminalreporter")
        for category in ("failed", "error"):
            left = [report for report in reporter.stats.pop(category, []) if report not in reports]
            if left:
                reporter.stats[category] = left
        reporter._add_stats("flaky", [self._failures[test][0] for test in tests])

    def _print_both_runs(self, reporter: pytest.TerminalReporter, run: SecondRun) -> None:
        reporter.section(f"{'FLAKY' if run.passed else 'FAILED TWICE'}: {_listed(run.tests)}", yellow=True)
        for report in self._failures[run.tests[0]]:
            reporter.line(f"--- first run, {report.when} ---")
            sections = [f"--- {name} ---\n{content}" for name, content in report.sections]
            reporter.line(_tail("\n".join([report.longreprtext, *sections])))
        reporter.line("--- second run ---")
        reporter.line(_tail(run.output))

    def _say(self, line: str) -> None:
        self._config.pluginmanager.getplugin("terminalreporter").write_line(f"\n{line}")


def run_alone(tests: tuple[str, ...], root: Path, options: tuple[str, ...] = ()) -> SecondRun:
    """Runs these tests in a new process, with nothing beside it. A skipped test has not passed."""
    with tempfile.TemporaryDirectory() as folder:
        outcomes, names, printed = (Path(folder) / name for name in ("outcomes.xml", "names", "printed"))
        names.write_text("\n".join(map(plain_id, tests)), encoding="utf-8")  # too long for a command, perhaps
        command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", f"--junitxml={outcomes}"]
        with printed.open("wb") as file:  # a pipe would wait for whatever a test leaves running
            process = subprocess.Popen(
                [*command, *options, f"@{names}"],
                cwd=root,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        late = ""
        try:
            process.wait(timeout=SECOND_RUN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            late = f"\nthe second run did not end within {SECOND_RUN_TIMEOUT_S} s"
        finally:
            _end_group(process)
        output = printed.read_text(errors="replace") + late
        passed = process.returncode == 0 and _passed(outcomes) == len(tests)
        return SecondRun(tests, passed, output)


def plain_id(test: str) -> str:
    """The id of a test without the group that pytest-xdist appends."""
    file, colons, name = test.partition("::")
    return f"{file}{colons}{name.rpartition('@')[0]}" if name.rfind("@") > name.rfind("]") else test


def _options(config: pytest.Config) -> tuple[str, ...]:
    """The second run is as strict as the first, and meets the same cluster."""
    warnings = (f"-W{given}" for given in config.option.pythonwarnings or ())
    settings = (f"--override-ini={given}" for given in config.option.override_ini or ())
    cluster = config.getoption(CLUSTER, None)
    return (*warnings, *settings, *([f"{CLUSTER}={cluster}"] if cluster else ()))


def _groups(failures: dict[str, list[pytest.TestReport]]) -> list[tuple[str, ...]]:
    """Tests that run again together: those of one failed fixture; any other test is alone."""
    groups: dict[str, list[str]] = {}
    for test, (first, *_) in failures.items():
        same = first.longreprtext if first.when == "setup" else test
        groups.setdefault(same, []).append(test)
    return [tuple(tests) for tests in groups.values()]


def _passed(outcomes: Path) -> int:
    if not outcomes.exists():
        return 0
    cases = ElementTree.parse(outcomes).iter("testcase")
    return sum(
        not any(case.find(kind) is not None for kind in ("failure", "error", "skipped")) for case in cases
    )


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Nothing that the second run started outlives it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _keep_count(tests: tuple[str, ...], failure: str) -> None:
    path = _count_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    reason = next((line for line in reversed(failure.splitlines()) if line), "")
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with path.open("a") as file:
        for test in tests:
            file.write(json.dumps({"at": at, "test": plain_id(test), "reason": reason}) + "\n")


def _counts() -> Counter[str]:
    try:
        lines = _count_path().read_text().splitlines()
    except OSError:
        return Counter()
    counts: Counter[str] = Counter()
    for line in lines:
        with suppress(json.JSONDecodeError):  # a run that was killed left half a line
            counts[json.loads(line)["test"]] += 1
    return counts


def _so_far(count: int) -> str:
    return f"({count} times so far, see {_count_path()})"


def _count_path() -> Path:
    return cache_folder() / COUNT_FILE


def _listed(tests: tuple[str, ...]) -> str:
    more = f" and {len(tests) - 3} more" if len(tests) > 3 else ""
    return ", ".join(plain_id(test) for test in islice(tests, 3)) + more


def _tail(text: str) -> str:
    lines = text.strip().splitlines()
    cut = [f"... {len(lines) - OUTPUT_LINES_MAX} lines left out ..."] if len(lines) > OUTPUT_LINES_MAX else []
    return "\n".join([*cut, *lines[-OUTPUT_LINES_MAX:]])
