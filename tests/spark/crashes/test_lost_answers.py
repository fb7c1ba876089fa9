"""The request that commits a batch, or its answer, is lost or comes late: never a duplicate, never a loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from oncestream.client.cluster import Cluster
from oncestream.client.settings import ClientSettings
from oncestream.errors import BatchFailed
from oncestream.spark.batch import Outcome, Step
from oncestream.spark.write import start_query
from oncestream.testing.network_faults import ALWAYS, NetworkFault
from oncestream.testing.proxy import FaultProxy
from oncestream.wire.api import ApiKey
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.end_txn import EndTxnResponse
from tests.spark.crashes.jobs import SMALL_BATCH
from tests.spark.crashes.kit import Topics, check_small, run_small, small_world
from tests.spark.sink_kit import load, new_name, rows, texts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS: Final = [f"row-{number}" for number in range(4 * SMALL_BATCH)]
TROUBLED: Final = 1  # the batch whose commit meets trouble
REQUEST_TIMEOUT_MS: Final = 1_000
API_TIMEOUT_MS: Final = 4_000
IMPATIENT: Final = {
    "request.timeout.ms": str(REQUEST_TIMEOUT_MS),
    "default.api.timeout.ms": str(API_TIMEOUT_MS),
}


@pytest.fixture
def proxy(bootstrap: str) -> Iterator[FaultProxy]:
    with FaultProxy(bootstrap) as running:
        yield running


@pytest.fixture
def run(
    spark: SparkSession, topics: Topics, tmp_path: Path, proxy: FaultProxy
) -> Callable[[Callable[[Step, int], None]], Outcome]:
    """Runs a pipeline of four batches and checks that all came out; answers what became of the troubled one.

    It is given what to do at each step of the troubled batch, and in which attempt. Only the driver's own calls
    go through the proxy; they do not wait long for an answer.
    """

    def through_proxy(settings: ClientSettings) -> Cluster:
        return Cluster(
            replace(
                settings,
                bootstrap=ClientSettings.of(proxy.bootstrap_servers).bootstrap,
                request_timeout_ms=REQUEST_TIMEOUT_MS,
                api_timeout_ms=API_TIMEOUT_MS,
            )
        )

    def run(trouble: Callable[[Step, int], None]) -> Outcome:
        world = small_world(topics, ROWS)
        outcomes: list[Outcome] = []
        attempts = 0

        def on_step(step: Step, batch: int) -> None:
            nonlocal attempts
            if batch == TROUBLED:
                attempts += step is Step.BEGUN
                trouble(step, attempts)

        starter = partial(start_query, connect=through_proxy)
        run_small(
            spark, topics, world, tmp_path, starter=starter, on_step=on_step, on_outcome=outcomes.append
        )
        check_small(topics, world, ROWS)
        return outcomes[TROUBLED]

    return run


Run = Callable[[Callable[[Step, int], None]], Outcome]


def test_a_lost_request_to_commit_is_sent_again(proxy: FaultProxy, run: Run) -> None:
    faults: list[NetworkFault] = []

    def trouble(step: Step, attempt: int) -> None:
        if step is Step.OFFSETS_ADDED:
            faults.append(proxy.cut_before(ApiKey.END_TXN))

    assert run(trouble).attempts == 1
    assert [fault.hits for fault in faults] == [1]


def test_a_lost_answer_to_a_commit_is_asked_for_again(proxy: FaultProxy, run: Run) -> None:
    faults: list[NetworkFault] = []

    def trouble(step: Step, attempt: int) -> None:
        if step is Step.OFFSETS_ADDED:
            faults.append(proxy.cut_after(ApiKey.END_TXN))

    assert run(trouble).attempts == 1
    assert [fault.hits for fault in faults] == [1]


def test_a_commit_that_is_never_answered_is_found_in_the_progress(proxy: FaultProxy, run: Run) -> None:
    before: list[ApiKey] = []
    after: list[ApiKey] = []

    def trouble(step: Step, attempt: int) -> None:
        if step is Step.OFFSETS_ADDED:
            before.extend(proxy.requests)
            proxy.cut_after(ApiKey.END_TXN, times=ALWAYS)
        if step is Step.COMMITTED:
            after.extend(proxy.requests[len(before) :])
            proxy.clear()

    assert run(trouble).attempts == 1
    assert ApiKey.END_TXN in after
    assert ApiKey.INIT_PRODUCER_ID in after, "a new epoch ends all doubt"


def test_a_delayed_commit_does_not_end_the_transaction_that_follows(proxy: FaultProxy, run: Run) -> None:
    held: list[NetworkFault] = []
    refused: list[ErrorCode] = []

    def trouble(step: Step, attempt: int) -> None:
        if step is Step.OFFSETS_ADDED and attempt == 1:
            held.append(proxy.hold(ApiKey.END_TXN))
        if step is Step.WRITTEN and attempt == 2:
            proxy.clear()
            for answer in held[0].deliver():
                assert isinstance(answer, EndTxnResponse)
                refused.append(ErrorCode(answer.error_code))

    assert run(trouble).attempts == 2
    assert refused
    assert set(refused) <= {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}


def test_a_load_whose_commit_is_never_answered_is_found_and_not_loaded_twice(
    spark: SparkSession, topics: Topics, proxy: FaultProxy
) -> None:
    lost: list[NetworkFault] = []

    def on_step(step: Step, batch: int) -> None:
        if step is Step.OFFSETS_ADDED:
            lost.append(proxy.cut_after(ApiKey.END_TXN, times=ALWAYS))
        if step is Step.COMMITTED:
            proxy.clear()

    topic = new_name("loaded")
    topics.create(topic)
    df = rows(spark, [("a",), ("b",)], "value string")
    done = load(df, proxy.bootstrap_servers, topic, settings=IMPATIENT, on_step=on_step)
    assert done.attempts == 1
    assert lost[0].hits > 0
    assert texts(topics.bootstrap, topic) == ["a", "b"]


def test_a_load_whose_commit_never_arrives_fails_shows_nothing_and_can_be_loaded_then(
    spark: SparkSession, topics: Topics, proxy: FaultProxy
) -> None:
    def on_step(step: Step, batch: int) -> None:
        if step is Step.OFFSETS_ADDED:
            proxy.cut_before(ApiKey.END_TXN, times=ALWAYS)

    topic, pipeline = new_name("loaded"), new_name()
    topics.create(topic)
    df = rows(spark, [("a",), ("b",)], "value string")
    with pytest.raises(BatchFailed, match="no commit was answered"):
        load(
            df,
            proxy.bootstrap_servers,
            topic,
            settings=IMPATIENT,
            pipeline=pipeline,
            attempts_max=1,
            on_step=on_step,
        )
    proxy.clear()
    assert texts(topics.bootstrap, topic) == []
    assert load(df, topics.bootstrap, topic, pipeline=pipeline).rows == 2
    assert texts(topics.bootstrap, topic) == ["a", "b"]
