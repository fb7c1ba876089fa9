"""Columns of bytes as numpy arrays, and back: where each value lies in a buffer, and how long it is.

Bytes are gathered by Arrow: a `binary_view` array points at them wherever they lie, and its cast to
`binary` copies them one after the other.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from oncestream.records.arrow_varints import Bytes, Ints, Piece, varint_pieces, varint_widths

Views = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

INLINE_BYTES_MAX: Final = 12  # a view this short holds its bytes itself
VIEW_WORDS: Final = 4
_INLINE_BYTES: Final = np.arange(INLINE_BYTES_MAX)


class Column(NamedTuple):
    """The bytes of each row: `lengths` is -1 where the row is null."""

    data: Bytes
    starts: Ints
    lengths: Ints

    @property
    def sizes(self) -> Ints:
        """Bytes each row takes in a record: a varint of the length, then the bytes."""
        return varint_widths(self.lengths) + np.maximum(self.lengths, 0)

    @property
    def length_pieces(self) -> list[Piece]:
        return varint_pieces(self.lengths)


def column_of(array: pa.Array) -> Column:
    """The bytes of an Arrow array of bytes or text."""
    array = array.cast(pa.binary())
    _, offsets_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, len(array) + 1, 4 * array.offset).astype(np.int64)
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer else np.zeros(0, np.uint8)
    lengths = np.diff(offsets)
    if array.null_count:
        lengths[~valid_rows(array)] = -1
    return Column(data, offsets[:-1], lengths)


def binary_of(column: Column) -> pa.Array:
    """An Arrow array with a copy of the column's bytes."""
    rows = len(column.lengths)
    views = np.zeros((rows, VIEW_WORDS), np.int32)
    fill_views(views, column, buffer_index=0)
    return binary_from_views(views, [column.data], valid=column.lengths >= 0)


def binary_from_views(views: Views, buffers: list[Bytes], valid: Mask | None = None) -> pa.Array:
    """What the views point at, one after the other."""
    bitmap = None if valid is None or valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    data = [pa.py_buffer(buffer) for buffer in buffers]
    rows = views.size // VIEW_WORDS
    return pa.Array.from_buffers(pa.binary_view(), rows, [bitmap, pa.py_buffer(views), *data]).cast(
        pa.binary()
    )


def fill_views(views: Views, column: Column, *, buffer_index: int) -> None:
    """Points one view per row at the column's bytes. Prefixes stay empty: only a cast reads these views."""
    views[:, 0] = np.maximum(column.lengths, 0)
    views[:, 2] = buffer_index
    views[:, 3] = column.starts
    short = np.flatnonzero(column.lengths <= INLINE_BYTES_MAX)
    if short.size and len(column.data):
        places = column.starts[short, np.newaxis] + _INLINE_BYTES
        views[short, 1:] = column.data.take(places, mode="clip").view(np.int32)


def fill_inline(views: Views, piece: Piece) -> None:
    """Writes the bytes of a piece into one view per row."""
    views[:, 0] = piece.widths
    views[:, 1:3] = piece.words.view(np.int32).reshape(-1, 2)


def valid_rows(array: pa.Array) -> Mask:
    valid: Mask = array.is_valid().to_numpy(zero_copy_only=False)
    return valid
