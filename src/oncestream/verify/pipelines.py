"""Rules of a pipeline: its output is exactly what its inputs below the committed offsets make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import NamedTuple

from oncestream.client.topic_partition import TopicPartition
from oncestream.verify.anomalies import Anomaly, Findings, Witness


class Row(NamedTuple):
    """A committed record of an input or output topic."""

    at: TopicPartition
    offset: int
    value: Hashable

    def witness(self, told_by: str) -> Witness:
        return Witness(told_by, self.at, self.offset, self.value)


def check_pipeline(
    inputs: Iterable[Row],
    outputs: Iterable[Row],
    committed: Mapping[TopicPartition, int],
    transform: Callable[[Hashable], Iterable[Hashable]] = lambda value: (value,),
    findings: Findings | None = None,
) -> Findings:
    """Inputs in the order of their offsets. Keeps all outputs in memory; `audit` does not, but knows no transform.

    A partition that `committed` does not name has no progress: nothing of it may be in the output.
    """
    findings = findings or Findings()
    produced: dict[Hashable, list[Row]] = {}
    for row in outputs:
        produced.setdefault(row.value, []).append(row)
    left = Counter({value: len(rows) for value, rows in produced.items()})
    explained: set[Hashable] = set()
    missing: dict[TopicPartition, list[Row]] = {}
    later: list[Row] = []
    for row in inputs:
        if row.offset >= committed.get(row.at, 0):
            later.append(row)
            continue
        unmet = [value for value in transform(row.value) if not _take(left, explained, value)]
        if unmet:
            missing.setdefault(row.at, []).append(row)
        else:
            _tell_holes(missing.pop(row.at, []), row, findings)
    for at, rows in missing.items():
        for row in rows:
            findings.add(
                Anomaly.PROGRESS_AHEAD,
                f"{at}: offset {committed[at]} is committed, and the output of offset {row.offset} is not there",
                [row.witness("input")],
            )
    _tell_later(later, committed, transform, produced, left, findings)
    _tell_rest(produced, left, explained, findings)
    return findings


def _take(left: Counter[Hashable], explained: set[Hashable], value: Hashable) -> bool:
    explained.add(value)
    if left[value] <= 0:
        return False
    left[value] -= 1
    return True


def _tell_holes(missing: list[Row], following: Row, findings: Findings) -> None:
    for row in missing:
        findings.add(
            Anomaly.MISSING_OUTPUT,
            f"{row.at}: the output of offset {row.offset} is not there, that of {following.offset} is",
            [row.witness("input"), following.witness("input, with its output")],
        )


def _tell_later(
    later: list[Row],
    committed: Mapping[TopicPartition, int],
    transform: Callable[[Hashable], Iterable[Hashable]],
    produced: Mapping[Hashable, list[Row]],
    left: Counter[Hashable],
    findings: Findings,
) -> None:
    for row in later:
        for value in transform(row.value):
            if left[value] > 0:
                left[value] -= 1
                findings.add(
                    Anomaly.PROGRESS_BEHIND,
                    f"{row.at}: only offset {committed.get(row.at, 0)} is committed,"
                    f" and the output of offset {row.offset} is there",
                    [row.witness("input"), produced[value][-1].witness("output")],
                )


def _tell_rest(
    produced: Mapping[Hashable, list[Row]],
    left: Counter[Hashable],
    explained: set[Hashable],
    findings: Findings,
) -> None:
    for value, count in left.items():
        rows = produced.get(value, [])
        for row in rows[len(rows) - count :] if count > 0 else ():
            anomaly = Anomaly.DUPLICATE_OUTPUT if value in explained else Anomaly.EXTRA_OUTPUT
            findings.add(
                anomaly,
                f"{row.at}: {anomaly.value} at offset {row.offset}",
                [each.witness("output") for each in rows[:5]],
            )
