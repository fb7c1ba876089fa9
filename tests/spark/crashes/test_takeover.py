"""A second driver takes a pipeline over: the first stops with a clear error and writes nothing that can be seen."""

from __future__ import annotations

import shutil
import signal
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from oncestream.errors import PipelineFenced
from oncestream.spark.batch import Step
from tests.spark.crashes.driver import Plan
from tests.spark.crashes.jobs import BIG_BATCH, SMALL_BATCH, Job, expected
from tests.spark.crashes.kit import Driver, Record, Topics, new_world, run_small, wait_for
from tests.spark.crashes.states import transaction_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL: Final = [f"row-{number}" for number in range(3 * SMALL_BATCH)]
BIG: Final = [f"big-{number}" for number in range(3 * BIG_BATCH)]
JOBS: Final = (Job.SMALL, Job.BIG, Job.UNIQUE)
# Where each stands when it is taken over: before it wrote, all written, all but the commit done.
PAUSE_AT: Final[dict[str, str]] = {
    Job.BIG: Step.BEGUN,
    Job.UNIQUE: Step.WRITTEN,
    Job.SMALL: Step.OFFSETS_ADDED,
}
TIMEOUT_MS: Final = 6_000


class Takeover:
    """An older driver that pauses inside its second batch, and the newer one: this process."""

    def __init__(self, spark: SparkSession, topics: Topics, folder: Path) -> None:
        self._spark, self._topics, self._folder = spark, topics, folder
        self.world = new_world()
        topics.create(self.world.small, self.world.big, *map(self.world.output, JOBS))
        topics.write(self.world.small, [Record(value) for value in SMALL])
        topics.write(self.world.big, [Record(value) for value in BIG])
        self.older = Driver(
            Plan(
                bootstrap=topics.bootstrap,
                world=self.world.name,
                jobs=list(JOBS),
                checkpoints=str(folder / "checkpoints"),
                events=str(folder / "events"),
                nth=2,
                pause_at=dict(PAUSE_AT),
                go=str(folder / "go"),
                transaction_timeout_ms=TIMEOUT_MS,
            )
        )

    def by_newer(self, job: Job, *, copy: bool) -> None:
        """Runs the job to its end, from a copy of the checkpoint or from the very same one."""
        checkpoint = self._folder / "checkpoints" / job
        if copy:
            checkpoint = shutil.copytree(checkpoint, self._folder / f"copy-{job}")
        run_small(self._spark, self._topics, self.world, checkpoint, job)

    def release(self, job: Job) -> None:
        (self._folder / f"go.{job}").touch()

    def error_of(self, job: Job) -> str | None:
        return next((event["kind"] for event in self.older.events("error") if event["job"] == job), None)

    def check(self, job: Job) -> None:
        found = Counter(self._topics.values(self.world.output(job)))
        assert found == expected(job, SMALL, [], BIG)


def test_an_older_driver_awake_or_asleep_is_fenced_and_writes_nothing_visible(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    takeover = Takeover(spark, topics, tmp_path)
    small = takeover.world.pipeline(Job.SMALL)
    with takeover.older as older:
        older.wait_for_event("paused", len(JOBS))
        takeover.by_newer(Job.BIG, copy=True)
        takeover.release(Job.BIG)
        assert wait_for(lambda: takeover.error_of(Job.BIG)) == PipelineFenced.__name__
        older.send(signal.SIGSTOP)
        wait_for(lambda: transaction_of(topics.bootstrap, small).transaction_state == "CompleteAbort")
        takeover.by_newer(Job.SMALL, copy=False)
        takeover.by_newer(Job.UNIQUE, copy=True)
        ends = {job: topics.ends(takeover.world.output(job)) for job in JOBS}
        takeover.release(Job.SMALL)
        takeover.release(Job.UNIQUE)
        older.send(signal.SIGCONT)
        assert older.wait() == 1, older.tail()
        assert {takeover.error_of(job) for job in JOBS} == {PipelineFenced.__name__}
    assert {job: topics.ends(takeover.world.output(job)) for job in JOBS} == ends
    for job in JOBS:
        takeover.check(job)
