"""The checkpoint folder is deleted between two runs: the group's offsets lead on, where they are enough."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from oncestream.errors import CheckpointLost
from tests.spark.crashes.jobs import SMALL_BATCH, Job, pipeline_of
from tests.spark.crashes.kit import Record, Topics, check_small, run_small, small_world

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS: Final = [f"row-{number}" for number in range(2 * SMALL_BATCH)]
MORE: Final = [f"more-{number}" for number in range(2 * SMALL_BATCH)]


def test_a_stateless_pipeline_goes_on_from_its_groups_offsets(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    world = small_world(topics, ROWS)
    run_small(spark, topics, world, checkpoint)
    shutil.rmtree(checkpoint)
    topics.write(world.small, [Record(value) for value in MORE])
    run_small(spark, topics, world, checkpoint)
    check_small(topics, world, ROWS + MORE)


def test_a_stateful_pipeline_refuses_to_start_without_its_state(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    world = small_world(topics, ROWS)
    topics.create(world.output(Job.UNIQUE))
    run_small(spark, topics, world, checkpoint, Job.UNIQUE)
    shutil.rmtree(checkpoint)
    with pytest.raises(CheckpointLost, match="state"):
        run_small(spark, topics, world, checkpoint, Job.UNIQUE)
    assert sorted(topics.values(world.output(Job.UNIQUE))) == sorted(row.upper() for row in ROWS)


def test_a_pipeline_that_would_read_its_input_again_refuses_to_start(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    world = small_world(topics, ROWS)
    pipeline = pipeline_of(world, Job.SMALL)
    from_the_start = replace(pipeline, read_options={"startingOffsets": "earliest"})
    options = {"bootstrap_servers": topics.bootstrap, "trigger": "once"}
    from_the_start.run(spark, checkpoint=tmp_path / "one", **options)  # type: ignore[arg-type]
    with pytest.raises(CheckpointLost, match="read again"):
        from_the_start.run(spark, checkpoint=tmp_path / "two", **options)  # type: ignore[arg-type]
    check_small(topics, world, ROWS)
