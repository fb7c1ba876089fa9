"""A batch that is read while Spark still plans it."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class ReadAhead(Generic[T]):
    """Reads from `start` to `end` in a thread of its own, once."""

    def __init__(self, start: dict[str, Any], end: dict[str, Any], read: Callable[[], T]) -> None:
        self._batch = (start, end)
        self._read = read
        self._found: list[T] = []
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, name="oncestream-read-ahead", daemon=True)
        self._thread.start()

    def is_of(self, start: dict[str, Any], end: dict[str, Any]) -> bool:
        return self._batch == (start, end)

    def wait(self) -> None:
        self._thread.join()

    def result(self) -> T:
        """Waits for it; raises what the reading raised."""
        self.wait()
        if self._error is not None:
            raise self._error
        return self._found[0]

    def _run(self) -> None:
        try:
            self._found.append(self._read())
        except BaseException as error:
            self._error = error
