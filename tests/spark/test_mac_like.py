"""A pipeline where Python lacks what it lacks on macOS."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.mac_like import flushes, mac_like

PIPELINE = """\
import os, sys
import oncestream as once
from oncestream.spark.write import write

assert not hasattr(os, "sched_getaffinity")
with once.Broker(sys.argv[1] + "/data") as broker:
    with once.Producer(broker.bootstrap_servers) as producer:
        for number in range(100):
            producer.send("numbers", str(number))
    spark = once.session(master="local[2]")

    def look(batches):
        import os
        import pyarrow as pa
        for batch in batches:
            assert not hasattr(os, "fdatasync")
            yield pa.RecordBatch.from_pydict({"value": batch["value"]})

    reader = spark.readStream.format("oncestream").option("subscribe", "numbers").option("startingOffsets", "earliest")
    numbers = reader.option("kafka.bootstrap.servers", broker.bootstrap_servers).load().select("value")
    query = write(
        numbers.mapInArrow(look, "value binary"),
        pipeline="copy",
        topic="copies",
        bootstrap_servers=broker.bootstrap_servers,
        checkpoint=sys.argv[1] + "/checkpoint",
        trigger="once",
    )
    query.awaitTermination()
    with once.Consumer("copies", group="all", bootstrap_servers=broker.bootstrap_servers, start="earliest") as records:
        print(sorted(int(record.value) for _, record in zip(range(100), records)) == list(range(100)))
    spark.stop()
"""


@pytest.mark.slow
def test_without_what_macos_lacks_a_pipeline_copies_every_record_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PIPELINE, str(tmp_path)]
    done = subprocess.run(command, env=mac_like(tmp_path), capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "True\n"
    assert flushes(tmp_path) > 0
