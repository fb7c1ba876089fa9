"""kafka-python as the oracle: its codec, over its own copy of the schemas, must give the same bytes."""

from __future__ import annotations

import functools
import io
import uuid
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.protocol.schemas import StructField, load_json

from oncestream.wire.codec import decode, encode
from oncestream.wire.schema import NO_UUID, Message, Struct, struct_classes, version_range
from tests.effort import effort
from tests.wire.messages import API_CASES, Case, by_class, message_of

# APIs that kafka-python 3.0 has no schema for; tests/wire/test_kafka_agrees.py holds them against Kafka.
WITHOUT_SCHEMA = {
    "ConsumerGroupDescribeRequest",
    "ConsumerGroupDescribeResponse",
    "ConsumerGroupHeartbeatRequest",
    "ConsumerGroupHeartbeatResponse",
}
CASES = [case for case in API_CASES if case.cls.__name__ not in WITHOUT_SCHEMA]
pytestmark = pytest.mark.filterwarnings("ignore:.*_text is deprecated:DeprecationWarning")
QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]


@pytest.mark.parametrize("cases", by_class(CASES))
def test_bytes_are_those_of_kafka_python_in_every_version(cases: list[Case]) -> None:
    for case in cases:
        bytes_are_those_of_kafka_python(case)


@settings(max_examples=effort(12, soak=200), suppress_health_check=QUIET)
@given(data=st.data())
def bytes_are_those_of_kafka_python(case: Case, data: st.DataObject) -> None:
    message: Message = data.draw(message_of(case))
    oracle = schema(case.cls.__name__)
    values = plain(message, case.version, oracle)
    expected = oracle.encode(values, version=case.version, compact=case.flexible, tagged=case.flexible)
    assert encode(message, case.version) == expected
    assert decode(case.cls, expected, case.version) == message
    theirs = oracle.decode(
        io.BytesIO(expected), version=case.version, compact=case.flexible, tagged=case.flexible
    )
    assert theirs == values


@functools.cache
def schema(name: str) -> Any:
    return StructField(load_json(name))


def plain(message: Struct, version: int, oracle: Any) -> dict[str, Any]:
    """The message as the nested dicts that kafka-python encodes; tagged fields only where they are set."""
    names = {name.replace("_", ""): name for name in type(message).__fields__}
    inner = struct_classes(type(message))
    values: dict[str, Any] = {}
    for their_name, their_field in oracle.fields.items():
        if not their_field.for_version_q(version):
            continue
        name = names.pop(their_name.replace("_", ""))
        field = type(message).__fields__[name]
        value = getattr(message, name)
        if field.tag is not None and value == getattr(type(message)(), name):
            continue
        values[their_name] = plain_value(value, version, field.kind.name, their_field, name in inner)
    left = [
        name for name in names.values() if version in version_range(type(message).__fields__[name].versions)
    ]
    assert not left, f"{type(message).__name__}: kafka-python does not know {left}"
    return values


def plain_value(value: Any, version: int, kind: str, oracle: Any, is_struct: bool) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return [plain_value(each, version, kind, oracle, is_struct) for each in value]
    if is_struct:
        return plain(value, version, oracle)
    if kind == "uuid":
        return uuid.UUID(bytes=value) if value != NO_UUID else None
    return value
