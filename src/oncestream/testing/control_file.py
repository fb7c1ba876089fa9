"""Commands to a process of one's own, by a file that is replaced as a whole."""

from __future__ import annotations

import os
from pathlib import Path


class ControlFile:
    """The reading side."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None

    def news(self) -> str | None:
        """What was put there since the last look; None: nothing, or there is no file yet."""
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return None
        version = (found.st_ino, found.st_mtime_ns)
        if version == self._seen:
            return None
        self._seen = version
        return self._path.read_text()


def put(path: Path, text: str) -> None:
    beside = path.with_name(path.name + ".tmp")
    beside.write_text(text)
    os.replace(beside, path)
