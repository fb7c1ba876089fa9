"""The language of keys: what it finds, and what it refuses."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import BadKeyExpression
from oncestream.records.arrow_headers import HEADERS_TYPE
from oncestream.verify.keys import AuditRecord, key_of

HERE = TopicPartition("in", 3)


def found(
    expression: str, value: bytes | None = b"v", key: bytes | None = b"k", headers: object = None
) -> bytes | None:
    rows = pa.record_batch(
        {
            "key": pa.array([key], pa.binary()),
            "value": pa.array([value], pa.binary()),
            "offset": pa.array([7], pa.int64()),
            "headers": pa.array([headers], HEADERS_TYPE),
        }
    )
    (only,) = key_of(expression).of_batch(HERE, rows)
    return only


def test_parts_of_a_record() -> None:
    headers = [{"key": "id", "value": b"1"}, {"key": "id", "value": b"2"}]
    assert found("value") == b"v"
    assert found("key") == b"k"
    assert found("key", key=None) is None
    assert found("position") == b"in-3@7"
    assert (found("topic"), found("partition"), found("offset")) == (b"in", b"3", b"7")
    assert found("header:id", headers=headers) == b"2"
    assert found("header:other", headers=headers) is None
    assert found("header:id") is None


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$.id", b"17"),
        ("$.name", b"pump"),
        ("$.deep.list[1].x", b"true"),
        ('$["odd name"]', b"1.5"),
        ("$.deep", b'{"list":[1,{"x":true}]}'),
        ("$.nothing", None),
        ("$.missing", None),
        ("$.id.x", None),
        ("$.deep.list[9]", None),
    ],
)
def test_paths_into_json(path: str, expected: bytes | None) -> None:
    content = {"id": 17, "name": "pump", "deep": {"list": [1, {"x": True}]}, "odd name": 1.5, "nothing": None}
    text = json.dumps(content).encode()
    assert found(f"json:{path}", value=text) == expected
    assert found(f"key.json:{path}", key=text) == expected


def test_a_value_that_is_no_json_has_no_key() -> None:
    assert found("json:$.id", value=b"{broken") is None
    assert found("json:$.id", value=b"\xff") is None
    assert found("json:$.id", value=None) is None


@given(st.tuples(st.binary(), st.binary()), st.tuples(st.binary(), st.binary()))
def test_joined_keys_are_equal_only_where_all_parts_are(
    one: tuple[bytes, bytes], other: tuple[bytes, bytes]
) -> None:
    first = found("key + value", key=one[0], value=one[1])
    second = found("key + value", key=other[0], value=other[1])
    assert (first == second) == (one == other)


def test_a_joined_key_needs_all_its_parts() -> None:
    assert found("key + value", key=None) is None


def test_a_function_may_tell_the_key() -> None:
    def second_half(record: AuditRecord) -> bytes | None:
        return (record.value or b"")[2:]

    rows = pa.record_batch(
        {"key": pa.array([None], pa.binary()), "value": pa.array([b"abcd"]), "offset": pa.array([0])}
    )
    assert key_of(second_half).of_batch(HERE, rows) == [b"cd"]


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "values",
        "header:",
        "json:id",
        "json:$.a..b",
        "json:$[x]",
        "json:$.a()",
        "__import__('os')",
        "key +",
    ],
)
def test_what_is_not_understood_is_refused(expression: str) -> None:
    with pytest.raises(BadKeyExpression):
        key_of(expression)
