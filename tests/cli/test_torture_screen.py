"""What a torture run tells while it goes on."""

from __future__ import annotations

from collections import Counter

import pytest

from oncestream.cli.torture_screen import TortureScreen
from oncestream.verify.torture_live import Progress
from oncestream.verify.torture_report import Efforts

MEBI = 1024 * 1024
PROGRESS = Progress(
    "running",
    120.0,
    Efforts("a cluster", 7, 31.4, 12, 3, 4, 1, 2, 5, 6),
    Counter(events=12345, sent=6000, committed=321),
    {"node 1": 45 * MEBI},
)


def test_without_a_terminal_a_line_is_told_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    with TortureScreen("a cluster", 7, quiet=False) as screen:
        screen.show(PROGRESS)
        screen.show(PROGRESS)
    out, err = capsys.readouterr()
    title, line = err.splitlines()
    assert out == ""
    assert title == "torture of a cluster, seed 7"
    assert line.startswith("    31 s  running: operations 12,345, records 6,000, committed 321, aborted 0,")
    assert line.endswith(
        "processes 12, kills 3, freezes 4, clock jumps 1, disk faults 2, network faults 5, requests hit 6,"
        " broker memory 45 MiB"
    )


def test_a_quiet_one_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with TortureScreen("a cluster", 7, quiet=True) as screen:
        screen.show(PROGRESS)
    assert capsys.readouterr() == ("", "")
