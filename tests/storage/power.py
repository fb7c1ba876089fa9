"""A disk that loses power: of what was not synced anything may be gone, page by page.

What a sync that failed should have covered never gets to the disk, as with Linux: the system takes it for written, and
a later sync of the same file goes well without it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
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
        self._given_up: dict[str, bytes] = {}  # a file as it was when a sync of it failed

    def sync(self, fd: int) -> None:
        self._powered()
        path = path_of(fd)
        now = Path(path).read_bytes()
        try:
            self._sync(path)
        except OSError:
            self._given_up[path] = now
            raise
        given_up = self._given_up.get(path)
        if given_up is not None:
            now = _join(now, self._content.get(path, b""), lambda page: now[page] == given_up[page])
        self._content[path] = now

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

    def cut_power(self, folder: Path, chance: Random | None) -> None:
        """Makes `folder` what a machine may find that starts again; without chance, all that was not synced is gone."""
        for name in sorted(os.listdir(folder)):
            path = folder / name
            is_durable = name in self._names.get(str(folder), ())
            if not is_durable and (chance is None or chance.random() < 0.5):
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

    def _tear(self, path: Path, chance: Random | None) -> None:
        now = path.read_bytes()
        durable = self._content.get(str(path), b"")
        if now == durable:
            return
        if chance is None:
            path.write_bytes(durable)
            return
        size = chance.choice([len(durable), len(now), chance.randint(*sorted((len(durable), len(now))))])
        keep = chance.choice([0.0, 0.5, 0.9, 1.0])
        torn = _join(now[:size].ljust(size, b"\0"), durable, lambda _: chance.random() >= keep)
        path.write_bytes(torn)


def _join(new: bytes, old: bytes, is_old: Callable[[slice], bool]) -> bytes:
    """Of each page one or the other, as long as the new ones are together."""
    pages = [slice(start, start + PAGE_BYTES) for start in range(0, len(new), PAGE_BYTES)]
    joined = ((old if is_old(page) else new)[page].ljust(PAGE_BYTES, b"\0") for page in pages)
    return b"".join(joined)[: len(new)]
