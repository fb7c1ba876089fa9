from __future__ import annotations

from pathlib import Path

import pytest

from oncestream.records.batch import check_batch, join_batch, parse_header
from oncestream.records.compression import Codec
from oncestream.records.control import EndMarker, build_marker
from oncestream.records.records import Record, build_batch
from oncestream.storage.config import LogConfig
from oncestream.storage.validation import check_records
from oncestream.wire.error_codes import ErrorCode, KafkaError, RecordsRefused
from tests.storage.kit import START_MS, Store, batch_of, records_in, values_in


def refused(store: Store, batch: memoryview) -> ErrorCode:
    end_offset, size_bytes = store.log.end_offset, store.log.size_bytes
    with pytest.raises(KafkaError) as caught:
        store.log.append(batch)
    assert (store.log.end_offset, store.log.size_bytes) == (end_offset, size_bytes)
    return caught.value.code


def open_with(tmp_path: Path, config: LogConfig) -> Store:
    return Store(tmp_path / "data", config)


def test_offsets_are_given_in_order(store: Store) -> None:
    first = store.log.append(batch_of([b"a", b"b"]))
    second = store.log.append(batch_of([b"c"]))
    assert (first.base_offset, first.last_offset) == (0, 1)
    assert (second.base_offset, second.last_offset, second.append_time_ms) == (2, 2, -1)
    assert [record.offset for record in records_in(store.log)] == [0, 1, 2]
    assert values_in(store.log) == [b"a", b"b", b"c"]


def test_the_batch_is_stored_as_sent_but_for_offset_and_leader_epoch(store: Store) -> None:
    sent = bytes(batch_of([b"a" * 50], codec=Codec.ZSTD))
    store.log.append(batch_of([b"x"]))
    store.log.append(memoryview(bytearray(sent)))
    stored = bytes(next(iter(store.log.batches(1))))
    assert stored[16:] == sent[16:]
    assert parse_header(stored).leader_epoch == store.log.leader_epoch == 0


def test_a_read_only_buffer_is_copied_before_it_is_stamped(store: Store) -> None:
    store.log.append(batch_of([b"x"]))
    sent = bytes(batch_of([b"a"]))
    assert store.log.append(memoryview(sent)).base_offset == 1
    assert parse_header(sent).base_offset == 0


def test_a_bad_checksum_is_refused(store: Store) -> None:
    batch = batch_of([b"a"])
    batch[-1] ^= 1
    assert refused(store, batch) == ErrorCode.CORRUPT_MESSAGE


def test_a_batch_over_the_limit_is_too_large(tmp_path: Path) -> None:
    store = open_with(tmp_path, LogConfig(max_message_bytes=200))
    assert refused(store, batch_of([b"a" * 200])) == ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    store = open_with(tmp_path, LogConfig(segment_bytes=200))
    assert refused(store, batch_of([b"a" * 200])) == ErrorCode.RECORD_LIST_TOO_LARGE


def test_a_count_that_is_not_the_span_of_offsets_is_invalid(store: Store) -> None:
    records = [Record(0, START_MS, None, b"a"), Record(1, START_MS, None, b"b")]
    lying = build_batch(records, base_offset=0, last_offset=5)
    assert refused(store, memoryview(lying)) == ErrorCode.INVALID_RECORD
    empty = build_batch([], base_offset=0, last_offset=0)
    assert refused(store, memoryview(empty)) == ErrorCode.INVALID_RECORD


def test_a_base_offset_other_than_zero_is_invalid(store: Store) -> None:
    batch = build_batch([Record(3, START_MS, None, b"a")])
    assert refused(store, memoryview(batch)) == ErrorCode.INVALID_RECORD


def test_clients_may_not_write_control_batches(store: Store) -> None:
    marker = build_marker(EndMarker(True, 0), producer_id=1, producer_epoch=0, timestamp_ms=START_MS)
    assert refused(store, memoryview(marker)) == ErrorCode.INVALID_RECORD


