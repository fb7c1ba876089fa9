"""The end of a torture run: final logs are read, histories checked, outputs audited."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from oncestream.client.cluster import Cluster
from oncestream.verify.audit import audit_topics
from oncestream.verify.audit_report import AuditReport
from oncestream.verify.checker import check
from oncestream.verify.final_log import number_of, read_final_logs
from oncestream.verify.history import History
from oncestream.verify.keys import AuditRecord
from oncestream.verify.report import Report
from oncestream.verify.timeline import Timeline, timeline_of
from oncestream.verify.torture_clients import copier_group
from oncestream.verify.torture_numbers import copied_by
from oncestream.verify.torture_pipeline import pipeline_name
from oncestream.verify.torture_report import findings_of


@dataclass(frozen=True, slots=True)
class Topics:
    """What is written, what the copiers make of it, and what the pipeline makes of it."""

    inputs: str
    copies: str
    outputs: str

    @staticmethod
    def new() -> Topics:
        name = f"torture-{secrets.token_hex(4)}"
        return Topics(f"{name}.in", f"{name}.copies", f"{name}.out")


def check_run(
    cluster: Cluster, histories: Path, topics: Topics, *, has_pipeline: bool
) -> tuple[Report, dict[str, AuditReport], Timeline]:
    """What the pipeline wrote is in no history: it is audited, as what the copiers wrote is besides."""
    history = History.of_folder(histories)
    report = check(history, final_logs=read_final_logs(cluster, [topics.inputs, topics.copies]))
    audits = {
        "copiers": audit_topics(
            cluster.settings,
            input_topics=[topics.inputs],
            output_topics=[topics.copies],
            key="value",
            output_key=_copied,
            pipeline=copier_group(topics.inputs),
        )
    }
    if has_pipeline:
        audits["pipeline"] = audit_topics(
            cluster.settings,
            input_topics=[topics.inputs],
            output_topics=[topics.outputs],
            key="value",
            pipeline=pipeline_name(topics.inputs),
        )
    for name, audit in audits.items():
        report = report.with_findings(findings_of(name, audit))
    return report, audits, timeline_of(history)


def _copied(record: AuditRecord) -> bytes:
    return b"%d" % copied_by(number_of(record.value))
