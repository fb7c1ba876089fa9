"""Murmur2 of a whole column of keys: one round takes the next four bytes of every key that has them."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from oncestream.records.arrow_binary import Column
from oncestream.records.arrow_varints import Bytes, Ints
from oncestream.records.murmur2 import MULTIPLIER, POSITIVE, SEED, SHIFT, key_hash

Hashes = npt.NDArray[np.uint32]

ROWS_MIN: Final = 16  # for fewer keys a round costs more than hashing them one by one
_MULTIPLIER: Final = np.uint32(MULTIPLIER)


def key_hashes(keys: Column) -> Ints:
    """`key_hash` of each key; that of an empty one where it is null."""
    lengths = np.maximum(keys.lengths, 0)
    order = np.argsort(-lengths, kind="stable")
    lengths = lengths[order]
    starts = keys.starts[order]
    states = np.uint32(SEED) ^ lengths.astype(np.uint32)
    words = lengths // 4
    rounds = int(words[ROWS_MIN - 1]) if len(words) >= ROWS_MIN else 0
    for index in range(rounds):
        active = int(np.searchsorted(-words, -index, "left"))
        states[:active] = _mix(states[:active], _word(keys.data, starts[:active] + 4 * index))
    states = _finish(_tail(states, keys.data, starts + 4 * words, lengths % 4))
    hashes = np.empty(len(order), np.int64)
    hashes[order] = states & np.uint32(POSITIVE)
    for row in order[: int(np.searchsorted(-words, -rounds, "left"))]:
        start = int(keys.starts[row])
        hashes[row] = key_hash(keys.data[start : start + int(keys.lengths[row])].tobytes())
    return hashes


def _word(data: Bytes, positions: Ints) -> Hashes:
    word = np.zeros(len(positions), np.uint32)
    for index in range(4):
        word |= data.take(positions + index).astype(np.uint32) << np.uint32(8 * index)
    return word


def _mix(states: Hashes, word: Hashes) -> Hashes:
    mixed = word * _MULTIPLIER
    mixed ^= mixed >> np.uint32(SHIFT)
    return (states * _MULTIPLIER) ^ (mixed * _MULTIPLIER)


def _tail(states: Hashes, data: Bytes, positions: Ints, counts: Ints) -> Hashes:
    """The last one to three bytes."""
    for index in range(3):
        rows = np.flatnonzero(counts > index)
        states[rows] ^= data.take(positions[rows] + index).astype(np.uint32) << np.uint32(8 * index)
    rows = np.flatnonzero(counts)
    states[rows] *= _MULTIPLIER
    return states


def _finish(states: Hashes) -> Hashes:
    states ^= states >> np.uint32(13)
    states *= _MULTIPLIER
    states ^= states >> np.uint32(15)
    return states
