from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from oncestream.storage.config import LogConfig
from oncestream.storage.steps import run_here
from oncestream.testing.disk import FaultyDisk
from oncestream.wire.error_codes import ErrorCode, KafkaError
from tests.storage.kit import Store, batch_of, read_bytes, values_in


def fill(store: Store, batches: int, size: int = 20) -> None:
    for number in range(batches):
        store.log.append(batch_of([b"%03d" % number * (size // 3)], producer_id=5, sequence=number))


def last_segment(folder: Path) -> Path:
    return max((folder / "events-0").glob("*.log"))


def test_the_last_segment_may_be_cut_at_every_byte_of_its_last_two_batches(
    store: Store, tmp_path: Path
) -> None:
    fill(store, 5)
    killed = store.killed()
    content = last_segment(killed).read_bytes()
    batch_size = len(content) // 5
    for cut in range(len(content) - 2 * batch_size, len(content) + 1):
        copy = tmp_path / f"cut-{cut}"
        shutil.copytree(killed, copy)
        last_segment(copy).write_bytes(content[:cut])
        again = Store(copy, store.config, store.clock)
        whole = cut // batch_size
        assert again.log.end_offset == whole
        assert last_segment(copy).stat().st_size == whole * batch_size
        assert read_bytes(again.log, 0) == content[: whole * batch_size]
        for number in range(whole, 6):
            assert (
                again.log.append(batch_of([b"again"], producer_id=5, sequence=number)).base_offset == number
            )
        assert again.log.append(batch_of([b"again"], producer_id=5, sequence=whole)).duplicate
        shutil.rmtree(copy)


def test_garbage_and_zeros_behind_the_last_batch_are_cut_with_one_line(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    fill(store, 5)
    for number, garbage in enumerate([b"\0" * 4096, b"\x02" * 300, b"x" * 61]):
        killed = store.killed()
        path = last_segment(killed)
        whole = path.read_bytes()
        path.write_bytes(whole + garbage)
        with caplog.at_level(logging.WARNING, "oncestream.storage"):
            caplog.clear()
            again = Store(killed, store.config, store.clock)
        assert path.read_bytes() == whole
        assert again.log.end_offset == 5
        assert len(caplog.records) == 1, number
        assert f"cut {len(garbage)} bytes after offset 5" in caplog.text


def test_damage_in_the_last_batch_is_a_damaged_tail(store: Store) -> None:
    fill(store, 5)
    killed = store.killed()
    path = last_segment(killed)
    content = bytearray(path.read_bytes())
    content[-3] ^= 0xFF
    path.write_bytes(content)
    again = Store(killed, store.config, store.clock)
    assert (again.log.end_offset, again.log.failed) == (4, None)


@pytest.mark.parametrize("field", ["length", "magic", "body", "offset"])
def test_damage_that_whole_batches_follow_is_reported_and_nothing_is_cut(store: Store, field: str) -> None:
    fill(store, 6)
    killed = store.killed()
    path = last_segment(killed)
    content = bytearray(path.read_bytes())
    start = 2 * len(content) // 6
    position = {"length": start + 9, "magic": start + 16, "body": start + 70, "offset": start + 5}[field]
    content[position] ^= 0x55
    path.write_bytes(content)
    again = Store(killed, store.config, store.clock)
    assert again.log.damage is not None
    assert "offset 2" in str(again.log.damage)
    assert path.read_bytes() == content
    assert values_in(again.log) == values_in(store.log)[:2]
    assert read_bytes(again.log, 0) == content[:start]
    with pytest.raises(KafkaError) as caught:
        again.log.append(batch_of([b"x"]))
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR


def test_damage_is_found_again_at_the_next_start_after_an_orderly_stop(store: Store) -> None:
    fill(store, 6)
    killed = store.killed()
    path = last_segment(killed)
    content = bytearray(path.read_bytes())
    content[200] ^= 0x55
    path.write_bytes(content)
    again = Store(killed, store.config, store.clock)
    assert again.log.failed is not None
    assert again.restart().log.failed is not None
    assert path.read_bytes() == content


def test_damage_before_a_segment_with_batches_is_reported(small: Store) -> None:
    fill(small, 40)
    killed = small.killed()
    segments = sorted((killed / "events-0").glob("*.log"))
    content = segments[1].read_bytes()
    segments[1].write_bytes(content[:-5])
    before = [path.read_bytes() for path in segments]
    again = Store(killed, small.config, small.clock)
    assert again.log.damage is not None
    assert [path.read_bytes() for path in segments] == before
    assert again.log.end_offset < 40


def test_an_empty_segment_behind_a_torn_one_goes_away(small: Store) -> None:
    fill(small, 8)
    killed = small.killed()
    path = last_segment(killed)
    path.write_bytes(path.read_bytes()[:-5])
    (killed / "events-0" / f"{8:020d}.log").touch()
    again = Store(killed, small.config, small.clock)
    assert (again.log.end_offset, again.log.failed) == (7, None)
    assert again.log.append(batch_of([b"x"], producer_id=5, sequence=7)).base_offset == 7


def test_only_segments_from_the_recovery_point_on_are_scanned(small: Store) -> None:
    fill(small, 40)
    small.sync()
    run_here(small.folder.checkpoint())
    killed = small.killed()
    spoil_a_record(min((killed / "events-0").glob("*.log")))
    assert Store(killed, small.config, small.clock).log.failed is None


def spoil_a_record(path: Path) -> None:
    """In the first batch of a segment: who scans it sees that."""
    content = bytearray(path.read_bytes())
    content[100] ^= 0x55
    path.write_bytes(content)


def test_a_clean_start_scans_no_batches_and_keeps_the_epoch(small: Store) -> None:
    fill(small, 40)
    small.folder.close()
    for path in small.log_folder.glob("*.log"):
        spoil_a_record(path)
    again = Store(small.path, small.config, small.clock)
    assert again.log.failed is None
    assert (again.log.end_offset, again.log.leader_epoch) == (40, 0)


def test_an_unclean_start_begins_a_new_epoch_each_time(small: Store) -> None:
    fill(small, 4)
    second = small.reborn()
    assert second.log.leader_epoch == 1
    third = second.reborn()
    assert third.log.leader_epoch == 2
    assert third.restart().log.leader_epoch == 2


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("harm", ["missing", "odd size", "nonsense"])
def test_harmed_indexes_are_rebuilt(small: Store, suffix: str, harm: str) -> None:
    fill(small, 40)
    small.folder.close()
    expected = {path.name: path.read_bytes() for path in small.log_folder.glob(f"*{suffix}")}
    for name in sorted(expected)[1:3]:
        path = small.log_folder / name
        if harm == "missing":
            path.unlink()
        else:
            entry_size = 8 if suffix == ".index" else 12
            path.write_bytes(b"\x01" * (7 if harm == "odd size" else 2 * entry_size))
            if harm == "nonsense" and suffix == ".timeindex":
                path.write_bytes(b"\x7f" * 12 + b"\x01" * 12)
    again = Store(small.path, small.config, small.clock)
    stored = list(again.log.batches(0))
    assert len(stored) == 40
    for offset in range(40):
        assert read_bytes(again.log, offset) == b"".join(stored[offset:])
    again.folder.close()
    assert {path.name: path.read_bytes() for path in small.log_folder.glob(f"*{suffix}")} == expected


def test_recovered_data_is_synced_before_it_counts_as_durable(small: Store) -> None:
    fill(small, 10)
    disk = FaultyDisk()
    again = Store(small.killed(), small.config, small.clock, disk)
    assert disk.syncs > 0
    assert again.log.synced_offset == again.log.end_offset == 10
    assert again.log.unsynced() is None


def test_deleted_records_stay_deleted_after_kill(small: Store) -> None:
    fill(small, 40)
    small.log.delete_before(23)
    again = small.reborn()
    assert again.log.start_offset == 23
    with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
        again.log.read(22, 1000, 40)


def test_a_large_batch_that_spans_scan_chunks_is_recovered(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", LogConfig(max_message_bytes=5_000_000))
    for number in range(3):
        store.log.append(batch_of([b"%d" % number * 2_500_000, b"small"]))
    again = store.reborn()
    assert again.log.end_offset == 6
    assert values_in(again.log) == values_in(store.log)


def test_corruption_is_told_from_a_tail_that_only_contains_old_batches(store: Store) -> None:
    """A record's value may itself be a whole batch; with a past offset it is no batch of this log's."""
    fill(store, 3)
    inner = bytes(next(iter(store.log.batches(1))))
    store.log.append(batch_of([inner * 3]))
    killed = store.killed()
    path = last_segment(killed)
    path.write_bytes(path.read_bytes()[:-10])
    again = Store(killed, store.config, store.clock)
    assert (again.log.end_offset, again.log.failed) == (3, None)


def test_a_closed_segment_that_lost_whole_batches_is_reported(small: Store) -> None:
    fill(small, 40)
    killed = small.killed()
    second = sorted((killed / "events-0").glob("*.log"))[1]
    content = second.read_bytes()
    batch_size = len(bytes(next(iter(small.log.batches(0)))))
    second.write_bytes(content[:-batch_size])
    again = Store(killed, small.config, small.clock)
    assert again.log.damage is not None
    assert "are missing" in str(again.log.damage)
    assert again.log.end_offset < 40


def test_a_damaged_tail_that_was_known_to_be_durable_is_reported(store: Store) -> None:
    fill(store, 5)
    store.sync()
    run_here(store.folder.checkpoint())
    killed = store.killed()
    path = last_segment(killed)
    content = bytearray(path.read_bytes())
    content[-3] ^= 0xFF
    path.write_bytes(content)
    assert Store(killed, store.config, store.clock).log.damage is not None
    assert path.read_bytes() == content


def test_a_tail_that_was_durable_and_is_missing_is_reported(store: Store) -> None:
    fill(store, 5)
    store.sync()
    run_here(store.folder.checkpoint())
    killed = store.killed()
    path = last_segment(killed)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 3 // 5])
    again = Store(killed, store.config, store.clock)
    assert "offsets up to 4 were durable and are missing" in str(again.log.damage)
    assert len(values_in(again.log)) == 3


def test_a_tail_behind_what_was_durable_is_cut(store: Store) -> None:
    fill(store, 5)
    store.sync()
    run_here(store.folder.checkpoint())
    store.log.append(batch_of([b"not yet durable"]))
    killed = store.killed()
    path = last_segment(killed)
    path.write_bytes(path.read_bytes()[:-1])
    again = Store(killed, store.config, store.clock)
    assert (again.log.end_offset, again.log.failed) == (5, None)
