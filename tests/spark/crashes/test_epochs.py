"""Past epoch 32767 the coordinator gives out another producer id: nobody notices."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

from oncestream.client.cluster import Cluster
from oncestream.client.settings import ClientSettings
from oncestream.client.transactions import Transactions
from tests.spark.crashes.jobs import SMALL_BATCH, Job
from tests.spark.crashes.kit import Topics, check_small, run_small, small_world
from tests.spark.crashes.states import transaction_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPOCH_MAX: Final = 32_767
BEFORE: Final = 10
BATCHES: Final = 20
ROWS: Final = [f"row-{number}" for number in range(BATCHES * SMALL_BATCH)]


def test_batches_go_on_past_the_last_epoch_of_a_producer_id(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    world = small_world(topics, ROWS)
    pipeline = world.pipeline(Job.SMALL)
    with closing(Cluster(ClientSettings.of(topics.bootstrap))) as cluster:
        transactions = Transactions(cluster, pipeline, 60_000)
        first = producer = transactions.start()
        while producer.epoch < EPOCH_MAX - BEFORE:
            producer = transactions.fence_abort()
        assert producer.producer_id == first.producer_id
    run_small(spark, topics, world, tmp_path)
    check_small(topics, world, ROWS)
    after = transaction_of(topics.bootstrap, pipeline)
    assert after.producer_id != first.producer_id
    assert after.producer_epoch < BATCHES
