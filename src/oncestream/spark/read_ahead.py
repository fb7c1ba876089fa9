"""A batch that is read while Spark still plans it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Thread
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class ReadAhead(Generic[T]):
    """Reads from `start` to `end` in a thread of its own, once."""

    def __init__(self, start: dict[str, Any], end: dict[str, Any], read: Callable[[], T]) -> None:
        self._batch = (start, end)
        self._read = read
        self._found: Future[T] = Future()
        # No executor: one would wait for its thread when the process ends.
        Thread(target=self._run, name="oncestream-read-ahead", daemon=True).start()

    def is_of(self, start: dict[str, Any], end: dict[str, Any]) -> bool:
        return self._batch == (start, end)

    def wait(self) -> None:
        wait([self._found])

    def result(self) -> T:
        """Waits for it; raises what the reading raised."""
        return self._found.result()

    def _run(self) -> None:
        try:
            self._found.set_result(self._read())
        except BaseException as error:
            self._found.set_exception(error)
