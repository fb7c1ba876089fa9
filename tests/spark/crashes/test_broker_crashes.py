"""The broker killed in the middle of batches and started again on its data: the pipeline goes on by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from oncestream import Broker
from oncestream.spark.batch import Step
from oncestream.testing.apache_kafka import ApacheKafka
from oncestream.testing.ports import free_address
from tests.spark.crashes.jobs import SMALL_BATCH
from tests.spark.crashes.kit import Topics, check_small, run_small, small_world

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS: Final = [f"row-{number}" for number in range(4 * SMALL_BATCH)]
DEATHS: Final = {(0, Step.WRITTEN), (1, Step.BEGUN), (2, Step.OFFSETS_ADDED)}


class Mortal(NamedTuple):
    """A broker that can die and come back on its port and data."""

    bootstrap: str
    kill: Callable[[], None]
    start: Callable[[], object]


@pytest.fixture(params=["embedded", pytest.param("apache", marks=pytest.mark.java)])
def mortal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Mortal]:
    if request.param == "embedded":
        with Broker(tmp_path / "data", process=True, listen=free_address()) as broker:
            yield Mortal(broker.bootstrap_servers, broker.kill, broker.start)
        return
    request.getfixturevalue("java")
    with ApacheKafka(tmp_path / "kafka") as kafka:
        yield Mortal(kafka.bootstrap_servers, lambda: kafka.kill(1), lambda: kafka.restart(1))


def test_a_pipeline_goes_on_by_itself_after_its_broker_was_killed(
    mortal: Mortal, spark: SparkSession, tmp_path: Path
) -> None:
    topics = Topics(mortal.bootstrap)
    world = small_world(topics, ROWS)
    left = set(DEATHS)
    with ThreadPoolExecutor(1) as pool:
        starts: list[Future[object]] = []

        def on_step(step: Step, batch: int) -> None:
            if (batch, step) in left:
                left.remove((batch, step))
                mortal.kill()
                starts.append(pool.submit(mortal.start))

        run_small(spark, topics, world, tmp_path / "checkpoint", on_step=on_step)
        for start in starts:
            start.result()
    assert not left
    check_small(topics, world, ROWS)
