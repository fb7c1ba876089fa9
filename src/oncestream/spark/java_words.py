"""What Spark's JVM and its Python workers say on standard error: held back until Spark is up."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock, Thread
from typing import BinaryIO, Final

LINES_MAX: Final = 1000
STACK_BEGIN: Final = b"Exception in thread "
STACK_LINES: Final = (b"\t", b"Caused by: ")
STDERR: Final = 2
END_S: Final = 2.0

log: Final = logging.getLogger(__name__)


class JavaWords:
    """Banners and warnings of a good start are nobody's business; of a failed one they are the story."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._held: deque[bytes] | None = deque(maxlen=LINES_MAX)
        self._reader: Thread | None = None

    @contextmanager
    def pipe(self) -> Iterator[int]:
        """The end that the JVM writes to; it has its own copy afterwards."""
        mine, theirs = os.pipe()
        self._reader = Thread(
            target=self._read, args=(os.fdopen(mine, "rb"),), name="java-words", daemon=True
        )
        self._reader.start()
        try:
            yield theirs
        finally:
            os.close(theirs)

    def let_through(self) -> list[str]:
        """From now on all but Java's stacks goes to standard error; what was said before, line by line."""
        with self._lock:
            held, self._held = self._held or (), None
        return [line.decode(errors="replace").rstrip() for line in held]

    def last(self) -> list[str]:
        """What a JVM has said that is at its end."""
        if self._reader is not None:
            self._reader.join(END_S)
        with self._lock:
            return [line.decode(errors="replace").rstrip() for line in self._held or ()]

    def _read(self, source: BinaryIO) -> None:
        in_stack = False
        with source:
            for line in source:
                with self._lock:
                    if self._held is not None:
                        self._held.append(line)
                        continue
                # A thread of Java that dies: the pipeline's error tells why.
                in_stack = line.startswith(STACK_BEGIN) or (in_stack and line.startswith(STACK_LINES))
                if in_stack:
                    log.info("java: %s", line.decode(errors="replace").rstrip())
                    continue
                with suppress(OSError):  # standard error is closed
                    os.write(STDERR, line)
