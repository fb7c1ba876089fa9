"""What a batch must be before it is appended, as Apache Kafka's log validator has it."""

from __future__ import annotations

from typing import Final

from oncestream.records.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    parse_header,
    stamp_timestamp_type,
)
from oncestream.records.compression import DECOMPRESSED_BYTES_MAX, Codec, check_lz4, decompress
from oncestream.records.framing import check_framing
from oncestream.records.records import recompress, records_of
from oncestream.storage.config import INT64_MAX, LogConfig
from oncestream.wire.error_codes import ErrorCode, KafkaError, RecordsRefused, WrongRecord

WRONG_RECORDS_MAX: Final = 10_000  # that are looked for; the others of the batch are refused with them anyhow

INFLATED_BYTES_MAX: Final = (
    64 * 1024 * 1024
)  # of a compressed batch; more where the topic's own limit is higher

_CODEC_MAX: Final = int(Codec.ZSTD)
_INT64_MIN: Final = -INT64_MAX - 1


def check_client_batch(batch: memoryview, header: BatchHeader, config: LogConfig) -> BatchHeader:
    """Refuses what a client may not send, though its checksum is right; the header, which may be corrected."""
    _check_header(header)
    attributes, base_timestamp = header.attributes, header.base_timestamp
    if attributes & CODEC_MASK:
        smallest, largest = check_framing(_inflate(batch, header, config), 0, header.count)
    else:
        smallest, largest = check_framing(bytes(batch), HEADER_SIZE, header.count)
    if attributes & LOG_APPEND_TIME:
        if config.log_append_time:
            raise _all_refused(
                header, ErrorCode.INVALID_TIMESTAMP, "the type of its time is the broker's to set"
            )
        return header  # the times of the records do not count
    max_timestamp = max(base_timestamp + largest, NO_TIMESTAMP)
    if max_timestamp > INT64_MAX or base_timestamp + smallest < _INT64_MIN:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "the timestamp of a record is longer than 64 bits")
    if max_timestamp == header.max_timestamp:
        return header
    stamp_timestamp_type(batch, log_append_time=False, max_timestamp=max_timestamp)
    return parse_header(batch)


def _check_header(header: BatchHeader) -> None:
    attributes = header.attributes
    if header.count <= 0 or header.last_offset_delta != header.count - 1:
        raise _invalid(f"batch of {header.count} records spans {header.last_offset_delta + 1} offsets")
    if header.base_offset != 0:
        raise _invalid(f"base offset of a produced batch is 0, not {header.base_offset}")
    if attributes & CODEC_MASK > _CODEC_MAX:
        raise _invalid(f"no codec has the number {attributes & CODEC_MASK}")
    if attributes & CONTROL:
        raise _invalid("clients may not write control records")
    if header.producer_id >= 0:
        if header.base_sequence < 0:
            raise _invalid(f"producer {header.producer_id} sent sequence {header.base_sequence}")
    elif attributes & TRANSACTIONAL:
        raise _invalid("a transactional batch needs a producer id")


def _inflate(batch: memoryview, header: BatchHeader, config: LogConfig) -> bytes:
    """The records, uncompressed: no more of them than the topic's readers can take."""
    size_bytes_max = min(max(INFLATED_BYTES_MAX, config.max_message_bytes), DECOMPRESSED_BYTES_MAX)
    compressed = batch[HEADER_SIZE:]
    try:
        plain = bytes(decompress(header.codec, compressed, size_bytes_max))
        if header.codec is Codec.LZ4:
            check_lz4(compressed)
        return plain
    except KafkaError as error:
        if error.code == ErrorCode.CORRUPT_MESSAGE:  # the checksum is right: to send it again would not help
            raise _invalid(error.message) from error
        raise


def prepare(batch: memoryview, header: BatchHeader, config: LogConfig, now_ms: int) -> memoryview:
    """The batch as the topic wants it stored: its codec, its timestamp type; every record looked at."""
    times_matter = not config.log_append_time and (
        config.timestamp_before_max_ms != INT64_MAX
        or header.max_timestamp - now_ms > config.timestamp_after_max_ms
    )
    if config.cleanup_compact or times_matter:
        check_records(batch, header, config, now_ms)
    if config.compression is not None and config.compression != header.codec and not header.is_control:
        batch = memoryview(recompress(batch, config.compression))
        if len(batch) > config.max_message_bytes:
            message = (
                f"batch of {len(batch)} bytes after recompression; the limit is {config.max_message_bytes}"
            )
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, message)
    if config.log_append_time or header.log_append_time:
        timestamp = now_ms if config.log_append_time else parse_header(batch).max_timestamp
        stamp_timestamp_type(batch, log_append_time=config.log_append_time, max_timestamp=timestamp)
    return batch


def check_records(
    batch: memoryview,
    header: BatchHeader,
    config: LogConfig,
    now_ms: int,
    wrong_records_max: int = WRONG_RECORDS_MAX,
) -> None:
    """Refuses the batch for records without a key where the topic is compacted, and for times out of range."""
    code = ErrorCode.INVALID_RECORD
    wrong: list[WrongRecord] = []
    for place, record in enumerate(records_of(batch, header)):
        if config.cleanup_compact and record.key is None:
            wrong.append(WrongRecord(place, "the record has no key, and the topic is compacted"))
        elif not _may_have_time(record.timestamp, now_ms, config):
            code = ErrorCode.INVALID_TIMESTAMP
            wrong.append(WrongRecord(place, _out_of_range(record.timestamp, now_ms, config)))
        if len(wrong) == wrong_records_max:
            break
    if wrong:
        first = wrong[0]
        message = f"{len(wrong)} of {header.count} records are refused; record {first.place}: {first.message}"
        raise RecordsRefused(code, message, wrong)
    if not _may_have_time(header.max_timestamp, now_ms, config):
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, _out_of_range(header.max_timestamp, now_ms, config))


def _all_refused(header: BatchHeader, code: ErrorCode, message: str) -> RecordsRefused:
    places = range(min(header.count, WRONG_RECORDS_MAX))
    return RecordsRefused(code, message, [WrongRecord(place, message) for place in places])


def _may_have_time(timestamp: int, now_ms: int, config: LogConfig) -> bool:
    return (
        config.log_append_time
        or timestamp == NO_TIMESTAMP
        or -config.timestamp_after_max_ms <= now_ms - timestamp <= config.timestamp_before_max_ms
    )


def _out_of_range(timestamp: int, now_ms: int, config: LogConfig) -> str:
    return (
        f"timestamp {timestamp} is out of range: it may be {config.timestamp_before_max_ms} ms before and "
        f"{config.timestamp_after_max_ms} ms after the broker's {now_ms}"
    )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)
