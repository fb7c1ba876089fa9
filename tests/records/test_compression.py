from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncestream.records.compression import Codec, compress, decompress
from oncestream.wire.error_codes import ErrorCode, KafkaError

COMPRESSING = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


@settings(max_examples=80)
@given(st.sampled_from(Codec), st.binary(max_size=100_000))
def test_what_was_compressed_comes_back(codec: Codec, data: bytes) -> None:
    assert bytes(decompress(codec, compress(codec, data))) == data


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_decompression_bomb_is_refused(codec: Codec) -> None:
    bomb = compress(codec, bytes(3_000_000))
    with pytest.raises(KafkaError) as caught:
        decompress(codec, bomb, size_bytes_max=1_000_000)
    assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert len(decompress(codec, bomb, size_bytes_max=3_000_000)) == 3_000_000


@pytest.mark.parametrize("codec", COMPRESSING)
def test_damaged_compressed_data_is_corrupt(codec: Codec) -> None:
    data = bytearray(compress(codec, b"some words that compress " * 100))
    with pytest.raises(KafkaError) as caught:
        decompress(codec, data[: len(data) // 2])
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


def test_raw_snappy_without_the_java_framing_is_read_too() -> None:
    import cramjam

    raw = bytes(cramjam.snappy.compress_raw(b"words " * 50))
    assert bytes(decompress(Codec.SNAPPY, raw)) == b"words " * 50


def test_lz4_blocks_stand_alone_as_kafkas_java_reader_demands() -> None:
    block_independence = 0x20
    assert compress(Codec.LZ4, b"words " * 50_000)[4] & block_independence
