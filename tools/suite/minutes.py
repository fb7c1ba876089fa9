"""Prints the minutes and tests of each folder at the end of a run: time in the suite is a budget."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import pytest

FOLDERS_MIN: Final = 2  # a run of one folder needs no table
DEPTH: Final = 2


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Minutes(), "minutes")


class Minutes:
    def __init__(self) -> None:
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._tests: defaultdict[str, set[str]] = defaultdict(set)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        folder = folder_of(report.nodeid)
        self._seconds[folder] += report.duration
        self._tests[folder].add(report.nodeid)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if len(self._seconds) < FOLDERS_MIN:
            return
        terminalreporter.section("Minutes of all workers, and tests, by folder")
        for folder, seconds in sorted(self._seconds.items(), key=lambda item: -item[1]):
            terminalreporter.line(f"{seconds / 60:6.1f} {len(self._tests[folder]):6}  {folder}")


def folder_of(test: str) -> str:
    """tests/spark/crashes/test_kills.py::test_it -> tests/spark"""
    folders = test.partition("::")[0].split("/")[:-1]
    return "/".join(folders[:DEPTH]) or "."
