"""Compares the inputs and outputs of an audit, one bucket of rows at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import Enum, IntEnum
from typing import Any, Final

import numpy as np

from oncestream.client.topic_partition import TopicPartition
from oncestream.verify.audit_report import Problem
from oncestream.verify.buckets import Rows

LISTED_MAX: Final = 20  # of each kind


class Role(IntEnum):
    """Of a row. An input must have its output, may have it (it was committed meanwhile), or must not yet."""

    REQUIRED = 0
    ALLOWED = 1
    WAITING = 2
    OUTPUT = 3


class Expected(Enum):
    """How many outputs an input should have."""

    ONE = "one"
    AT_MOST_ONE = "at most one"  # the pipeline filters
    AT_LEAST_ONE = "at least one"  # the pipeline splits
    DISTINCT = "distinct"  # inputs are not known


class Comparison:
    """Exact counts, and the first of each kind with its place."""

    def __init__(self, expected: Expected, places: Sequence[TopicPartition], *, compare: bool) -> None:
        self._expected = expected
        self._places = places
        self._compare = compare
        self._listed: Counter[str] = Counter()
        self.problems: list[Problem] = []
        self.inputs = 0
        self.outputs = 0
        self.waiting = 0
        self.missing = 0
        self.duplicates = 0
        self.extra = 0
        self.changed = 0
        self.behind = 0

    def take(self, rows: Rows) -> None:
        """All rows of some keys."""
        if not len(rows):
            return
        order = np.lexsort((rows["offset"], rows["place"], rows["role"], rows["hash2"], rows["hash"]))
        rows = rows[order]
        changes = (rows["hash"][1:] != rows["hash"][:-1]) | (rows["hash2"][1:] != rows["hash2"][:-1])
        starts = np.concatenate(([0], np.flatnonzero(changes) + 1))
        counts = {role: np.add.reduceat((rows["role"] == role).astype(np.int64), starts) for role in Role}
        self.inputs += int(counts[Role.REQUIRED].sum() + counts[Role.ALLOWED].sum())
        self.waiting += int(counts[Role.WAITING].sum())
        self.outputs += int(counts[Role.OUTPUT].sum())
        self._count(rows, np.append(starts, len(rows)), counts)

    def _count(self, rows: Rows, bounds: Rows, counts: dict[Role, Rows]) -> None:
        required, outputs, waiting = counts[Role.REQUIRED], counts[Role.OUTPUT], counts[Role.WAITING]
        known = required + counts[Role.ALLOWED]
        nothing = np.zeros_like(outputs)
        missing = np.maximum(required - outputs, 0)
        surplus = np.maximum(outputs - np.maximum(known, self._expected is Expected.DISTINCT), 0)
        behind = np.minimum(surplus, waiting)
        rest = surplus - behind
        has_input = known + waiting > 0
        extra = np.where(has_input, nothing, rest)
        duplicates = rest - extra
        if self._expected is Expected.DISTINCT:
            extra, duplicates = nothing, rest
        elif self._expected is Expected.AT_MOST_ONE:
            missing = nothing
        elif self._expected is Expected.AT_LEAST_ONE:
            behind = np.where(known > 0, nothing, behind)
            duplicates = nothing
        self.missing += self._tell("missing", rows, bounds, missing, Role.REQUIRED)
        self.duplicates += self._tell("duplicate", rows, bounds, duplicates, Role.OUTPUT)
        self.extra += self._tell("extra", rows, bounds, extra, Role.OUTPUT)
        self.behind += self._tell("not committed", rows, bounds, behind, Role.OUTPUT)
        if self._compare:
            changed = self._changed(rows, bounds, has_input & (outputs > 0))
            self.changed += self._tell("changed", rows, bounds, changed, Role.OUTPUT)

    def _changed(self, rows: Rows, bounds: Rows, both: Rows) -> Rows:
        """Outputs of each key whose content no input of that key has."""
        starts, content = bounds[:-1], rows["content"]
        differ = np.minimum.reduceat(content, starts) != np.maximum.reduceat(content, starts)
        changed = np.zeros(len(starts), np.int64)
        for group in np.flatnonzero(differ & both):
            part = rows[bounds[group] : bounds[group + 1]]
            is_output = part["role"] == Role.OUTPUT
            changed[group] = np.isin(
                part["content"][is_output], part["content"][~is_output], invert=True
            ).sum()
        return changed

    def _tell(self, kind: str, rows: Rows, bounds: Rows, counts: Rows, role: Role) -> int:
        """Lists the last rows of that role of each key with a count; answers the sum."""
        for group in np.flatnonzero(counts)[: LISTED_MAX - self._listed[kind]]:
            part = rows[bounds[group] : bounds[group + 1]]
            bad = part[part["role"] == role][-int(counts[group]) :]
            others = [self._place(row) for row in part if row not in bad]
            for row in bad[: LISTED_MAX - self._listed[kind]]:
                at, offset = self._place(row)
                self.problems.append(Problem(kind, at, offset, _also(others)))
                self._listed[kind] += 1
        return int(counts.sum())

    def _place(self, row: Any) -> tuple[TopicPartition, int]:
        return self._places[int(row["place"])], int(row["offset"])


def _also(others: list[tuple[TopicPartition, int]]) -> str:
    if not others:
        return ""
    shown = ", ".join(f"{at} offset {offset}" for at, offset in others[:5])
    return f"same key: {shown}" + (f" and {len(others) - 5} more" if len(others) > 5 else "")
