"""The audit on pipelines that promise less, killed in the middle of a batch: it finds what the promise allows."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Final

from oncestream.client.settings import ClientSettings
from oncestream.spark.batch import Step
from oncestream.verify.audit import audit_topics
from oncestream.verify.audit_report import AuditReport
from tests.spark.crashes.driver import Plan
from tests.spark.crashes.jobs import Job
from tests.spark.crashes.kit import Driver, Record, Topics, run_small, small_world

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEFORE: Final = [f"BEFORE-{number}" for number in range(10)]
DURING: Final = [f"DURING-{number}" for number in range(7)]
AFTER: Final = [f"AFTER-{number}" for number in range(5)]


def test_at_least_once_over_a_kill_shows_duplicates(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    report = killed_at(Step.WRITTEN, "at-least-once", spark, topics, tmp_path)
    assert (report.duplicates, report.missing, report.extra, report.waiting) == (len(DURING), 0, 0, 0)
    assert not report.ok
    assert {problem.key for problem in report.problems} == set(DURING)


def test_at_most_once_over_a_kill_shows_losses(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    report = killed_at(Step.COMMITTED, "at-most-once", spark, topics, tmp_path)
    assert (report.duplicates, report.missing, report.extra, report.waiting) == (0, len(DURING), 0, 0)
    assert not report.ok
    assert {problem.key for problem in report.problems} == set(DURING)


def killed_at(step: Step, delivery: str, spark: SparkSession, topics: Topics, folder: Path) -> AuditReport:
    """Three runs of a pipeline, the second of which dies at this step."""
    world = small_world(topics, BEFORE)
    checkpoint = folder / Job.SMALL
    run_small(spark, topics, world, checkpoint, delivery=delivery)
    topics.write(world.small, map(Record, DURING))
    plan = Plan(
        topics.bootstrap,
        world.name,
        [Job.SMALL],
        str(folder),
        str(folder / "events"),
        die_at=step,
        delivery=delivery,
    )
    with Driver(plan) as driver:
        assert driver.wait() == -signal.SIGKILL, driver.tail()
    topics.write(world.small, map(Record, AFTER))
    run_small(spark, topics, world, checkpoint, delivery=delivery)
    return audit_topics(
        ClientSettings.of(topics.bootstrap),
        output_topics=[world.output(Job.SMALL)],
        key="value",
        pipeline=world.pipeline(Job.SMALL),
    )
