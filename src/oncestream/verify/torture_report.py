"""What came out of a torture run: as text, as JSON and as a page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from oncestream.verify.anomalies import Anomaly, Findings, Found, Witness
from oncestream.verify.audit_report import AuditReport, Problem
from oncestream.verify.page import page
from oncestream.verify.report import Report
from oncestream.verify.timeline import Timeline

MEBI: Final = 1024 * 1024
SHOWN_MAX: Final = 3  # of each kind of anomaly, in the text

# Of the counts of an audit, and of the problems that it lists.
_ANOMALIES: Final = {
    "missing": ("missing", Anomaly.MISSING_OUTPUT),
    "duplicates": ("duplicate", Anomaly.DUPLICATE_OUTPUT),
    "extra": ("extra", Anomaly.EXTRA_OUTPUT),
    "behind": ("not committed", Anomaly.PROGRESS_BEHIND),
    "inputs_without_key": ("input without a key", Anomaly.PHANTOM),
    "outputs_without_key": ("output without a key", Anomaly.PHANTOM),
}


@dataclass(frozen=True, slots=True)
class Efforts:
    """What was done to the cluster and its clients. `lives`: processes started."""

    cluster: str
    seed: int
    seconds: float
    lives: int
    kills: int
    freezes: int
    clock_jumps: int
    disk_faults: int
    network_faults: int
    requests_hit: int


@dataclass(frozen=True, slots=True)
class TortureReport:
    """`problems`: what is wrong besides anomalies, such as a client that crashed or work that never ended."""

    efforts: Efforts
    report: Report
    audits: Mapping[str, AuditReport]
    timeline: Timeline
    problems: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.report.ok and not self.problems

    def text(self) -> str:
        return "\n".join(self._lines())

    def json(self) -> str:
        return json.dumps(self.content(), indent=2)

    def content(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            **self.report.content(),
            "ok": self.ok,
            "efforts": asdict(self.efforts),
            "problems": list(self.problems),
            "audits": {name: audit.content() for name, audit in self.audits.items()},
            "memory": {
                name: [[round(at_s, 1), size] for at_s, size in samples]
                for name, samples in self.timeline.memory.items()
            },
        }

    def save(self, folder: Path) -> None:
        """torture.txt, torture.json and torture.html."""
        folder.mkdir(parents=True, exist_ok=True)
        title = f"Torture of {self.efforts.cluster}, seed {self.efforts.seed}"
        (folder / "torture.txt").write_text(self.text() + "\n")
        (folder / "torture.json").write_text(self.json() + "\n")
        (folder / "torture.html").write_text(page(self.report, self.timeline, title=title))

    def _lines(self) -> Iterator[str]:
        done = self.efforts
        yield f"{done.cluster}, seed {done.seed}, {done.seconds:.0f} s"
        yield (
            f"{done.lives} processes started, {done.kills} kills, {done.freezes} freezes,"
            f" {done.clock_jumps} clock jumps, {done.disk_faults} disk faults,"
            f" {done.network_faults} network faults that met {done.requests_hit} requests"
        )
        for name, audit in self.audits.items():
            yield f"{name}: {audit.inputs} inputs, {audit.outputs} outputs, {audit.waiting} not processed"
        for name, samples in self.timeline.memory.items():
            sizes = [size for _, size in samples]
            yield f"memory of {name}: {min(sizes) // MEBI} to {max(sizes) // MEBI} MiB"
        yield from (f"PROBLEM: {problem}" for problem in self.problems)
        yield self.report.text(SHOWN_MAX)


def findings_of(name: str, audit: AuditReport) -> Findings:
    """The problems of an audit as anomalies of a pipeline."""
    findings = Findings()
    for counted, (listed, anomaly) in _ANOMALIES.items():
        if count := getattr(audit, counted):
            findings.counts[anomaly] += count
            findings.kept += [
                _found(name, anomaly, problem) for problem in audit.problems if problem.kind == listed
            ]
    return findings


def _found(name: str, anomaly: Anomaly, problem: Problem) -> Found:
    witness = Witness(problem.kind, problem.at, problem.offset, problem.key)
    return Found(anomaly, f"{name}: {problem}", (witness,))
