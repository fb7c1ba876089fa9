"""Keys and versioned values of the coordinators' logs, and the consumers' protocol."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncestream.wire.codec import DecodeError, decode_versioned, encode_versioned
from oncestream.wire.embedded.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_assignment,
    decode_subscription,
)
from oncestream.wire.embedded.coordinator_keys import decode_group_key, decode_transaction_key, encode_key
from oncestream.wire.embedded.end_txn_marker import EndTxnMarker
from oncestream.wire.embedded.offset_commit import OffsetCommitKey
from oncestream.wire.embedded.transaction_log import TransactionLogKey
from tests.wire.messages import EMBEDDED_CASES, Case, message_of

GROUP_KEYS = [
    case for case in EMBEDDED_CASES if case.cls.__name__.endswith("Key") and case.cls.__api_key__ > 0
]


@pytest.mark.parametrize("case", GROUP_KEYS, ids=repr)
@given(data=st.data())
def test_keys_of_group_records_name_their_kind(case: Case, data: st.DataObject) -> None:
    key = data.draw(message_of(case))
    raw = encode_key(key)
    assert int.from_bytes(raw[:2], "big") == case.cls.__api_key__
    assert decode_group_key(raw) == key
    assert decode_transaction_key(raw) is None


def test_the_legacy_kind_of_offset_commits_is_read() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=1)
    assert decode_group_key(b"\0\0" + encode_key(key)[2:]) == key


def test_keys_of_the_transaction_log() -> None:
    key = TransactionLogKey(transactional_id="pipeline")
    assert encode_key(key) == b"\0\0\0\x08pipeline"
    assert decode_transaction_key(encode_key(key)) == key


def test_a_kind_of_record_we_do_not_keep_is_none() -> None:
    assert decode_group_key(b"\0\x63anything") is None


@pytest.mark.parametrize("raw", [b"", b"\0"])
def test_a_key_without_a_kind_is_refused(raw: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_group_key(raw)
    with pytest.raises(DecodeError):
        decode_versioned(EndTxnMarker, raw)


def test_a_value_carries_its_version() -> None:
    assert encode_versioned(EndTxnMarker(coordinator_epoch=3), 0) == b"\0\0\0\0\0\3"
    assert decode_versioned(EndTxnMarker, b"\0\0\0\0\0\3") == EndTxnMarker(coordinator_epoch=3)
    with pytest.raises(DecodeError, match="no version 9"):
        decode_versioned(EndTxnMarker, b"\0\x09\0\0\0\3")


def test_subscriptions_and_assignments_newer_than_ours_are_read_as_our_newest() -> None:
    subscription = ConsumerProtocolSubscription(topics=["a"], generation_id=4, rack_id="r")
    assignment = ConsumerProtocolAssignment(user_data=b"u")
    newer = b"\0\x09"
    assert decode_subscription(newer + encode_versioned(subscription, 3)[2:] + b"new") == subscription
    assert decode_assignment(newer + encode_versioned(assignment, 3)[2:] + b"new") == assignment
    assert decode_subscription(encode_versioned(subscription, 0)).rack_id is None
