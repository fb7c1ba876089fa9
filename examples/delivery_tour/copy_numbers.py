"""Copies the topic `numbers` with one of the three deliveries, and may kill itself in the middle of a batch.

    python copy_numbers.py DELIVERY N    dies in its Nth batch; with 0 it copies all there is

A batch has two works: to write its rows and to note how far it has read. Each delivery does them in an order of its
own, and dies here when the first of them is done.
"""

import os
import signal
import sys

from pyspark.sql import DataFrame

import oncestream as once

_, delivery, killed_in = sys.argv
begun: list[int] = []  # batches of this run


@once.pipeline(
    source="numbers", sink=delivery, name=delivery, delivery=delivery, read={"maxOffsetsPerTrigger": "1000"}
)
def copy_numbers(numbers: DataFrame) -> DataFrame:
    return numbers.select("value")


def on_step(step: str, batch: int) -> None:
    if step == "begun":
        begun.append(batch)
    elif len(begun) == int(killed_in):
        os.killpg(0, signal.SIGKILL)  # this process, and Spark's JVM


copy_numbers.run(trigger="once", on_step=on_step)
