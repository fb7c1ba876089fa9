"""Where the records of a batch start: each says its length, so they are found one after the other.

Records of one size often follow each other in long runs. A run is guessed from its first record and
verified all at once: where each next start holds the same length, the start after it is certain too.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from oncestream.records.arrow_varints import Bytes, Ints
from oncestream.records.compression import Buffer
from oncestream.records.framing import RECORD_BYTES_MIN

LENGTH_BYTES_MAX: Final = 5
RUN_MIN: Final = 32  # shorter runs are found faster one by one
WALK_START: Final = 64


def record_starts(plain: Buffer, data: Bytes, start: int, end: int, count: int) -> Ints:
    """The starts of the `count` records that fill start..end of `plain`, which is `data`'s memory."""
    if not 0 <= count <= (end - start) // RECORD_BYTES_MIN:
        raise ValueError(f"{count} records do not fit {end - start} bytes")
    if count < RUN_MIN:
        starts, position = _walk(plain, start, end, count)
        found = np.array(starts, np.int64)
    else:
        found, position = _runs(plain, data, start, end, count)
    if position != end:
        raise ValueError(f"{end - position} bytes after the last record")
    return found


def _runs(plain: Buffer, data: Bytes, start: int, end: int, count: int) -> tuple[Ints, int]:
    starts = np.empty(count, np.int64)
    done = 0
    position = start
    walk = WALK_START
    while done < count:
        size, length = _run(plain, data, position, end, count - done)
        starts[done : done + length] = position + size * np.arange(length)
        done += length
        position += size * length
        if length < RUN_MIN and done < count:
            steps = min(walk, count - done)
            starts[done : done + steps], position = _walk(plain, position, end, steps)
            done += steps
            walk *= 4
    return starts, position


def _run(plain: Buffer, data: Bytes, position: int, end: int, count: int) -> tuple[int, int]:
    """The size of the record at `position`, and how many in a row have that size."""
    _, after = _walk(plain, position, end, 1)
    size = after - position
    count = min(count, (end - position) // size)
    same = np.ones(count, np.bool_)
    for index in range(position, position + LENGTH_BYTES_MAX):
        byte = plain[index]
        same &= data[index : index + (count - 1) * size + 1 : size] == byte
        if byte < 0x80:
            break
    return size, count if same.all() else int(same.argmin())


def _walk(plain: Buffer, position: int, end: int, count: int) -> tuple[list[int], int]:
    """`count` starts from `position` on, and the position after the last record."""
    starts = []
    try:
        for _ in range(count):
            starts.append(position)
            byte = plain[position]
            second = plain[position + 1]
            if byte < 0x80:
                position += 1 + (byte >> 1)
            elif second < 0x80:
                position += 2 + ((byte & 0x7F | second << 7) >> 1)
            else:
                position = _after_long_record(plain, position)
    except IndexError as error:
        raise ValueError("records are missing") from error
    if position > end:
        raise ValueError("the last record does not fit")
    return starts, position


def _after_long_record(plain: Buffer, position: int) -> int:
    length = 0
    for index in range(LENGTH_BYTES_MAX):
        byte = plain[position + index]
        length |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return position + index + 1 + (length >> 1)
    raise ValueError("a record's length is too long")
