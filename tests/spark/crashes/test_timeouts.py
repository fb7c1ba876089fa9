"""A batch that takes longer than its transaction may: the broker aborts it, it is run again with more time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from oncestream.spark.batch import Outcome, Step
from tests.spark.crashes.jobs import SMALL_BATCH, Job
from tests.spark.crashes.kit import Topics, check_small, run_small, small_world, wait_for
from tests.spark.crashes.states import transaction_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS: Final = [f"row-{number}" for number in range(3 * SMALL_BATCH)]
TIMEOUT_MS: Final = 1_000
SLOW: Final = {(0, Step.WRITTEN), (1, Step.OFFSETS_ADDED)}


def test_a_batch_slower_than_its_transaction_is_run_again_with_more_time(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    world = small_world(topics, ROWS)
    pipeline = world.pipeline(Job.SMALL)
    outcomes: list[Outcome] = []
    seen: set[tuple[int, Step]] = set()
    timeouts_ms: list[int] = []

    def on_step(step: Step, batch: int) -> None:
        if (batch, step) in SLOW - seen:
            timeouts_ms.append(transaction_of(topics.bootstrap, pipeline).transaction_timeout_ms)
            wait_for(lambda: transaction_of(topics.bootstrap, pipeline).transaction_state == "CompleteAbort")
        seen.add((batch, step))

    run_small(
        spark,
        topics,
        world,
        tmp_path,
        transaction_timeout_ms=TIMEOUT_MS,
        on_step=on_step,
        on_outcome=outcomes.append,
    )
    check_small(topics, world, ROWS)
    assert [outcome.attempts for outcome in outcomes] == [2, 2, 1]
    assert timeouts_ms == [TIMEOUT_MS, 2 * TIMEOUT_MS]
    assert transaction_of(topics.bootstrap, pipeline).transaction_timeout_ms == 4 * TIMEOUT_MS
