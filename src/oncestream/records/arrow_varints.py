"""Zigzag varints of a whole column at once."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

VARINT_BYTES_MAX: Final = 10
WORD_BYTES: Final = 8


class Piece(NamedTuple):
    """A few bytes per record: the low `widths` bytes of each little-endian word."""

    words: Words
    widths: Ints


def read_varints(data: Bytes, positions: Ints) -> tuple[Ints, Ints]:
    """The varint at each position, and the position after it. Positions outside `data` read its ends."""
    first = data.take(positions, mode="clip")
    raw = (first & 0x7F).astype(np.uint64)
    after = positions + 1
    unfinished = np.flatnonzero(first >= 0x80)
    for index in range(1, VARINT_BYTES_MAX + 1):
        if not unfinished.size:
            break
        if index == VARINT_BYTES_MAX:
            raise ValueError("varint is too long")
        # Nearly always a column is of one width: then whole arrays are cheaper than picked rows.
        rows = slice(None) if unfinished.size == positions.size else unfinished
        byte = data.take(positions[rows] + index, mode="clip")
        raw[rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * index)
        after[rows] += 1
        unfinished = unfinished[byte >= 0x80]
    return (raw >> np.uint64(1)).view(np.int64) ^ -(raw & np.uint64(1)).view(np.int64), after


def varint_widths(values: Ints) -> Ints:
    """How many bytes each value takes as a varint."""
    zigzag = _zigzag(values)
    widths = np.ones(len(values), np.int64)
    largest = int(zigzag.max(initial=0))
    for index in range(1, VARINT_BYTES_MAX):
        if largest < 1 << 7 * index:
            break
        widths += zigzag >= np.uint64(1 << 7 * index)
    return widths


def varint_pieces(values: Ints) -> list[Piece]:
    """The bytes of each value's varint: one piece, or two where some value takes more than a word."""
    zigzag = _zigzag(values)
    widths = varint_widths(values)
    widest = int(widths.max(initial=1))
    if widest == 1:
        return [Piece(zigzag, widths)]
    low = _varint_bytes(zigzag, min(widest, WORD_BYTES))
    if widest <= WORD_BYTES:
        return [Piece(low, widths)]
    high = _varint_bytes(zigzag >> np.uint64(7 * WORD_BYTES), widest - WORD_BYTES)
    return [Piece(low, np.minimum(widths, WORD_BYTES)), Piece(high, np.maximum(widths - WORD_BYTES, 0))]


def joined_pieces(pieces: list[Piece]) -> list[Piece]:
    """The same bytes in as few pieces as words have room for."""
    joined: list[Piece] = []
    room = 0
    for piece in pieces:
        widest = int(piece.widths.max(initial=0))
        if not joined or widest > room:
            joined.append(piece)
            room = WORD_BYTES - widest
            continue
        last = joined[-1]
        shifted = piece.words << (last.widths.view(np.uint64) << np.uint64(3))
        joined[-1] = Piece(last.words | shifted, last.widths + piece.widths)
        room -= widest
    return joined


def _varint_bytes(zigzag: Words, count: int) -> Words:
    words = np.zeros(len(zigzag), np.uint64)
    rest = zigzag
    for index in range(count):
        words |= (rest & np.uint64(0x7F)) << np.uint64(8 * index)
        rest = rest >> np.uint64(7)
        words |= (rest != 0).astype(np.uint64) << np.uint64(8 * index + 7)
    return words


def _zigzag(values: Ints) -> Words:
    return ((values << 1) ^ (values >> 63)).view(np.uint64)
