"""All processes of a driver: Python, its JVM, its workers. They carry a tag in their environment."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Final

TAG_VARIABLE: Final = "ONCESTREAM_TEST_DRIVER"


def family(tag: str) -> list[int]:
    """Whoever was started with this tag, sessions and process groups of their own notwithstanding."""
    wanted = f"{TAG_VARIABLE}={tag}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def send(tag: str, number: signal.Signals) -> None:
    """To the whole family; where the caller belongs to it, to the caller last."""
    others = [pid for pid in family(tag) if pid != os.getpid()]
    for pid in others:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
    if os.environ.get(TAG_VARIABLE) == tag:
        os.kill(os.getpid(), number)
