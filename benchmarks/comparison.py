"""Side by side: every load runs on every peer in turn, several times over, and medians are compared."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class Target(NamedTuple):
    """What the ratio of ours to Kafka's should be, and between what our own figure should stay."""

    ratio: float | None = None
    at_most: bool = False
    below: float | None = None
    at_least: float | None = None

    def met(self, ratio: float | None, ours: float) -> bool:
        in_ratio = self.ratio is None or (
            ratio is not None and (ratio <= self.ratio if self.at_most else ratio >= self.ratio)
        )
        in_limits = (self.below is None or ours < self.below) and (
            self.at_least is None or ours >= self.at_least
        )
        return in_ratio and in_limits

    def __str__(self) -> str:
        ratio = "" if self.ratio is None else f"{'≤' if self.at_most else '≥'} {self.ratio:g}x"
        ceiling = "" if self.below is None else f"ours < {self.below:g}"
        floor = "" if self.at_least is None else f"ours ≥ {self.at_least:g}"
        return ", ".join(text for text in (ratio, ceiling, floor) if text)


@dataclass(slots=True)
class Row:
    """One line of the report: a figure of ours against the same figure of Kafka's, where it has one."""

    name: str
    unit: str
    ours: str
    kafka: str | None
    target: Target | None = None
    our_samples: list[float] = field(default_factory=list)
    kafka_samples: list[float] = field(default_factory=list)

    @property
    def our_median(self) -> float:
        return statistics.median(self.our_samples)

    @property
    def kafka_median(self) -> float | None:
        return statistics.median(self.kafka_samples) if self.kafka_samples else None

    @property
    def ratio(self) -> float | None:
        return None if self.kafka_median is None else self.our_median / self.kafka_median

    @property
    def met(self) -> bool | None:
        """None where there is no target."""
        return None if self.target is None else self.target.met(self.ratio, self.our_median)

    @property
    def measured(self) -> bool:
        return bool(self.our_samples and (self.kafka_samples or self.kafka is None))


@dataclass(frozen=True, slots=True)
class Load:
    """A measurement that gives one figure for each of its rows; peers are named as in the rows."""

    title: str
    run: Callable[[Any], Sequence[float]]  # takes a peer: a broker, or a system that runs a pipeline
    figures: Sequence[Sequence[Row]]  # figures[i]: the rows that the i-th figure of a run belongs to
    repetitions: int = 3
    warm_ups: int = 1

    def peer_names(self) -> list[str]:
        rows = [row for rows in self.figures for row in rows]
        return list(dict.fromkeys(name for row in rows for name in (row.kafka, row.ours) if name is not None))


def compare(loads: Sequence[Load], peers: Mapping[str, Any]) -> dict[str, str]:
    """Run every load; gives the failures by title, so that one of them does not cost the others."""
    failures: dict[str, str] = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, transient=True) as progress:
        total = sum((load.repetitions + load.warm_ups) * len(load.peer_names()) for load in loads)
        task = progress.add_task("", total=total)
        for load in loads:
            try:
                for repetition in range(-load.warm_ups, load.repetitions):
                    _one_round(load, repetition, peers, lambda text: progress.update(task, description=text))
                    progress.advance(task, len(load.peer_names()))
            except Exception as error:
                failures[load.title] = str(error) or repr(error)
    return failures


def _one_round(load: Load, repetition: int, peers: Mapping[str, Any], tell: Callable[[str], None]) -> None:
    names = load.peer_names()
    # Who goes first alternates: the machine's own speed drifts.
    for name in names if repetition % 2 == 0 else reversed(names):
        tell(f"{load.title}: {name}")
        os.sync()  # nobody pays for dirty pages that another one left
        figures = load.run(peers[name])
        if repetition < 0:
            continue
        for figure, rows in zip(figures, load.figures, strict=True):
            for row in rows:
                if name == row.ours:
                    row.our_samples.append(figure)
                if name == row.kafka:
                    row.kafka_samples.append(figure)
