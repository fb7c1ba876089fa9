"""What an audit found: as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from oncestream.client.topic_partition import TopicPartition

KEY_CHARS_MAX: Final = 80

_KINDS: Final = {
    "missing": "inputs without their output",
    "duplicates": "outputs more often than their inputs",
    "extra": "outputs that no input explains",
    "changed": "outputs that differ from their input",
    "behind": "outputs of inputs that are not committed yet",
    "inputs_without_key": "inputs without a key",
    "outputs_without_key": "outputs without a key",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """A record that should not be there, or has no counterpart."""

    kind: str
    at: TopicPartition
    offset: int
    text: str = ""
    key: str = ""

    def with_key(self, key: bytes | None) -> Problem:
        return replace(self, key="" if key is None else key.decode(errors="replace")[:KEY_CHARS_MAX])

    def __str__(self) -> str:
        key = f" key {self.key!r}" if self.key else ""
        return f"{self.kind}: {self.at} offset {self.offset}{key}" + (f" ({self.text})" if self.text else "")


@dataclass(frozen=True, slots=True)
class AuditReport:
    """Counts are exact; `problems` has the first 20 of each kind. `waiting`: inputs not processed yet."""

    inputs: int
    outputs: int
    waiting: int = 0
    missing: int = 0
    duplicates: int = 0
    extra: int = 0
    changed: int = 0
    behind: int = 0
    inputs_without_key: int = 0
    outputs_without_key: int = 0
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not any(getattr(self, kind) for kind in _KINDS)

    def text(self) -> str:
        return "\n".join(self._lines())

    def json(self) -> str:
        return json.dumps(self.content(), indent=2)

    def content(self) -> dict[str, Any]:
        """As JSON holds it."""
        counts = {name: value for name, value in asdict(self).items() if isinstance(value, int)}
        problems = [
            {
                "kind": problem.kind,
                "topic": problem.at.topic,
                "partition": problem.at.partition,
                "offset": problem.offset,
                "key": problem.key,
                "text": problem.text,
            }
            for problem in self.problems
        ]
        return {"ok": self.ok, **counts, "problems": problems, "notes": list(self.notes)}

    def _lines(self) -> Iterator[str]:
        yield f"{self.inputs} inputs, {self.outputs} outputs, {self.waiting} inputs not processed yet"
        yield from (f"note: {note}" for note in self.notes)
        for kind, meaning in _KINDS.items():
            if count := getattr(self, kind):
                yield f"PROBLEM: {count} {meaning}"
        yield from (f"  {problem}" for problem in self.problems)
        yield "no problem found" if self.ok else "FAILED"
