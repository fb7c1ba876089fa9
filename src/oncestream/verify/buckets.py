"""Rows of an audit, spread over files by the hash of their key, so that one file at a time fits into memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[Any]

# Two 64-bit hashes identify a key: among a thousand million keys, one pair in 10^20 would look the same.
ROW: Final = np.dtype(
    [
        ("hash", "<u8"),
        ("hash2", "<u8"),
        ("content", "<u8"),  # of what must be equal on both sides
        ("offset", "<i8"),
        ("place", "<i4"),  # which partition
        ("role", "u1"),
    ]
)
ROWS_EACH: Final = 500_000
BUCKETS_MAX: Final = 4096
WAITING_BYTES_MAX: Final = 64 * 1024 * 1024


class Buckets:
    """Up to 64 MiB wait to be written; a bucket holds about 500,000 rows of 37 bytes (up to 2,000 million rows)."""

    def __init__(self, folder: Path, rows_expected: int, waiting_bytes_max: int = WAITING_BYTES_MAX) -> None:
        self._folder = folder
        self.count = min(BUCKETS_MAX, rows_expected // ROWS_EACH + 1)
        self._waiting: list[list[Rows]] = [[] for _ in range(self.count)]
        self._waiting_bytes = 0
        self._waiting_bytes_max = waiting_bytes_max

    def add(self, rows: Rows) -> None:
        if self.count == 1:
            self._waiting[0].append(rows)
        else:
            numbers = rows["hash"] % np.uint64(self.count)
            order = np.argsort(numbers, kind="stable")
            bounds = np.searchsorted(numbers[order], np.arange(self.count + 1, dtype=np.uint64))
            for number in np.flatnonzero(np.diff(bounds)):
                self._waiting[number].append(rows[order[bounds[number] : bounds[number + 1]]])
        self._waiting_bytes += rows.nbytes
        if self._waiting_bytes > self._waiting_bytes_max:
            self._write()

    def __iter__(self) -> Iterator[Rows]:
        """One bucket after another. All rows of a key are in one."""
        for number, waiting in enumerate(self._waiting):
            file = self._file(number)
            written = [np.fromfile(file, ROW)] if file.exists() else []
            yield np.concatenate([*written, *waiting]) if written or waiting else np.empty(0, ROW)

    def _write(self) -> None:
        for number, waiting in enumerate(self._waiting):
            if waiting:
                with self._file(number).open("ab") as file:
                    np.concatenate(waiting).tofile(file)
                waiting.clear()
        self._waiting_bytes = 0

    def _file(self, number: int) -> Path:
        return self._folder / f"{number:04d}.rows"


def rows_of(
    keys: list[bytes], contents: list[bytes | None] | None, offsets: Rows, place: int, roles: Rows | int
) -> Rows:
    """Hashes are those of this process: Python's own, quick, and with a secret that no input can know."""
    rows = np.empty(len(keys), ROW)
    rows["hash"] = _hashes(keys)
    rows["hash2"] = _hashes([b"\1" + key for key in keys])
    rows["content"] = 0 if contents is None else _hashes([each or b"" for each in contents])
    rows["offset"] = offsets
    rows["place"] = place
    rows["role"] = roles
    return rows


def _hashes(items: list[bytes]) -> Rows:
    return np.fromiter(map(hash, items), np.int64, len(items)).view(np.uint64)
