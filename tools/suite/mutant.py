"""How tests run on a mutant: always the same way, quick tests first, no example made smaller.

The first green run notes what each test took; later runs with the same file start with the quick ones.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Final

import hypothesis
import pytest

SLOW_S: Final = 1.0
OPTION: Final = "--mutant-seconds"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, type=Path, required=True, help="file of the seconds that each test takes")


def pytest_configure(config: pytest.Config) -> None:
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile(
        "mutant", deadline=None, database=None, derandomize=True, phases=phases
    )
    hypothesis.settings.load_profile("mutant")
    config.pluginmanager.register(QuickFirst(config.getoption(OPTION)), "quick-first")


class QuickFirst:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._is_first = not file.exists()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if not self._is_first:
            seconds: dict[str, float] = json.loads(self._file.read_text())
            # Quick tests keep their order: what fixtures they share is made once.
            items.sort(key=lambda item: max(SLOW_S, seconds.get(item.nodeid, 0.0)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if self._is_first and exitstatus == pytest.ExitCode.OK:
            self._file.write_text(json.dumps(self._seconds))
