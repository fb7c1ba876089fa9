"""A second driver takes a pipeline over: the first stops with a clear error and writes nothing that can be seen."""

from __future__ import annotations

import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from oncestream.errors import PipelineFenced
from oncestream.spark.batch import Step
from tests.spark.crashes.driver import Plan
from tests.spark.crashes.jobs import SMALL_BATCH, Job, expected
from tests.spark.crashes.kit import (
    Driver,
    Record,
    Topics,
    check_small,
    new_world,
    run_small,
    small_world,
    wait_for,
)
from tests.spark.crashes.states import transaction_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS: Final = [f"row-{number}" for number in range(3 * SMALL_BATCH)]
MORE: Final = [f"more-{number}" for number in range(SMALL_BATCH)]
TIMEOUT_MS: Final = 6_000


def test_a_driver_that_slept_past_its_transaction_finds_itself_replaced(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    """One of its pipelines slept before it wrote, one with all but the commit done."""
    world = new_world()
    jobs = [Job.SMALL, Job.UNIQUE]
    topics.create(world.small, *map(world.output, jobs))
    topics.write(world.small, [Record(value) for value in ROWS])
    go = tmp_path / "go"
    plan = Plan(
        bootstrap=topics.bootstrap,
        world=world.name,
        jobs=list(jobs),
        checkpoints=str(tmp_path / "checkpoints"),
        events=str(tmp_path / "events"),
        nth=2,
        pause_at={Job.SMALL: Step.OFFSETS_ADDED, Job.UNIQUE: Step.BEGUN},
        go=str(go),
        transaction_timeout_ms=TIMEOUT_MS,
    )
    with Driver(plan) as sleeper:
        sleeper.wait_for_event("paused", len(jobs))
        sleeper.send(signal.SIGSTOP)
        go.touch()
        wait_for(
            lambda: (
                transaction_of(topics.bootstrap, world.pipeline(Job.SMALL)).transaction_state
                == "CompleteAbort"
            )
        )
        # One goes on from the very same checkpoint, the other from a copy.
        run_small(spark, topics, world, tmp_path / "checkpoints" / Job.SMALL)
        shutil.copytree(tmp_path / "checkpoints" / Job.UNIQUE, tmp_path / "copy")
        run_small(spark, topics, world, tmp_path / "copy", Job.UNIQUE)
        ends = {job: topics.ends(world.output(job)) for job in jobs}
        sleeper.send(signal.SIGCONT)
        assert sleeper.wait() == 1, sleeper.tail()
        errors = {event["job"]: event["kind"] for event in sleeper.events("error")}
    assert errors == dict.fromkeys(jobs, PipelineFenced.__name__)
    assert {job: topics.ends(world.output(job)) for job in jobs} == ends
    check_small(topics, world, ROWS)
    assert sorted(topics.values(world.output(Job.UNIQUE))) == sorted(expected(Job.UNIQUE, ROWS, [], []))


def test_of_two_drivers_at_once_the_older_one_ends(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    world = small_world(topics, ROWS)
    newer_spark = spark.newSession()

    def committed() -> bool:
        return topics.committed(world.pipeline(Job.SMALL), world.small) == topics.ends(world.small)

    with ThreadPoolExecutor(2) as pool:
        older = pool.submit(run_small, spark, topics, world, tmp_path / "older", trigger="continuous")
        wait_for(committed)
        newer = pool.submit(run_small, newer_spark, topics, world, tmp_path / "newer", trigger="continuous")
        wait_for(lambda: newer_spark.streams.active)
        topics.write(world.small, [Record(value) for value in MORE])
        with pytest.raises(PipelineFenced, match=world.name):
            older.result(120)
        wait_for(committed)
        for query in newer_spark.streams.active:
            query.stop()
        newer.result(120)
    check_small(topics, world, ROWS + MORE)
