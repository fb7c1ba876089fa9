"""The request that commits a batch, or its answer, is lost or comes late: never a duplicate, never a loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from oncestream.spark.batch import Outcome, Step
from oncestream.wire.api import ApiKey
from oncestream.wire.error_codes import ErrorCode
from tests.spark.crashes.jobs import SMALL_BATCH
from tests.spark.crashes.kit import Topics, check_small, run_small, small_world
from tests.spark.crashes.proxy import LossyProxy, cluster_through

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS: Final = [f"row-{number}" for number in range(4 * SMALL_BATCH)]
TROUBLED: Final = 1  # the batch whose commit meets trouble
ALWAYS: Final = 100_000


@pytest.fixture
def proxy(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[LossyProxy]:
    with LossyProxy(bootstrap) as running:
        monkeypatch.setattr("oncestream.spark.write.Cluster", cluster_through(running))
        yield running


@pytest.fixture
def run(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> Callable[[Callable[[Step, int], None]], Outcome]:
    """Runs a pipeline of four batches and checks that all came out; answers what became of the troubled one.

    It is given what to do at each step of the troubled batch, and in which attempt.
    """

    def run(trouble: Callable[[Step, int], None]) -> Outcome:
        world = small_world(topics, ROWS)
        outcomes: list[Outcome] = []
        attempts = 0

        def on_step(step: Step, batch: int) -> None:
            nonlocal attempts
            if batch == TROUBLED:
                attempts += step is Step.BEGUN
                trouble(step, attempts)

        run_small(spark, topics, world, tmp_path, on_step=on_step, on_outcome=outcomes.append)
        check_small(topics, world, ROWS)
        return outcomes[TROUBLED]

    return run


Run = Callable[[Callable[[Step, int], None]], Outcome]


def test_a_lost_request_to_commit_is_sent_again(proxy: LossyProxy, run: Run) -> None:
    def trouble(step: Step, attempt: int) -> None:
        if step is Step.OFFSETS_ADDED:
            proxy.lose_next(ApiKey.END_TXN)

    assert run(trouble).attempts == 1


def test_a_lost_answer_to_a_commit_is_asked_for_again(proxy: LossyProxy, run: Run) -> None:
    def trouble(step: Step, attempt: int) -> None:
        if step is Step.OFFSETS_ADDED:
            proxy.cut_answer_of(ApiKey.END_TXN)

    assert run(trouble).attempts == 1


def test_a_commit_that_is_never_answered_is_found_in_the_progress(proxy: LossyProxy, run: Run) -> None:
    before: list[ApiKey] = []
    after: list[ApiKey] = []

    def trouble(step: Step, attempt: int) -> None:
        if step is Step.OFFSETS_ADDED:
            before.extend(proxy.requests)
            proxy.cut_answer_of(ApiKey.END_TXN, times=ALWAYS)
        if step is Step.COMMITTED:
            after.extend(proxy.requests[len(before) :])
            proxy.forward_again()

    assert run(trouble).attempts == 1
    assert ApiKey.END_TXN in after
    assert ApiKey.INIT_PRODUCER_ID in after, "a new epoch ends all doubt"


def test_a_delayed_commit_does_not_end_the_transaction_that_follows(proxy: LossyProxy, run: Run) -> None:
    refused: list[ErrorCode] = []

    def trouble(step: Step, attempt: int) -> None:
        if step is Step.OFFSETS_ADDED and attempt == 1:
            proxy.keep(ApiKey.END_TXN)
        if step is Step.WRITTEN and attempt == 2:
            proxy.forward_again()
            refused.extend(proxy.deliver_kept_end_txns())

    assert run(trouble).attempts == 2
    assert refused
    assert set(refused) <= {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}
