"""Apache Kafka 4.3 as the oracle, for messages that no Python client knows.

kafka_bytes.jsonl holds random messages as Kafka's own generated classes wrote them: the fields that differ
from their defaults (bytes and uuids in hex), and the bytes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from oncestream.wire.codec import decode, encode
from oncestream.wire.schema import Field, Message, Struct, StructType, struct_classes
from tests.wire.messages import ALL_CASES, EMBEDDED_CASES


class Sample(NamedTuple):
    message: Message
    version: int
    written_by_kafka: bytes


def samples() -> list[Sample]:
    classes = {case.cls.__name__: case.cls for case in ALL_CASES}
    rows = map(json.loads, Path(__file__).with_name("kafka_bytes.jsonl").read_text().splitlines())
    return [
        Sample(build(classes[row["message"]], row["fields"]), row["version"], bytes.fromhex(row["bytes"]))
        for row in rows
    ]


def build(cls: StructType, fields: dict[str, Any]) -> Any:
    inner = struct_classes(cls)
    return cls(
        **{name: value_of(value, cls.__fields__[name], inner.get(name)) for name, value in fields.items()}
    )


def value_of(value: Any, field: Field, inner: type[Struct] | None) -> Any:
    if isinstance(value, list):
        return [value_of(each, field, inner) for each in value]
    if value is not None and inner is not None:
        return build(inner, value)
    if value is not None and field.kind.name in ("uuid", "binary"):
        return bytes.fromhex(value)
    return value


SAMPLES = samples()


@pytest.mark.parametrize("name", sorted({type(sample.message).__name__ for sample in SAMPLES}))
def test_bytes_are_those_of_kafka(name: str) -> None:
    for sample in [sample for sample in SAMPLES if type(sample.message).__name__ == name]:
        assert encode(sample.message, sample.version) == sample.written_by_kafka, sample.version
        assert decode(type(sample.message), sample.written_by_kafka, sample.version) == sample.message


def test_every_embedded_message_and_version_has_samples() -> None:
    sampled = {(type(sample.message), sample.version) for sample in SAMPLES}
    assert {tuple(case) for case in EMBEDDED_CASES} <= sampled
