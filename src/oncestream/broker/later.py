"""An answer that comes later: lighter than an asyncio future, and resolved without a turn of the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Later:
    """Resolved once, by whoever has the answer; told to the one who waits for it."""

    __slots__ = ("_callback", "_result", "resolved")

    def __init__(self) -> None:
        self.resolved = False
        self._result: Any = None
        self._callback: Callable[[Any], None] | None = None

    def resolve(self, result: Any) -> None:
        """Gives the answer. A second one is a mistake of the caller."""
        assert not self.resolved, "answered twice"
        self.resolved = True
        self._result = result
        if self._callback is not None:
            self._callback(result)

    def then(self, callback: Callable[[Any], None]) -> None:
        assert self._callback is None, "one listener only"
        self._callback = callback
        if self.resolved:
            callback(self._result)
