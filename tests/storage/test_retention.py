from __future__ import annotations

import os
from pathlib import Path

import pytest

from oncestream.storage.config import LogConfig
from oncestream.wire.error_codes import ErrorCode, KafkaError
from tests.storage.kit import START_MS, Store, batch_of, records_in


def open_with(tmp_path: Path, **settings: object) -> Store:
    defaults: dict[str, object] = {"segment_bytes": 500, "retention_ms": -1}
    return Store(tmp_path / "data", LogConfig(**(defaults | settings)))  # type: ignore[arg-type]


def fill(store: Store, batches: int, step_ms: int = 0) -> None:
    for number in range(batches):
        store.log.append(batch_of([b"v" * 90], timestamp=START_MS + number * step_ms))


def first_file_offset(store: Store) -> int:
    return int(min(store.log_folder.glob("*.log")).stem)


def test_segments_older_than_the_retention_time_go(tmp_path: Path) -> None:
    store = open_with(tmp_path, retention_ms=1000)
    fill(store, 20, step_ms=100)
    now_ms = START_MS + 2000
    assert store.log.apply_retention(now_ms) > 0
    kept = records_in(store.log)
    assert kept[0].offset == store.log.start_offset == first_file_offset(store)
    assert {record.offset for record in kept} >= set(range(10, 20))
    assert store.log.start_offset >= 5


def test_the_live_segment_goes_too_when_it_is_old_and_offsets_go_on(tmp_path: Path) -> None:
    store = open_with(tmp_path, retention_ms=1000)
    fill(store, 7)
    store.log.apply_retention(START_MS + 1001)
    assert (store.log.start_offset, store.log.end_offset, store.log.size_bytes) == (7, 7, 0)
    assert store.log.append(batch_of([b"x"])).base_offset == 7
    assert store.restart().log.start_offset == 7


def test_the_oldest_segments_beyond_the_retention_size_go(tmp_path: Path) -> None:
    store = open_with(tmp_path, retention_bytes=1000)
    fill(store, 20)
    store.log.apply_retention(START_MS)
    assert 1000 <= store.log.size_bytes < 1500
    assert store.log.start_offset == first_file_offset(store) > 0


def test_without_limits_nothing_goes(tmp_path: Path) -> None:
    store = open_with(tmp_path)
    fill(store, 20)
    assert store.log.apply_retention(START_MS + 10**12) == 0
    assert len(records_in(store.log)) == 20


def test_a_compacted_topic_does_not_delete_by_time_or_size(tmp_path: Path) -> None:
    store = open_with(tmp_path, cleanup_delete=False, cleanup_compact=True, retention_ms=1, retention_bytes=1)
    fill(store, 20)
    assert store.log.apply_retention(START_MS + 10**9) == 0


def test_a_segment_rolls_when_its_time_is_up(tmp_path: Path) -> None:
    store = open_with(tmp_path, segment_bytes=10**6, segment_ms=1000)
    fill(store, 1)
    store.log.append(batch_of([b"in time"], timestamp=START_MS + 1000))
    assert len(list(store.log_folder.glob("*.log"))) == 1
    store.log.append(batch_of([b"late"], timestamp=START_MS + 1001))
    assert len(list(store.log_folder.glob("*.log"))) == 2
    store.log.apply_retention(START_MS + 1001 + 1001)
    assert len(list(store.log_folder.glob("*.log"))) == 3


def test_records_before_an_offset_are_deleted_in_the_middle_of_a_segment(tmp_path: Path) -> None:
    store = open_with(tmp_path)
    fill(store, 20)
    assert store.log.delete_before(13) == 13
    assert [record.offset for record in records_in(store.log)] == list(range(13, 20))
    assert 0 < first_file_offset(store) <= 13
    assert store.log.delete_before(5) == 13
    with pytest.raises(KafkaError) as caught:
        store.log.delete_before(21)
    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert store.restart().log.start_offset == 13


def test_everything_may_be_deleted(tmp_path: Path) -> None:
    store = open_with(tmp_path)
    fill(store, 20)
    assert store.log.delete_before(20) == 20
    for again in (store.reborn(), store.restart()):
        assert (again.log.start_offset, again.log.end_offset) == (20, 20)
        assert again.log.append(batch_of([b"x"])).base_offset == 20


def test_snapshots_go_with_their_segments(tmp_path: Path) -> None:
    store = open_with(tmp_path, retention_bytes=1000)
    fill(store, 40)
    store.log.apply_retention(START_MS)
    segments = {path.stem for path in store.log_folder.glob("*.log")}
    assert {path.stem for path in store.log_folder.glob("*.snapshot")} == segments


@pytest.mark.parametrize("stay_ms", [1000, 300_000])
def test_records_that_were_old_when_they_were_written_stay_a_while(tmp_path: Path, stay_ms: int) -> None:
    store = open_with(tmp_path, retention_ms=1000 if stay_ms == 1000 else 7 * 86_400_000)
    fill(store, 7)
    written = [int(os.stat(path).st_mtime * 1000) for path in store.log_folder.glob("*.log")]
    for log in (store.log, store.reborn().log):
        assert log.apply_retention(min(written) + stay_ms) == 0
        assert len(records_in(log)) == 7
    store.log.apply_retention(max(written) + stay_ms + 1)
    assert records_in(store.log) == []


def test_segments_without_timestamps_age_by_their_file(tmp_path: Path) -> None:
    store = open_with(tmp_path, retention_ms=1000)
    for _ in range(10):
        store.log.append(batch_of([b"v" * 90], timestamp=-1))
    oldest = min(store.log_folder.glob("*.log"))
    for path in store.log_folder.glob("*.log"):
        os.utime(path, (START_MS / 1000, START_MS / 1000))
    os.utime(oldest, (START_MS / 1000 - 100, START_MS / 1000 - 100))
    assert store.log.apply_retention(START_MS) == 1
