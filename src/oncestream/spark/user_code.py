"""Which line of the user's own code an error comes from."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from traceback import walk_tb
from typing import Final, NamedTuple

import oncestream

FRAME: Final = re.compile(r'^  File "(.+)", line (\d+)', re.M)
OWN_FOLDER: Final = f"{Path(oncestream.__file__).parent}/"
NOT_THE_USERS: Final = re.compile(
    r"/(?:site-packages|dist-packages|lib/python3\.\d+|pyspark|pyspark\.zip|py4j[^/]*\.zip|oncestream/spark)/"
)


class Place(NamedTuple):
    """A line of a file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}"


def place_of(error: BaseException) -> Place | None:
    """Where the error was raised, or what the user's code called then."""
    frames = walk_tb(error.__traceback__)
    return _innermost(Place(frame.f_code.co_filename, line) for frame, line in frames)


def place_in(trace: str) -> Place | None:
    """The same of a traceback as text."""
    return _innermost(Place(file, int(line)) for file, line in FRAME.findall(trace))


def with_place(reason: str, place: Place | None) -> str:
    return reason if place is None else f"{reason} ({place})"


def _innermost(places: Iterable[Place]) -> Place | None:
    own = [at for at in places if _is_the_users(at.file)]
    return own[-1] if own else None


def _is_the_users(file: str) -> bool:
    """Compiled modules name sources that nobody has."""
    return file.endswith(".py") and not file.startswith(OWN_FOLDER) and not NOT_THE_USERS.search(file)
