from __future__ import annotations

import pytest

from oncestream.records.batch import (
    HEADER_SIZE,
    SEQUENCE_MAX,
    check_batch,
    parse_header,
    stamp,
    stamp_timestamp_type,
)
from oncestream.records.records import Record, build_batch, records_of
from oncestream.wire.error_codes import ErrorCode, KafkaError


def a_batch(count: int = 3, base_sequence: int = -1) -> bytearray:
    records = [Record(number, 1000 + number, b"k", b"v" * 20) for number in range(count)]
    producer_id = 7 if base_sequence >= 0 else -1
    return build_batch(
        records, producer_id=producer_id, producer_epoch=min(0, producer_id), base_sequence=base_sequence
    )


def code_of(batch: bytes | bytearray) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        check_batch(memoryview(batch))
    return caught.value.code


def test_a_whole_batch_is_taken_and_its_header_told() -> None:
    header = check_batch(memoryview(a_batch()))
    assert (header.base_offset, header.last_offset, header.next_offset, header.count) == (0, 2, 3, 3)
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1002)
    assert header.size_bytes == len(a_batch())


def test_every_flipped_bit_that_the_checksum_covers_is_noticed() -> None:
    batch = a_batch()
    for position in range(17, len(batch)):
        damaged = bytearray(batch)
        damaged[position] ^= 0x10
        assert code_of(damaged) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("length", [-1, 0, 48, 1000, 2**31 - 1])
def test_a_lying_length_is_corrupt(length: int) -> None:
    batch = a_batch()
    batch[8:12] = length.to_bytes(4, "big", signed=True)
    assert code_of(batch) == ErrorCode.CORRUPT_MESSAGE


def test_every_truncation_is_refused() -> None:
    batch = bytes(a_batch())
    for size in range(1, len(batch)):
        assert code_of(batch[:size]) in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)
    assert code_of(b"") == ErrorCode.INVALID_RECORD


def test_a_second_batch_or_trailing_bytes_are_an_invalid_record() -> None:
    assert code_of(a_batch() + a_batch()) == ErrorCode.INVALID_RECORD
    assert code_of(a_batch() + b"\0") == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_other_magics_are_an_invalid_record(magic: int) -> None:
    batch = a_batch()
    batch[16] = magic
    assert code_of(batch) == ErrorCode.INVALID_RECORD


def test_stamping_offset_and_epoch_leaves_the_checksum_valid() -> None:
    batch = a_batch()
    stamp(memoryview(batch), 123456789012, 9)
    header = check_batch(memoryview(batch))
    assert (header.base_offset, header.leader_epoch) == (123456789012, 9)


def test_stamping_log_append_time_gives_every_record_that_time() -> None:
    batch = a_batch()
    stamp_timestamp_type(memoryview(batch), log_append_time=True, max_timestamp=5555)
    assert check_batch(memoryview(batch)).log_append_time
    assert {record.timestamp for record in records_of(batch)} == {5555}


def test_the_last_sequence_wraps_to_zero() -> None:
    assert parse_header(a_batch(3, SEQUENCE_MAX - 2)).last_sequence == SEQUENCE_MAX
    assert parse_header(a_batch(3, SEQUENCE_MAX - 1)).last_sequence == 0
    assert parse_header(a_batch(3, SEQUENCE_MAX)).last_sequence == 1
    assert parse_header(a_batch(3)).last_sequence == -1


def test_the_header_has_the_size_of_kafkas() -> None:
    assert len(build_batch([], base_offset=0, last_offset=0)) == HEADER_SIZE == 61
