"""What a torture run has done so far, counted from the histories while they grow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from oncestream.verify.torture_report import Efforts

CHUNK_BYTES: Final = 1024 * 1024
_SIGNS: Final = {
    "events": b"\n",
    "sent": b'"kind":"send","phase":"ok"',
    "committed": b'"kind":"commit","phase":"ok"',
    "aborted": b'"kind":"abort","phase":"ok"',
    "polls": b'"kind":"poll"',
}


@dataclass(frozen=True, slots=True)
class Progress:
    """`stage`: running, draining or checking. `counts`: events, sent, committed, aborted, polls.

    Whether there is an anomaly is not known before the end.
    """

    stage: str
    duration_s: float
    efforts: Efforts
    counts: Mapping[str, int]
    memory_bytes: Mapping[str, int]  # by node


class LiveCounts:
    """Reads what was added to the histories since the last look."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: Counter[Path] = Counter()
        self._totals: Counter[str] = Counter()

    def look(self) -> Mapping[str, int]:
        """All counts so far."""
        for file in self._folder.glob("*.jsonl"):
            for part in self._new_lines(file):
                for name, sign in _SIGNS.items():
                    self._totals[name] += part.count(sign)
        return self._totals

    def _new_lines(self, file: Path) -> Iterable[bytes]:
        """Whole lines only: a sign must not be cut in two."""
        with file.open("rb") as lines:
            lines.seek(self._read[file])
            while True:
                chunk = lines.read(CHUNK_BYTES)
                whole = chunk[: chunk.rfind(b"\n") + 1]
                if not whole:
                    return
                self._read[file] += len(whole)
                lines.seek(self._read[file])
                yield whole
