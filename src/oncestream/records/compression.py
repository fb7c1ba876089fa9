"""The five codecs of a record batch: bytes in, bytes out, with a bound on what comes out."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from oncestream.wire.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

Buffer = bytes | bytearray | memoryview

DECOMPRESSED_BYTES_MAX: Final = 256 * 1024 * 1024
XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
XERIAL_HEADER: Final = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
XERIAL_BLOCK_BYTES: Final = 32 * 1024
LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_HEADER_BYTES: Final = 7  # magic, flags, size of the blocks, checksum
_LZ4_BLOCKS_STAND_ALONE: Final = 0x20
_LZ4_MODE: Final = _LZ4_BLOCKS_STAND_ALONE | 0x01  # or it has a dictionary
_LZ4_BLOCK_CHECKSUM: Final = 0x10
_LZ4_CONTENT_SIZE: Final = 0x08
_LZ4_CONTENT_CHECKSUM: Final = 0x04
_LZ4_BLOCK_BYTES: Final = 0x7FFF_FFFF  # the highest bit: not compressed
OUTPUT_TOO_SMALL: Final = "failed to write whole buffer"


class Codec(IntEnum):
    """Compression of a batch, as in the low three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Codec, data: Buffer) -> bytes:
    import cramjam

    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return bytes(cramjam.gzip.compress(data))
        case Codec.SNAPPY:
            return _compress_xerial(cramjam, data)
        case Codec.LZ4:
            # Kafka's Java reader refuses frames whose blocks depend on each other.
            compressor = cramjam.lz4.Compressor(content_checksum=False, block_linked=False)
            compressor.compress(bytes(data))
            return bytes(compressor.finish())
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data))


def decompress(codec: Codec, data: Buffer, size_bytes_max: int = DECOMPRESSED_BYTES_MAX) -> Buffer:
    """The plain records of a batch; CORRUPT_MESSAGE if they are damaged, MESSAGE_TOO_LARGE if above the bound."""
    import cramjam

    try:
        match codec:
            case Codec.NONE:
                return data
            case Codec.GZIP:
                return _decompress_growing(cramjam.gzip.decompress_into, data, size_bytes_max)
            case Codec.SNAPPY:
                return _decompress_snappy(cramjam, data, size_bytes_max)
            case Codec.LZ4:
                return _decompress_growing(cramjam.lz4.decompress_into, data, size_bytes_max)
            case Codec.ZSTD:
                return _decompress_growing(cramjam.zstd.decompress_into, data, size_bytes_max)
    except (cramjam.DecompressionError, struct.error) as error:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"{codec.name.lower()} records are damaged: {error}"
        ) from error


def check_lz4(data: memoryview) -> None:
    """CORRUPT_MESSAGE for what `decompress` takes and Kafka's Java consumer does not.

    That reads one frame, without a dictionary, of blocks that stand alone.
    """
    flags = data[4]
    if bytes(data[:4]) != LZ4_MAGIC or flags & _LZ4_MODE != _LZ4_BLOCKS_STAND_ALONE:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "blocks of lz4 records must not depend on each other")
    position = _LZ4_HEADER_BYTES + (8 if flags & _LZ4_CONTENT_SIZE else 0)
    checksum_bytes = 4 if flags & _LZ4_BLOCK_CHECKSUM else 0
    while size := struct.unpack_from("<I", data, position)[0]:
        position += 4 + (size & _LZ4_BLOCK_BYTES) + checksum_bytes
    position += 8 if flags & _LZ4_CONTENT_CHECKSUM else 4
    if position != len(data):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{len(data) - position} bytes follow the lz4 records")


def _decompress_growing(
    into: Callable[[Buffer, bytearray], int], data: Buffer, size_bytes_max: int
) -> memoryview:
    import cramjam

    room = min(size_bytes_max, max(64 * 1024, 8 * len(data)))
    while True:
        output = bytearray(room)
        try:
            return memoryview(output)[: into(data, output)]
        except cramjam.DecompressionError as error:
            if OUTPUT_TOO_SMALL not in str(error):
                raise
            if room >= size_bytes_max:
                raise _too_large(size_bytes_max) from error
            del output  # before there is a larger one
            room = min(size_bytes_max, 4 * room)


def _decompress_snappy(cramjam: Any, data: Buffer, size_bytes_max: int) -> Buffer:
    if bytes(data[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        return _decompress_raw_snappy(cramjam, data, size_bytes_max)
    view = memoryview(data)
    output = bytearray()
    position = len(XERIAL_HEADER)
    while position < len(view):
        (length,) = struct.unpack_from(">i", view, position)
        position += 4
        if not 0 < length <= len(view) - position:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, f"snappy block of {length} bytes does not fit its batch"
            )
        block = view[position : position + length]
        output += _decompress_raw_snappy(cramjam, block, size_bytes_max - len(output))
        position += length
    return output


def _decompress_raw_snappy(cramjam: Any, data: Buffer, size_bytes_max: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(data) > size_bytes_max:
        raise _too_large(size_bytes_max)
    return bytes(cramjam.snappy.decompress_raw(data))


def _compress_xerial(cramjam: Any, data: Buffer) -> bytes:
    view = memoryview(data)
    output = bytearray(XERIAL_HEADER)
    for start in range(0, len(view), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + XERIAL_BLOCK_BYTES]))
        output += struct.pack(">i", len(block)) + block
    return bytes(output)


def _too_large(size_bytes_max: int) -> KafkaError:
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"records decompress to more than {size_bytes_max} bytes")
