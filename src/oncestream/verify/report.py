"""What a check found: as text for a terminal, and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from oncestream.client.topic_partition import TopicPartition
from oncestream.verify.anomalies import ALLOWED_BY_KAFKA, KEPT_MAX, Anomaly, Findings, Found, Witness


@dataclass(frozen=True, slots=True)
class Figures:
    """How much was checked. `outcome_unknown`: transactions whose end nobody could tell."""

    events: int = 0
    processes: int = 0
    sent: int = 0
    polled: int = 0
    in_logs: int = 0
    transactions: int = 0
    committed: int = 0
    aborted: int = 0
    outcome_unknown: int = 0
    faults: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """`counts` are exact; of each kind `found` has the first 100 only. `allowed` anomalies are told, not failed."""

    counts: Mapping[Anomaly, int]
    found: tuple[Found, ...]
    figures: Figures = field(default_factory=Figures)
    unchecked: tuple[TopicPartition, ...] = ()
    allowed: frozenset[Anomaly] = ALLOWED_BY_KAFKA

    @property
    def failures(self) -> dict[Anomaly, int]:
        return {anomaly: count for anomaly, count in self.counts.items() if anomaly not in self.allowed}

    @property
    def ok(self) -> bool:
        return not self.failures

    def with_findings(self, findings: Findings) -> Report:
        """Together with what another check found, such as that of a pipeline."""
        counts = Counter(self.counts) + findings.counts
        return replace(self, counts=dict(counts), found=(*self.found, *findings.kept))

    def text(self, shown_max: int = 5) -> str:
        """With the first anomalies of each kind and the records around them."""
        return "\n".join(self._lines(shown_max))

    def json(self) -> str:
        return json.dumps(self.content(), indent=2)

    def content(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "ok": self.ok,
            "figures": asdict(self.figures),
            "anomalies": [
                {
                    "name": anomaly.value,
                    "meaning": anomaly.meaning,
                    "count": count,
                    "failure": anomaly not in self.allowed,
                    "found": [_found_content(each) for each in self.found if each.anomaly is anomaly],
                }
                for anomaly, count in self.counts.items()
            ],
            "unchecked": [str(at) for at in self.unchecked],
        }

    def _lines(self, shown_max: int) -> Iterator[str]:
        figures = self.figures
        yield (
            f"{figures.sent} records sent by {figures.processes} processes, {figures.polled} polled,"
            f" {figures.in_logs} in the logs"
        )
        yield (
            f"{figures.transactions} transactions: {figures.committed} committed, {figures.aborted} aborted,"
            f" {figures.outcome_unknown} of unknown outcome; {figures.faults} faults"
        )
        if self.unchecked:
            yield f"not checked for losses, no final log: {', '.join(map(str, self.unchecked))}"
        for anomaly, count in self.counts.items():
            word = "allowed" if anomaly in self.allowed else "ANOMALY"
            yield f"{word}: {count} x {anomaly.value}: {anomaly.meaning}"
            shown = [each for each in self.found if each.anomaly is anomaly][:shown_max]
            for each in shown:
                yield f"  {each.text}"
                yield from (f"    {witness}" for witness in each.witnesses)
            if count > len(shown):
                rest = "the JSON and the page have more" if count <= KEPT_MAX else "not all are kept"
                yield f"  ... and {count - len(shown)} others ({rest})"
        yield "no anomaly" if self.ok else f"FAILED: {sum(self.failures.values())} anomalies"


def _found_content(found: Found) -> dict[str, Any]:
    return {
        "text": found.text,
        "time_ns": found.time_ns,
        "records": [_witness_content(witness) for witness in found.witnesses],
    }


def _witness_content(witness: Witness) -> dict[str, Any]:
    value = witness.value
    return {
        "topic": witness.at.topic,
        "partition": witness.at.partition,
        "offset": witness.offset,
        "value": value if isinstance(value, int | str | None) else str(value),
        "told_by": witness.told_by,
        "time_ns": witness.time_ns,
    }
