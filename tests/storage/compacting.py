"""Parts that compaction tests share."""

from __future__ import annotations

from oncestream.storage.compaction import CompactionJob
from oncestream.storage.config import LogConfig
from oncestream.storage.log import Log
from oncestream.storage.steps import run_here
from tests.storage.kit import Store, batch_of, records_in

COMPACT = LogConfig(
    segment_bytes=400,
    index_interval_bytes=50,
    cleanup_delete=False,
    cleanup_compact=True,
    min_cleanable_dirty_ratio=0.0,
)


def put(store: Store, key: bytes, value: bytes | None, **producer: int) -> None:
    store.log.append(batch_of([value], keys=[key], **producer))  # type: ignore[arg-type]


def roll(store: Store) -> None:
    """Everything written so far gets into closed, stable segments."""
    if max(store.log_folder.glob("*.log")).stat().st_size:
        store.log._roll(store.clock.now_ms)
    store.sync()


def planned(store: Store) -> CompactionJob:
    """A job that is about to compact thirty records of three keys."""
    for number in range(30):
        put(store, b"%d" % (number % 3), b"v%d" % number)
    roll(store)
    job = store.log.plan_compaction(store.clock.now_ms)
    assert job is not None
    return job


def compact(store: Store) -> CompactionJob | None:
    store.sync()
    job = store.log.plan_compaction(store.clock.now_ms)
    if job is not None:
        job.run()
        assert job.error is None
        run_here(store.log.finish_compaction(job))
    return job


def survivors(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in records_in(log) if _is_data(record.key)]


def _is_data(key: bytes | None) -> bool:
    return key is None or len(key) != 4 or key[:2] != b"\0\0"
