"""A transactional id in the log comes back as it was."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncestream.broker.state_log import StateRecord
from oncestream.broker.transactions.record import decode_id, decode_transaction, encode_transaction, tombstone
from oncestream.broker.transactions.state import State, TopicPartition, Transaction

IDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
INT16 = st.integers(-1, 2**15 - 1)
INT32 = st.integers(0, 2**31 - 1)
INT64 = st.integers(-1, 2**63 - 1)
PARTITIONS = st.frozensets(
    st.builds(TopicPartition, st.sampled_from(["a", "b", "__consumer_offsets"]), INT32)
)


@st.composite
def transactions(draw: st.DrawFn) -> Transaction:
    state = draw(st.sampled_from([s for s in State if s not in (State.DEAD, State.PREPARE_EPOCH_FENCE)]))
    return Transaction(
        id=draw(IDS),
        producer_id=draw(INT64),
        epoch=draw(INT16),
        timeout_ms=draw(INT32),
        state=state,
        updated_ms=draw(INT64),
        started_ms=draw(INT64),
        partitions=frozenset() if state is State.EMPTY else draw(PARTITIONS),
        previous_producer_id=draw(INT64),
        next_producer_id=draw(INT64),
        last_epoch=draw(INT16),
        version=draw(st.sampled_from([0, 2])),
    )


@given(transactions())
def test_a_record_holds_all_of_a_transaction(txn: Transaction) -> None:
    record = encode_transaction(txn)
    assert record.value is not None
    assert decode_id(record) == txn.id
    assert decode_transaction(txn.id, record.value) == txn


@given(IDS)
def test_a_tombstone_has_the_key_of_the_record(transactional_id: str) -> None:
    txn = Transaction(transactional_id, 1, 0, 1, State.EMPTY, 0)
    assert tombstone(transactional_id) == StateRecord(encode_transaction(txn).key, None)
