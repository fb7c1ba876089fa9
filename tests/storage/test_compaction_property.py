from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from oncestream.records.compression import Codec
from tests.effort import effort
from tests.storage.compacting import COMPACT, compact, roll, survivors
from tests.storage.kit import Store, batch_of

Operation = tuple[str, list[tuple[bytes, bytes | None]], Codec]

operations = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "roll", "compact", "commit", "abort", "restart", "kill"]),
        st.lists(
            st.tuples(st.sampled_from([b"a", b"b", b"c", b"d"]), st.none() | st.binary(max_size=8)),
            min_size=1,
            max_size=4,
        ),
        st.sampled_from(Codec),
    ),
    max_size=40,
)


@settings(max_examples=effort(200, soak=20_000))
@given(operations)
def test_compaction_keeps_what_a_reader_of_the_whole_log_would_end_up_with(walk: list[Operation]) -> None:
    root = Path(tempfile.mkdtemp())
    try:
        _walk_and_compare(root / "data", walk)
    finally:
        shutil.rmtree(root)


def _walk_and_compare(path: Path, walk: list[Operation]) -> None:
    store = Store(path, COMPACT)
    visible: list[tuple[int, bytes, bytes | None]] = []
    sequence = 0
    for operation, rows, codec in walk:
        keys, values = [key for key, _ in rows], [value for _, value in rows]
        base = store.log.end_offset
        written = [(base + index, key, value) for index, (key, value) in enumerate(rows)]
        if operation == "put":
            store.log.append(batch_of(values, keys=keys, codec=codec))
            visible += written
        elif operation in ("commit", "abort"):
            batch = batch_of(
                values, keys=keys, codec=codec, producer_id=3, sequence=sequence, transactional=True
            )
            store.log.append(batch)
            sequence += len(rows)
            store.log.append_marker(3, 0, 0, operation == "commit")
            visible += written if operation == "commit" else []
        elif operation == "roll":
            roll(store)
        elif operation == "compact":
            compact(store)
        else:
            store = store.restart() if operation == "restart" else store.reborn()
    aborted = {
        offset
        for transaction in store.log.aborted(0, store.log.end_offset)
        for offset in range(transaction.first_offset, transaction.last_offset)
    }
    left = [row for row in survivors(store.log) if row[0] not in aborted]
    assert [offset for offset, _, _ in left] == sorted(offset for offset, _, _ in left)
    assert set(left) <= set(visible)
    assert _final(left) == _final(visible)


def _final(
    rows: list[tuple[int, bytes, bytes | None]] | list[tuple[int, bytes | None, bytes | None]],
) -> object:
    state = {key: (offset, value) for offset, key, value in rows}
    return {key: row for key, row in state.items() if row[1] is not None}
