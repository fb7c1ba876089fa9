"""Message classes: construction, defaults, equality, versions."""

from __future__ import annotations

import subprocess
import sys
from typing import get_type_hints

import pytest

from oncestream.wire.api import FIRST_FLEXIBLE_VERSION, NEVER, ApiKey, is_flexible
from oncestream.wire.codec import decode, encode
from oncestream.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from oncestream.wire.messages.produce import LeaderIdAndEpoch, PartitionProduceResponse
from oncestream.wire.schema import Buffer, Struct, StructType, struct_classes, version_range
from tests.wire.messages import ALL_CASES, API_CASES, Case, by_class

PYTHON_TYPES = {
    "boolean": bool,
    "float64": float,
    "uuid": bytes,
    "string": str,
    "binary": bytes,
    "record_data": Buffer,
}


def test_every_field_has_its_default() -> None:
    assert MetadataRequest() == MetadataRequest(
        topics=[],
        allow_auto_topic_creation=True,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    assert PartitionProduceResponse().current_leader == LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)


def test_mutable_defaults_are_not_shared() -> None:
    MetadataRequest().topics.append(MetadataRequestTopic())  # type: ignore[union-attr]
    assert MetadataRequest().topics == []


def test_a_misspelt_field_is_refused() -> None:
    with pytest.raises(TypeError, match="topicz"):
        MetadataRequest(topicz=[])  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        MetadataRequest().topicz = []  # type: ignore[attr-defined]


def test_messages_of_different_classes_or_values_differ() -> None:
    assert MetadataRequest() != MetadataResponse()
    assert MetadataRequest() != MetadataRequest(topics=None)
    assert "topics=None" in repr(MetadataRequest(topics=None))


def test_fields_that_a_version_lacks_are_dropped() -> None:
    request = MetadataRequest(include_topic_authorized_operations=True)
    assert encode(request, 4) == encode(MetadataRequest(), 4)
    assert decode(MetadataRequest, encode(request, 4), 4) == MetadataRequest()


def test_a_version_that_does_not_exist_is_not_written() -> None:
    with pytest.raises(ValueError, match="no version 14"):
        encode(MetadataRequest(), 14)


@pytest.mark.parametrize("cases", by_class(ALL_CASES))
def test_a_default_message_survives_the_round_trip_in_every_version(cases: list[Case]) -> None:
    for cls, version in cases:
        assert decode(cls, encode(cls(), version), version) == cls(), version


def test_headers_and_bodies_agree_on_flexible_versions() -> None:
    assert [
        case for case in API_CASES if is_flexible(case.cls.__api_key__, case.version) != case.flexible
    ] == []


def test_flexible_table_names_only_what_is_not_flexible_from_the_start() -> None:
    assert set(FIRST_FLEXIBLE_VERSION) <= set(ApiKey)
    assert all(0 < first <= NEVER for first in FIRST_FLEXIBLE_VERSION.values())


def test_annotations_say_what_the_wire_carries() -> None:
    for cls in dict.fromkeys(case.cls for case in ALL_CASES):
        check_annotations(cls)


def check_annotations(cls: StructType) -> None:
    hints = get_type_hints(cls)
    inner = struct_classes(cls)
    for name, field in cls.__fields__.items():
        expected: object = inner.get(name) or PYTHON_TYPES.get(field.kind.name, int)
        if field.is_array:
            expected = list[expected]  # type: ignore[valid-type]
        if field.nullable != "none" or field.default is None:
            expected = expected | None  # type: ignore[operator]
        assert hints[name] == expected, f"{cls.__name__}.{name}"
        if name in inner:
            check_annotations(inner[name])


def test_version_ranges() -> None:
    assert list(version_range("3")) == [3]
    assert list(version_range("1-3")) == [1, 2, 3]
    assert 9 in version_range("9+")
    assert 8 not in version_range("9+")
    assert not version_range("none")


def test_importing_one_message_imports_no_other() -> None:
    program = (
        "import sys, oncestream.wire.messages.metadata\n"
        "print([m for m in sys.modules if m.startswith('oncestream.wire.messages.')])\n"
        "print([m for m in ('numpy', 'pydantic', 'asyncio', 'dataclasses', 'inspect') if m in sys.modules])"
    )
    seen = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert seen.splitlines() == ["['oncestream.wire.messages.metadata']", "[]"]


def test_structs_have_no_instance_dict() -> None:
    assert not any(hasattr(case.cls(), "__dict__") for case in ALL_CASES)
    assert not hasattr(Struct(), "__dict__")
