"""Record headers: Arrow lists of (key, value) to and from the bytes in records."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oncestream.records.arrow_binary import (
    VIEW_WORDS,
    Column,
    binary_from_views,
    binary_of,
    column_of,
    fill_inline,
    fill_views,
)
from oncestream.records.arrow_varints import Bytes, Ints, joined_pieces, read_varints
from oncestream.wire.error_codes import ErrorCode, KafkaError

HEADER_TYPE: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS_TYPE: Final = pa.list_(HEADER_TYPE)


class EncodedHeaders(NamedTuple):
    """How many headers each record has, and their bytes."""

    counts: Ints
    column: Column


def encode_headers(array: pa.Array) -> EncodedHeaders:
    """The headers of each row, a list of (key, value) or a map; null is no headers."""
    entry = array.type.value_type if not pa.types.is_map(array.type) else None
    names = ("key", "value") if entry is None else (entry.field(0).name, entry.field(1).name)
    plain = pa.list_(pa.struct([pa.field(names[0], pa.binary()), pa.field(names[1], pa.binary())]))
    lists = array.cast(plain)
    counts = pc.list_value_length(lists).fill_null(0).to_numpy().astype(np.int64)
    keys, values = (column_of(field) for field in lists.flatten().flatten())
    if (keys.lengths < 0).any():
        raise KafkaError(ErrorCode.INVALID_RECORD, "a record header has no key")
    joined = _join(keys, values)
    firsts = np.concatenate(([0], np.cumsum(counts)))
    starts = np.concatenate((joined.starts, [joined.lengths.sum()]))
    return EncodedHeaders(counts, Column(joined.data, starts[firsts[:-1]], np.diff(starts[firsts])))


def decode_headers(data: Bytes, positions: Ints, counts: Ints) -> tuple[pa.Array, Ints]:
    """The headers that start at each position, null where there are none, and the position after them."""
    firsts = np.concatenate(([0], np.cumsum(counts)))
    key_starts, key_lengths, value_starts, value_lengths = np.zeros((4, int(firsts[-1])), np.int64)
    after = positions.copy()
    for index in range(int(counts.max(initial=0))):
        rows = np.flatnonzero(counts > index)
        at = firsts[rows] + index
        key_lengths[at], key_starts[at] = read_varints(data, after[rows])
        value_lengths[at], value_starts[at] = read_varints(data, key_starts[at] + key_lengths[at])
        after[rows] = value_starts[at] + np.maximum(value_lengths[at], 0)
        if (key_lengths[at] < 0).any() or (after[rows] > len(data)).any():
            raise ValueError("header does not fit")
    keys = _text(binary_of(Column(data, key_starts, key_lengths)))
    values = binary_of(Column(data, value_starts, value_lengths))
    entries = pa.StructArray.from_arrays([keys, values], fields=list(HEADER_TYPE))
    lists = pa.ListArray.from_arrays(pa.array(firsts.astype(np.int32)), entries, mask=pa.array(counts == 0))
    return lists, after


def _join(keys: Column, values: Column) -> Column:
    before_value = joined_pieces(values.length_pieces)
    before_key = joined_pieces(keys.length_pieces)
    views = np.zeros((len(keys.lengths), len(before_key) + len(before_value) + 2, VIEW_WORDS), np.int32)
    place = 0
    for pieces, column, index in ((before_key, keys, 0), (before_value, values, 1)):
        for piece in pieces:
            fill_inline(views[:, place], piece)
            place += 1
        fill_views(views[:, place], column, buffer_index=index)
        place += 1
    joined = column_of(binary_from_views(views, [keys.data, values.data]))
    ends = np.concatenate((joined.starts, [joined.lengths.sum()]))[:: views.shape[1]]
    return Column(joined.data, ends[:-1], np.diff(ends))


def _text(array: pa.Array) -> pa.Array:
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        # As Java reads them: what is no UTF-8 becomes a replacement sign.
        return pa.array([key.decode(errors="replace") for key in array.to_pylist()], pa.string())
