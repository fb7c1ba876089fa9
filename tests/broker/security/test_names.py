"""Hostile names: path tricks, control characters, unicode, too long, reserved. No file is made for them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncestream import Broker
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from oncestream.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)
from oncestream.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from oncestream.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from oncestream.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from oncestream.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from oncestream.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tests.broker.kit import Wire, create_topic, metadata

HOSTILE: Final = (
    "",
    " ",
    ".",
    "..",
    "../x",
    "../../etc/passwd",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "..\\x",
    "a\0b",
    "a\nb",
    "a\tb",
    "a%2fb",
    "~",
    "$(id)",
    "a:b",
    "a*",
    "*",
    "ünïcode",
    "\N{RIGHT-TO-LEFT OVERRIDE}gnp",
    "a\N{COMBINING ACUTE ACCENT}",
    "\N{FULLWIDTH FULL STOP}\N{FULLWIDTH FULL STOP}",
    "\N{PARTY POPPER}",
    "x" * 250,
    "x" * 10_000,
)
RESERVED: Final = ("__consumer_offsets", "__transaction_state", "__cluster_metadata", "__oncestream_audit")
LEGAL_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
FOLDER_OF_A_PARTITION: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}-\d+")
ANYTHING: Final = (
    st.text(max_size=300) | st.sampled_from(HOSTILE + RESERVED) | st.from_regex(LEGAL_TOPIC, fullmatch=True)
)


class World(NamedTuple):
    """A broker with everything switched on, whose data lie in a folder inside of `outside`."""

    outside: Path
    wire: Wire


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    outside = tmp_path_factory.mktemp("outside")
    with _start(outside) as broker, Wire(broker.bootstrap_servers) as wire:
        create_topic(wire, "good")
        yield World(outside, wire)
    with _start(outside) as broker, Wire(broker.bootstrap_servers) as wire:  # all of it is read again
        assert metadata(wire, ["good"])[0].error_code == 0
    _check_files(outside)


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_a_topic_of_a_hostile_name_is_refused_with_a_clear_error(world: World, name: str) -> None:
    made = _create_topic(world.wire, name)
    assert made.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "Topic name is invalid" in (made.error_message or "")
    assert metadata(world.wire, [name], create=True)[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    _check_files(world.outside)


@pytest.mark.parametrize("name", RESERVED)
def test_a_topic_of_a_reserved_name_is_refused_with_a_clear_error(world: World, name: str) -> None:
    made = _create_topic(world.wire, name)
    assert made.error_code == ErrorCode.INVALID_REQUEST
    assert "internal topic" in (made.error_message or "")
    deleted = _delete_topic(world.wire, name)
    assert deleted in (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=ANYTHING)
def test_whatever_the_name_no_file_is_made_outside_and_no_connection_lost(world: World, name: str) -> None:
    wire = world.wire
    made = _create_topic(wire, name).error_code
    legal = LEGAL_TOPIC.fullmatch(name) and name not in (".", "..", *RESERVED)
    assert (made in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)) == bool(legal)
    if made == ErrorCode.NONE:
        assert _delete_topic(wire, name) == 0
    _commit_offset(wire, name)
    begin = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1_000)
    assert wire.ask(begin, 4, InitProducerIdResponse).error_code in (0, ErrorCode.INVALID_REQUEST)
    assert _create_acl(wire, name) in (0, ErrorCode.INVALID_REQUEST)
    assert _set_quota(wire, name) in (0, ErrorCode.INVALID_REQUEST)
    assert _set_password(wire, name) in (0, ErrorCode.UNACCEPTABLE_CREDENTIAL)
    _check_files(world.outside)


def _start(outside: Path) -> Broker:
    return Broker(outside / "data", authorization=True, super_users="ANONYMOUS", durability="os")


def _check_files(outside: Path) -> None:
    """Nothing beside the data folder, nothing below it but partitions and the broker's own few files."""
    assert [found.name for found in outside.iterdir()] == ["data"]
    for found in (outside / "data").iterdir():
        if found.is_dir():
            assert FOLDER_OF_A_PARTITION.fullmatch(found.name) or found.name.endswith("-delete"), found
            assert all(inner.is_file() for inner in found.iterdir())


def _create_topic(wire: Wire, name: str) -> CreatableTopicResult:
    wanted = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return wire.ask(CreateTopicsRequest(topics=[wanted]), 7, CreateTopicsResponse).topics[0]


def _delete_topic(wire: Wire, name: str) -> int:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=15_000)
    return wire.ask(request, 6, DeleteTopicsResponse).responses[0].error_code


def _commit_offset(wire: Wire, group: str) -> None:
    place = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    topic = OffsetCommitRequestTopic(name="good", partitions=[place])
    request = OffsetCommitRequest(group_id=group, topics=[topic])
    answer = wire.ask(request, 8, OffsetCommitResponse).topics[0].partitions[0]
    assert answer.error_code in (0, ErrorCode.INVALID_GROUP_ID)


def _create_acl(wire: Wire, name: str) -> int:
    creation = AclCreation(
        resource_type=2,
        resource_name=name,
        principal=f"User:{name}",
        host=name,
        operation=3,
        permission_type=3,
    )
    return wire.ask(CreateAclsRequest(creations=[creation]), 3, CreateAclsResponse).results[0].error_code


def _set_quota(wire: Wire, name: str) -> int:
    entry = RequestEntryData(
        entity=[RequestEntityData(entity_type=kind, entity_name=name) for kind in ("user", "client-id")],
        ops=[OpData(key="producer_byte_rate", value=1e12)],
    )
    request = AlterClientQuotasRequest(entries=[entry])
    return wire.ask(request, 1, AlterClientQuotasResponse).entries[0].error_code


def _set_password(wire: Wire, name: str) -> int:
    user = ScramCredentialUpsertion(
        name=name, mechanism=2, iterations=4096, salt=b"salt", salted_password=b"p" * 64
    )
    request = AlterUserScramCredentialsRequest(upsertions=[user])
    return wire.ask(request, 0, AlterUserScramCredentialsResponse).results[0].error_code
