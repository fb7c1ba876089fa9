"""Murmur2 as Kafka's Java producer has it: the hash that gives a keyed record its partition."""

from __future__ import annotations

import struct
from typing import Final

SEED: Final = 0x9747B28C
MULTIPLIER: Final = 0x5BD1E995
SHIFT: Final = 24
POSITIVE: Final = 0x7FFFFFFF
_WORD_MASK: Final = 0xFFFFFFFF


def key_hash(data: bytes) -> int:
    """The hash without its sign bit: modulo the number of partitions it is the record's partition."""
    return murmur2(data) & POSITIVE


def murmur2(data: bytes) -> int:
    """The 32-bit hash, signed as Java's int is."""
    length = len(data)
    whole = length & ~3
    state = (SEED ^ length) & _WORD_MASK
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        mixed = word * MULTIPLIER & _WORD_MASK
        mixed ^= mixed >> SHIFT
        state = (state * MULTIPLIER & _WORD_MASK) ^ (mixed * MULTIPLIER & _WORD_MASK)
    if whole < length:
        state ^= int.from_bytes(data[whole:], "little")
        state = state * MULTIPLIER & _WORD_MASK
    state ^= state >> 13
    state = state * MULTIPLIER & _WORD_MASK
    state ^= state >> 15
    return state - (1 << 32) if state > POSITIVE else state
