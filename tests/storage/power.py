"""A disk that loses power: of what was not synced anything may be gone, page by page."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random

from oncestream.machine import path_of
from oncestream.testing.disk import FaultyDisk

PAGE_BYTES = 64  # small, so that small logs have many


class PowerLost(Exception):
    """Nothing more is synced."""


class PowerlessDisk(FaultyDisk):
    """Remembers what is durable of each file and which names are durable in each folder."""

    def __init__(self) -> None:
        super().__init__()
        self.syncs_left: int | None = None  # then power is lost
        self._content: dict[str, bytes] = {}
        self._names: dict[str, set[str]] = {}

    def sync(self, fd: int) -> None:
        self._powered()
        path = path_of(fd)
        self._content[path] = Path(path).read_bytes()

    def sync_folder(self, folder: str | Path) -> None:
        self._powered()
        self._names[str(folder)] = names = set(os.listdir(folder))
        for path in [path for path in self._content if os.path.dirname(path) == str(folder)]:
            if os.path.basename(path) not in names:
                del self._content[path]  # a file that gets its name is another one

    def replace_file(self, path: Path, content: bytes, *, durable: bool = True) -> None:
        super().replace_file(path, content, durable=durable)
        if durable:
            self._content[str(path)] = content

    def _powered(self) -> None:
        if self.syncs_left is not None:
            self.syncs_left -= 1
            if self.syncs_left < 0:
                raise PowerLost

    def cut_power(self, folder: Path, chance: Random) -> None:
        """Makes `folder` what a machine may find that starts again."""
        for name in os.listdir(folder):
            path = folder / name
            lost = name not in self._names.get(str(folder), ()) and chance.random() < 0.5
            if lost:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            elif path.is_dir():
                self.cut_power(path, chance)
            else:
                self._tear(path, chance)

    def settle(self, folder: Path) -> None:
        """All that is there now is durable: it was read from the disk."""
        for path in (folder, *folder.rglob("*")):
            if path.is_dir():
                self.sync_folder(path)
            else:
                self._content[str(path)] = path.read_bytes()

    def _tear(self, path: Path, chance: Random) -> None:
        now = path.read_bytes()
        durable = self._content.get(str(path), b"")
        if now == durable:
            return
        size = chance.choice([len(durable), len(now), chance.randint(*sorted((len(durable), len(now))))])
        keep = chance.choice([0.0, 0.5, 0.9, 1.0])
        pages = []
        for start in range(0, size, PAGE_BYTES):
            source = now if chance.random() < keep else durable
            pages.append(source[start : start + PAGE_BYTES].ljust(PAGE_BYTES, b"\0"))
        path.write_bytes(b"".join(pages)[:size])
