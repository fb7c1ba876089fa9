"""Lines of generated Python with indentation, fresh variables and constants."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class SourceLines:
    """Collects a function's source; `names` are the globals it will run with."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names
        self._lines: list[str] = []
        self._depth = 0
        self._variables = 0

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def indented(self) -> Iterator[None]:
        self._depth += 1
        yield
        self._depth -= 1

    def variable(self, prefix: str) -> str:
        """A name not used before."""
        self._variables += 1
        return f"{prefix}{self._variables}"

    def constant(self, name: str, value: Any) -> str:
        """The global name under which the function finds `value`."""
        name = name.replace("?", "bool")
        self.names[name] = value
        return name

    def source(self) -> str:
        return "\n".join(self._lines)
