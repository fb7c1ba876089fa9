"""A bar, or a count where the end is not known, while long work is done; only on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

Advance = Callable[[int, int], None]  # what is done, and how much it will be

UNKNOWN: Final = 0
SHOW_INTERVAL_S: Final = 0.1


@contextmanager
def progress(things: str, *, wanted: bool = True) -> Iterator[Advance]:
    """Nothing is shown where standard error is no terminal."""
    if not (wanted and sys.stderr.isatty()):
        yield lambda done, total: None  # noqa: ARG005
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn(things), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(things, total=None)
        shown = 0.0

        def advance(done: int, total: int) -> None:
            nonlocal shown
            if done == total or time.monotonic() - shown > SHOW_INTERVAL_S:
                shown = time.monotonic()
                bar.update(task, completed=done, total=total or None)

        yield advance
