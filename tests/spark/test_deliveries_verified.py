"""The audit on an exactly-once pipeline that ends in the middle of a batch finds nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from oncestream.client.settings import ClientSettings
from oncestream.spark.batch import Step
from oncestream.verify.audit import audit_topics
from oncestream.verify.audit_report import AuditReport
from tests.spark.sink_kit import Run, stream
from tests.spark.source_kit import Log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEFORE = [f"before-{number}" for number in range(10)]
DURING = [f"during-{number}" for number in range(7)]
AFTER = [f"after-{number}" for number in range(5)]


class Crash(Exception):
    """The driver's end, in the middle of a batch."""


@pytest.mark.parametrize("step", [Step.BEGUN, Step.WRITTEN, Step.OFFSETS_ADDED, Step.COMMITTED])
def test_exactly_once_over_a_crash_shows_neither(
    spark: SparkSession, embedded_log: Log, tmp_path: Path, step: Step
) -> None:
    report = crashed_at(step, spark, embedded_log, tmp_path)
    assert report.ok, report.text()
    assert report.inputs == report.outputs == len(BEFORE + DURING + AFTER)


def crashed_at(step: Step, spark: SparkSession, log: Log, folder: Path) -> AuditReport:
    """Three runs of a pipeline, the second of which ends at this step."""
    source, sink = log.topic(1), log.topic(1)
    run = Run(log.bootstrap, folder, sink, attempts_max=1)
    log.write(source, BEFORE)
    run.over(stream(spark, log.bootstrap, source))
    log.write(source, DURING)
    with pytest.raises(Exception, match=r"Crash|failed 1 times"):
        run.over(stream(spark, log.bootstrap, source), on_step=_end_at(step))
    log.write(source, AFTER)
    run.over(stream(spark, log.bootstrap, source))
    return audit_topics(
        ClientSettings.of(log.bootstrap), output_topics=[sink], key="value", pipeline=run.name
    )


def _end_at(step: Step) -> Callable[[Step, int], None]:
    def on_step(at: Step, batch: int) -> None:
        if (at, batch) == (step, 1):
            raise Crash

    return on_step