def test_a_producer_id_needs_a_sequence_and_a_transaction_a_producer_id(store: Store) -> None:
    assert refused(store, batch_of([b"a"], producer_id=1, sequence=-1)) == ErrorCode.INVALID_RECORD
    nobody = build_batch([Record(0, START_MS, None, b"a")], transactional=True)
    assert refused(store, memoryview(nobody)) == ErrorCode.INVALID_RECORD


def test_an_unknown_codec_is_invalid(store: Store) -> None:
    batch = batch_of([b"a"])
    header = parse_header(batch)
    unknown = join_batch(header._replace(attributes=header.attributes | 5), batch[61:])
    assert refused(store, memoryview(unknown)) == ErrorCode.INVALID_RECORD


def test_timestamps_too_far_ahead_are_refused(store: Store) -> None:
    hour_ms = 60 * 60 * 1000
    store.log.append(batch_of([b"a"], timestamp=START_MS + hour_ms))
    late = batch_of([b"a"], timestamp=START_MS + hour_ms + 1)
    assert refused(store, late) == ErrorCode.INVALID_TIMESTAMP


def test_timestamps_too_far_back_are_refused_where_the_topic_says_so(tmp_path: Path) -> None:
    store = open_with(tmp_path, LogConfig(timestamp_before_max_ms=1000))
    store.log.append(batch_of([b"a"], timestamp=START_MS - 1000))
    store.log.append(batch_of([b"a"], timestamp=-1))
    assert refused(store, batch_of([b"a"], timestamp=START_MS - 1001)) == ErrorCode.INVALID_TIMESTAMP
    mixed = build_batch([Record(0, START_MS, None, b"a"), Record(1, START_MS - 5000, None, b"b")])
    assert refused(store, memoryview(mixed)) == ErrorCode.INVALID_TIMESTAMP


def test_log_append_time_overwrites_the_producers_time(tmp_path: Path) -> None:
    store = open_with(tmp_path, LogConfig(log_append_time=True))
    store.clock.now_ms = START_MS + 77
    appended = store.log.append(batch_of([b"a", b"b"], timestamp=5))
    assert appended.append_time_ms == START_MS + 77
    assert {record.timestamp for record in records_in(store.log)} == {START_MS + 77}
    for batch in store.log.batches(0):
        assert check_batch(batch).log_append_time


@pytest.mark.parametrize("sent", Codec)
@pytest.mark.parametrize("stored", Codec)
def test_the_topics_codec_wins(tmp_path: Path, sent: Codec, stored: Codec) -> None:
    store = open_with(tmp_path, LogConfig(compression=stored))
    store.log.append(batch_of([b"a" * 100, b"b" * 100], codec=sent))
    assert [check_batch(batch).codec for batch in store.log.batches(0)] == [stored]
    assert values_in(store.log) == [b"a" * 100, b"b" * 100]


@pytest.mark.parametrize("codec", Codec)
def test_a_compacted_topic_refuses_records_without_a_key(tmp_path: Path, codec: Codec) -> None:
    store = open_with(tmp_path, LogConfig(cleanup_compact=True))
    store.log.append(batch_of([b"a"], keys=[b"k"], codec=codec))
    assert refused(store, batch_of([b"a", b"b"], keys=[b"k", None], codec=codec)) == ErrorCode.INVALID_RECORD


def test_not_any_number_of_wrong_records_is_named() -> None:
    batch = batch_of([b"a", b"b", b"c", b"d"], keys=[None, b"k", None, None])
    with pytest.raises(RecordsRefused) as caught:
        check_records(
            batch, parse_header(batch), LogConfig(cleanup_compact=True), START_MS, wrong_records_max=2
        )
    assert [record.place for record in caught.value.records] == [0, 2]


def test_altered_settings_apply_at_once(store: Store) -> None:
    store.log.append(batch_of([b"a" * 300]))
    store.log.config = LogConfig(max_message_bytes=100)
    assert refused(store, batch_of([b"a" * 300])) == ErrorCode.MESSAGE_TOO_LARGE


def test_a_coordinators_batch_needs_no_sequence(store: Store) -> None:
    batch = batch_of([b"offset"], producer_id=1, sequence=-1, transactional=True)
    assert store.log.append(batch, internal=True).base_offset == 0
    assert store.log.first_unstable_offset == 0
