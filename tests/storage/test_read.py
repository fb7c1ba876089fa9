from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from oncestream.records.batch import parse_header
from oncestream.storage.config import LogConfig
from oncestream.storage.log import Log
from oncestream.wire.error_codes import ErrorCode, KafkaError
from tests.storage.kit import START_MS, Store, batch_of, read_bytes


def fill(store: Store, batches: int, records: int = 3) -> list[bytes]:
    """Appends batches; each as it is stored."""
    for number in range(batches):
        store.log.append(batch_of([b"%d-%d" % (number, index) for index in range(records)]))
    return [bytes(batch) for batch in store.log.batches(0)]


def test_reading_from_every_offset_gives_the_batch_that_holds_it_and_all_after(small: Store) -> None:
    stored = fill(small, 40)
    assert len(list(small.log_folder.glob("*.log"))) > 3
    for offset in range(120):
        assert read_bytes(small.log, offset) == b"".join(stored[offset // 3 :])


def test_reads_are_the_same_after_a_restart(small: Store) -> None:
    stored = fill(small, 40)
    log = small.restart().log
    for offset in range(120):
        assert read_bytes(log, offset) == b"".join(stored[offset // 3 :])


def test_nothing_at_or_above_the_upper_offset_is_read(small: Store) -> None:
    stored = fill(small, 40)
    for upper_offset in range(0, 121, 3):
        for offset in range(0, 120, 7):
            expected = b"".join(stored[offset // 3 : upper_offset // 3]) if offset < upper_offset else b""
            assert read_bytes(small.log, offset, upper_offset=upper_offset) == expected


def test_the_first_batch_comes_whole_and_the_last_may_be_cut(store: Store) -> None:
    stored = fill(store, 5)
    size = len(stored[0])
    assert read_bytes(store.log, 0, 1) == stored[0]
    assert read_bytes(store.log, 0, size + 10) == stored[0] + stored[1][:10]
    assert store.log.read(0, size - 1, 15, whole_first_batch=False) == []
    assert [piece.size for piece in store.log.read(0, size, 15, whole_first_batch=False)] == [size]


def test_a_read_spans_segments_up_to_its_bytes(small: Store) -> None:
    stored = b"".join(fill(small, 40))
    for max_bytes in (500, 1000, 1500, 2500):
        assert read_bytes(small.log, 0, max_bytes) == stored[:max_bytes]


def test_an_offset_outside_the_log_is_out_of_range(store: Store) -> None:
    fill(store, 2)
    assert store.log.read(6, 1000, 6) == []
    for offset in (-1, 7):
        with pytest.raises(KafkaError) as caught:
            store.log.read(offset, 1000, 6)
        assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_slice_in_hand_outlives_the_segment_it_is_of(small: Store) -> None:
    stored = fill(small, 40)
    pieces = small.log.read(0, 300, 120)
    small.log.delete_before(100)
    assert not (small.log_folder / f"{0:020d}.log").exists()
    assert b"".join(piece.read() for piece in pieces) == b"".join(stored)[:300]


def test_the_number_of_open_files_is_bounded(small: Store, tmp_path: Path) -> None:
    store = Store(tmp_path / "few", small.config, open_files_max=4)
    stored = fill(store, 100)
    store.sync()  # until then what was written is held open
    assert len(list(store.log_folder.glob("*.log"))) > 10
    for offset in range(0, 300, 3):
        assert read_bytes(store.log, offset) == b"".join(stored[offset // 3 :])
    assert 0 < len(open_files(store.log_folder)) <= 4


LOOKS: list[Callable[[Log], object]] = [
    lambda log: log.read(0, 1000, log.end_offset),
    lambda log: list(log.batches(0)),
    lambda log: log.aborted(0, log.end_offset),
    lambda log: log.offset_for_timestamp(START_MS + 1, log.end_offset),
    lambda log: log.max_timestamp(),
]


@pytest.mark.parametrize("look", LOOKS)
def test_a_file_that_cannot_be_opened_is_a_storage_error(
    tmp_path: Path, look: Callable[[Log], object]
) -> None:
    store = Store(tmp_path / "data", LogConfig(segment_bytes=1000), open_files_max=1)
    store.log.append(batch_of([b"v"], producer_id=1, transactional=True, timestamp=START_MS + 1))
    store.log.append_marker(1, 0, 0, commit=False)
    fill(store, 20)
    expected = look(store.log)
    assert expected
    read_bytes(store.log, store.log.end_offset - 1)  # its file takes the place of the only open one
    away = store.log_folder.rename(tmp_path / "away")
    with pytest.raises(KafkaError, match=ErrorCode.KAFKA_STORAGE_ERROR.name):
        look(store.log)
    away.rename(store.log_folder)
    if look is not LOOKS[0]:  # its slices hold files
        assert look(store.log) == expected


def open_files(folder: Path) -> list[Path]:
    """Of this process."""
    files = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # that of the listing itself
            files.append(descriptor.readlink())
    return [file for file in files if file.parent == folder]


def test_batches_begin_with_the_one_that_holds_the_offset(small: Store) -> None:
    fill(small, 10)
    assert [parse_header(batch).base_offset for batch in small.log.batches(4, 12)] == [3, 6, 9]
