"""The driver killed at every named point of a batch, with five kinds of pipelines running in it."""

from __future__ import annotations

import signal
import time
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from oncestream.spark.batch import Step
from tests.conftest import Target
from tests.effort import effort
from tests.spark.crashes.driver import Plan
from tests.spark.crashes.jobs import BIG_BATCH, SMALL_BATCH, Job, World, check_counts, expected
from tests.spark.crashes.kit import Driver, Record, Topics, new_world, wait_for

BATCHES: Final = 7
TODAY_MS: Final = time.time_ns() // 1_000_000  # older records would be deleted
# Half of the values come twice, far apart.
SMALL: Final = [f"id-{number % (BATCHES * SMALL_BATCH * 2 // 3)}" for number in range(BATCHES * SMALL_BATCH)]
PARTNERS: Final = [f"id-{number}" for number in reversed(range(BATCHES * SMALL_BATCH))]
BIG: Final = [f"row-{number}" for number in range(BATCHES * BIG_BATCH)]
BIG_TIMES_MS: Final = [TODAY_MS + number // 4 * 7 for number in range(len(BIG))]
# In the first batch, then always in one that follows the batch that is run again.
DEATHS: Final = ((Step.BEGUN, 1), (Step.WRITTEN, 2), (Step.OFFSETS_ADDED, 2), (Step.COMMITTED, 2))
# Every point on the embedded broker; on Apache Kafka, where all is the same but the broker, `make test` takes these.
DEATHS_ON_APACHE: Final = effort(DEATHS[2:], soak=DEATHS)


class Survived(NamedTuple):
    world: World
    paths: dict[str, set[str]]  # by job, how its batches were written
    skipped: set[str]  # jobs that found a batch already committed


@pytest.fixture(scope="module")
def survived(topics: Topics, target: Target, tmp_path_factory: pytest.TempPathFactory) -> Survived:
    """Some lives end by SIGKILL, the last one finishes."""
    world = new_world()
    topics.create(world.small, world.partners, world.big, *map(world.output, Job))
    topics.write(world.small, [Record(value) for value in SMALL])
    topics.write(world.partners, [Record(value) for value in PARTNERS])
    topics.write(world.big, [Record(*row) for row in zip(BIG, BIG_TIMES_MS, strict=True)])
    lives = _Lives(topics, world, tmp_path_factory.mktemp("crash"))
    for step, nth in DEATHS_ON_APACHE if target.is_apache else DEATHS:
        lives.until_death_at(step, nth)
    lives.until_death_between_tasks()
    lives.to_the_end()
    return Survived(world, lives.paths, lives.skipped)


class _Lives:
    def __init__(self, topics: Topics, world: World, folder: Path) -> None:
        self._topics, self._world, self._folder = topics, world, folder
        self.paths: dict[str, set[str]] = {}
        self.skipped: set[str] = set()

    def until_death_at(self, step: Step, nth: int) -> None:
        with Driver(self._plan(die_at=step, nth=nth)) as driver:
            assert driver.wait() == -signal.SIGKILL, driver.tail()
            assert {event["job"] for event in driver.events("step") if event["step"] == step} == set(Job)
            self._note(driver)

    def until_death_between_tasks(self) -> None:
        """One task stands still while another's rows are in the log, then all is killed."""
        hold = self._folder / "hold"
        before = sum(self._topics.ends(self._world.output(Job.BIG)).values())
        with Driver(self._plan(hold=str(hold))) as driver:
            wait_for(hold.with_suffix(".held").exists)
            wait_for(lambda: sum(self._topics.ends(self._world.output(Job.BIG)).values()) > before)
            driver.wait_for_event("finished", len(Job) - 1)
            driver.kill()
            assert not [
                event
                for event in driver.events("outcome")
                if event["job"] == Job.BIG and not event["skipped"]
            ]
            self._note(driver)
        hold.unlink()

    def to_the_end(self) -> None:
        with Driver(self._plan()) as driver:
            assert driver.wait() == 0, driver.tail()
            self._note(driver)

    def _note(self, driver: Driver) -> None:
        for event in driver.events("outcome"):
            self.paths.setdefault(event["job"], set()).add(event["path"])
            if event["skipped"]:
                self.skipped.add(event["job"])

    def _plan(self, die_at: Step | None = None, nth: int = 1, hold: str | None = None) -> Plan:
        return Plan(
            bootstrap=self._topics.bootstrap,
            world=self._world.name,
            jobs=list(Job),
            checkpoints=str(self._folder / "checkpoints"),
            events=str(self._folder / "events"),
            die_at=die_at,
            nth=nth,
            hold=hold,
        )


@pytest.mark.parametrize("job", [Job.SMALL, Job.BIG, Job.JOIN, Job.UNIQUE])
def test_every_row_comes_out_exactly_as_often_as_it_must(
    survived: Survived, topics: Topics, job: Job
) -> None:
    found = Counter(topics.values(survived.world.output(job)))
    assert found == expected(job, SMALL, PARTNERS, BIG)


def test_window_counts_are_those_of_a_run_without_crashes(survived: Survived, topics: Topics) -> None:
    check_counts(topics.values(survived.world.output(Job.COUNTS)), BIG_TIMES_MS)


@pytest.mark.parametrize("job", Job)
def test_the_group_stands_at_the_end_of_the_input(survived: Survived, topics: Topics, job: Job) -> None:
    for topic in survived.world.inputs(job):
        assert topics.committed(survived.world.pipeline(job), topic) == topics.ends(topic)


def test_both_ways_of_writing_were_killed(survived: Survived) -> None:
    assert "driver" in survived.paths[Job.SMALL]
    assert "tasks" in survived.paths[Job.BIG]


def test_a_batch_that_kafka_has_and_spark_does_not_was_met_by_every_pipeline(survived: Survived) -> None:
    assert survived.skipped == set(Job)
