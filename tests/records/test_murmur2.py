from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_murmur2

from oncestream.records.murmur2 import key_hash, murmur2

# From the unit tests of Kafka's Java client.
JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "expected"), JAVA.items())
def test_hashes_are_those_of_the_java_client(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected


@given(st.binary(max_size=300))
def test_hashes_are_those_of_kafka_python(key: bytes) -> None:
    assert murmur2(key) & 0xFFFFFFFF == kafka_murmur2(key) & 0xFFFFFFFF
    assert key_hash(key) == kafka_murmur2(key) & 0x7FFFFFFF
