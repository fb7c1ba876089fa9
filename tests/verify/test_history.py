"""Histories on disk: written as they happen, read in the order of time, usable after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncestream.errors import HistoryUnreadable
from oncestream.verify.history import Event, History, HistoryWriter, Kind, Phase, Record

RECORDS = st.builds(
    Record, st.text(max_size=9), st.integers(0, 99), st.integers(-1, 2**62), st.none() | st.integers(0, 2**62)
)
EVENTS = st.builds(
    Event,
    st.sampled_from(Kind),
    st.sampled_from(Phase),
    st.text(max_size=9),
    st.integers(0, 2**62),
    st.integers(-1, 999),
    st.lists(RECORDS, max_size=4).map(tuple),
    st.text(max_size=9),
    st.integers(0, 2**62),
)


@given(EVENTS)
def test_a_line_is_read_as_it_was_written(event: Event) -> None:
    line = event.line()
    assert line.count("\n") == 1
    assert Event.of_line(line) == event


def test_several_files_are_read_in_the_order_of_time_and_as_often_as_one_likes(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path / "b.jsonl") as one, HistoryWriter(tmp_path / "a.jsonl") as other:
        for number in range(4):
            (one, other)[number % 2].write(
                Kind.POLL, Phase.OK, f"c{number}", records=(Record("t", 0, number),)
            )
    history = History.of_folder(tmp_path)
    for _ in range(2):
        assert [event.process for event in history] == ["c0", "c1", "c2", "c3"]
    assert [event.records[0].offset for event in history] == [0, 1, 2, 3]


def test_a_killed_process_leaves_what_it_had_written(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from oncestream.verify.history import HistoryWriter, Kind, Phase
writer = HistoryWriter(Path(sys.argv[1]))
for number in range(100):
    writer.write(Kind.COMMIT, Phase.INVOKE, "p", transaction=number)
print("written", flush=True)
sys.stdin.read()
"""
    file = tmp_path / "p.jsonl"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"written\n"
        process.send_signal(signal.SIGKILL)
    with file.open("ab") as half:
        half.write(b'{"kind":"com')
    assert [event.transaction for event in History([file])] == list(range(100))


def test_a_broken_line_is_told_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text('{"kind":"send"}\n')
    with pytest.raises(HistoryUnreadable, match="line 1 of the history"):
        list(History([file]))
