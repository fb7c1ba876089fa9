"""Attributes of streams, permission expressions, and what Kafka is told of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncestream.broker import topic_configs
from oncestream.errors import BadStreamAttribute
from oncestream.streams.attributes import COMPRESSIONS, GOVERNED, StreamAttributes
from oncestream.streams.expressions import principals_of

ATTRIBUTES = st.builds(
    StreamAttributes,
    ttl_s=st.integers(0, 10**12),
    default_partitions=st.integers(1, 10_000),
    auto_create=st.booleans(),
    compression=st.sampled_from(COMPRESSIONS),
    timestamp_type=st.sampled_from(["create", "append"]),
    compact=st.booleans(),
    min_compaction_lag_ms=st.integers(0, 1000),
    max_compaction_lag_ms=st.none() | st.integers(1000, 10**9),
    delete_lag_ms=st.integers(0, 10**9),
    replicas=st.none() | st.integers(1, 5),
    produce=st.sampled_from(["", "p", "u:alice", "u:alice|u:bob"]),
)


@given(ATTRIBUTES)
def test_the_configurations_of_any_stream_are_ones_that_a_broker_takes(attributes: StreamAttributes) -> None:
    configs = attributes.topic_configs()
    topic_configs.validate(configs)
    assert set(configs) <= set(GOVERNED)
    assert attributes.config_changes().keys() == set(GOVERNED)


def test_a_ttl_becomes_retention_and_segments_short_enough_to_keep_it() -> None:
    configs = StreamAttributes(ttl_s=3600).topic_configs()
    assert configs["retention.ms"] == "3600000"
    assert configs["segment.ms"] == "360000"
    assert configs["cleanup.policy"] == "delete"


def test_without_a_ttl_nothing_is_ever_deleted() -> None:
    configs = StreamAttributes(ttl_s=0).topic_configs()
    assert configs["retention.ms"] == "-1"
    assert "segment.ms" not in configs
    assert StreamAttributes(ttl_s=0).config_changes()["segment.ms"] is None


def test_compaction_with_a_ttl_still_deletes_and_without_one_only_compacts() -> None:
    both = StreamAttributes(compact=True, min_compaction_lag_ms=5, max_compaction_lag_ms=9, delete_lag_ms=7)
    assert both.topic_configs()["cleanup.policy"] == "compact,delete"
    assert both.topic_configs()["min.compaction.lag.ms"] == "5"
    assert both.topic_configs()["max.compaction.lag.ms"] == "9"
    assert both.topic_configs()["delete.retention.ms"] == "7"
    assert StreamAttributes(compact=True, ttl_s=0).topic_configs()["cleanup.policy"] == "compact"


@pytest.mark.parametrize(
    "given",
    [
        {"ttl_s": -1},
        {"ttl_s": 1.5},
        {"ttl_s": True},
        {"ttl_s": 2**63},
        {"default_partitions": 0},
        {"compression": "brotli"},
        {"timestamp_type": "event"},
        {"compact": "yes"},
        {"auto_create": 1},
        {"min_compaction_lag_ms": 5, "max_compaction_lag_ms": 4},
        {"delete_lag_ms": -1},
        {"replicas": 0},
        {"produce": "alice"},
        {"produce": "u:"},
        {"produce": "u:alice|p"},
        {"consume": "u:alice & u:bob"},
        {"consume": "u:alice|!u:bob"},
        {"consume": "(u:alice|u:bob)"},
        {"consume": "g:staff"},
        {"topic": "u:*"},
        {"copy": "u:a|"},
        {"admin": None},
        {"admin": "u:a\nb"},
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name(given: dict[str, Any]) -> None:
    with pytest.raises(BadStreamAttribute, match=f"attribute {list(given)[-1]} "):
        StreamAttributes(**given)


def test_an_expression_names_users_everyone_or_nobody() -> None:
    assert principals_of("u:bob|u:alice | u:bob") == ("User:alice", "User:bob")
    assert principals_of("u:CN=alice,O=Pumps") == ("User:CN=alice,O=Pumps",)
    assert principals_of("p") == ("User:*",)
    assert principals_of("") == ()
