"""Kafka's own DumpLogSegments reads every file of a log, and finds nothing wrong with any."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from oncestream.records.compression import Codec
from oncestream.storage.config import LogConfig
from oncestream.storage.steps import run_here
from tests.java_tools import KafkaTools
from tests.storage.kit import START_MS, Store, batch_of

pytestmark = pytest.mark.java
DUMP = "org.apache.kafka.tools.DumpLogSegments"
CONFIG = LogConfig(segment_bytes=4000, index_interval_bytes=400, retention_ms=-1)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Every codec, tombstones, plain, idempotent and transactional writes, over several segments."""
    store = Store(tmp_path / "data", CONFIG)
    log = store.log
    for number in range(60):
        codec = Codec(number % 5)
        time = START_MS + (number * 7919) % 1000
        log.append(batch_of([b"v" * 40, None, b"w" * 10], codec=codec, timestamp=time))
        log.append(batch_of([b"i"] * 2, producer_id=1, sequence=2 * number, codec=codec))
        log.append(batch_of([b"t"], producer_id=2 + number % 3, sequence=number // 3, transactional=True))
        log.append_marker(2 + number % 3, 0, 5, number % 2 == 0)
    return store


def dump(kafka_tool: KafkaTools, paths: list[Path], *options: str) -> str:
    assert paths
    done = kafka_tool(DUMP, "--files", ",".join(map(str, sorted(paths))), *options)
    assert done.returncode == 0, done.stderr
    complaints = done.stderr
    for path in paths:
        # The tool of 4.3 expects every segment to begin at offset 0, and says so of Kafka's own segments too.
        first = f"Non-consecutive offsets in {path}\n  -1 is followed by {int(path.stem)}\n"
        complaints = complaints.replace(first, "")
    assert complaints.strip() == ""
    return done.stdout


def assert_readable(kafka_tool: KafkaTools, folder: Path) -> str:
    files = {
        suffix: list(folder.glob(f"*{suffix}")) for suffix in (".log", ".index", ".timeindex", ".txnindex")
    }
    text = dump(kafka_tool, files[".log"], "--deep-iteration", "--print-data-log")
    assert "isvalid: false" not in text.lower()
    dump(kafka_tool, files[".index"] + files[".timeindex"])
    dump(kafka_tool, files[".index"] + files[".timeindex"], "--verify-index-only")
    dump(kafka_tool, files[".index"] + files[".timeindex"], "--index-sanity-check")
    text += dump(kafka_tool, files[".txnindex"])
    return text + dump(kafka_tool, list(folder.glob("*.snapshot")))


def test_a_closed_log_is_read_without_complaint(store: Store, kafka_tool: KafkaTools) -> None:
    end_offset = store.log.end_offset
    store.folder.close()
    text = assert_readable(kafka_tool, store.log_folder)
    assert f"| offset: {end_offset - 1} " in text
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        assert f"compresscodec: {codec}" in text
    assert "endTxnMarker: ABORT coordinatorEpoch: 5" in text
    assert "version: 0 producerId: 3 firstOffset:" in text
    assert "producerId: 1 producerEpoch: 0 coordinatorEpoch: -1" in text
    assert "firstSequence: 118 lastSequence: 119" in text


def test_a_running_and_a_recovered_log_are_read_without_complaint(
    store: Store, kafka_tool: KafkaTools
) -> None:
    store.sync()
    run_here(store.folder.checkpoint())
    assert_readable(kafka_tool, store.log_folder)
    again = store.reborn()
    again.folder.close()
    assert_readable(kafka_tool, again.log_folder)


def test_a_compacted_log_is_read_without_complaint(tmp_path: Path, kafka_tool: KafkaTools) -> None:
    compact = replace(CONFIG, cleanup_compact=True, cleanup_delete=False, min_cleanable_dirty_ratio=0.0)
    store = Store(tmp_path / "data", compact)
    for number in range(200):
        keys = [b"%d" % (number % 7), b"%d" % (number % 5)]
        values = [b"v" * 30, None if number % 11 == 0 else b"w"]
        time = START_MS + number
        store.log.append(batch_of(values, keys=keys, codec=Codec(number % 5), timestamp=time))
        store.log.append(
            batch_of(
                [b"t"], keys=keys[:1], producer_id=9, sequence=number, transactional=True, timestamp=time
            )
        )
        store.log.append_marker(9, 0, 1, number % 2 == 0)
    store.sync()
    job = store.log.plan_compaction(store.clock.now_ms)
    assert job is not None
    before = store.log.size_bytes
    job.run()
    run_here(store.log.finish_compaction(job))
    assert store.log.size_bytes < before / 2
    store.folder.close()
    folder = store.log_folder
    dump(kafka_tool, list(folder.glob("*.index")) + list(folder.glob("*.timeindex")))
    dump(kafka_tool, list(folder.glob("*.index")) + list(folder.glob("*.timeindex")), "--index-sanity-check")
    assert "deleteHorizonMs: OptionalLong[" in dump(kafka_tool, list(folder.glob("*.log")))


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_the_tool_does_complain_about_a_wrong_index(
    store: Store, kafka_tool: KafkaTools, suffix: str
) -> None:
    store.folder.close()
    path = sorted(store.log_folder.glob(f"*{suffix}"))[1]
    content = bytearray(path.read_bytes())
    content[3 if suffix == ".index" else 7] ^= 1
    path.write_bytes(content)
    with pytest.raises(AssertionError):
        dump(kafka_tool, [path])
