"""Whatever somebody without rights asks, in any API and version: nothing changes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from oncestream.broker.apis import APIS, Api
from oncestream.broker.call import Call, Hangup
from oncestream.broker.clock import Clock
from oncestream.broker.handlers import create_topics, init_producer_id, offset_commit
from oncestream.broker.node import Node
from oncestream.broker.plain_produce import produce_plain
from oncestream.broker.security.principal import Principal
from oncestream.broker.settings import BrokerSettings, Durability
from oncestream.broker.topic_names import AUDIT_TOPIC
from oncestream.wire.api import ApiKey
from oncestream.wire.codec import encode
from oncestream.wire.header import encode_request_header
from oncestream.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from oncestream.wire.messages.init_producer_id import InitProducerIdRequest
from oncestream.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncestream.wire.produce import read_plain
from tests.broker.kit import batch, produce_request
from tests.broker.random_messages import WORDS, MessageMaker

SEED: Final = 20_261_115
VARIANTS: Final = 12
ADMIN, NOBODY = Principal("User", "admin"), Principal("User", "nobody")
TOPICS: Final = ("fuzz-a", "fuzz-b")
LOGIN: Final = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)


def test_random_requests_of_somebody_without_rights_change_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = _node(tmp_path)
        try:
            _furnish(node)
            before = _state(node)
            await _ask(node, NOBODY)
            assert _state(node) == before, f"seed {SEED}"
            await _ask(node, ADMIN)
            assert _state(node) != before  # they would have changed a lot
        finally:
            await node.close()

    asyncio.run(scenario())


def test_the_short_way_of_produce_writes_nothing_either(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = _node(tmp_path)
        try:
            _furnish(node)
            header = encode_request_header(ApiKey.PRODUCE, 9, 1, "fuzz")
            frame = bytearray(header + encode(produce_request("fuzz-a", batch(b"x")), 9))
            plain = read_plain(memoryview(frame))
            assert plain is not None
            assert produce_plain(plain, node, Call(node, 9, 1, None, "10.0.0.1:1", NOBODY)) is None
            assert node.topics["fuzz-a"].partitions[0].log.end_offset == 0
            assert produce_plain(plain, node, Call(node, 9, 1, None, "10.0.0.1:1", ADMIN)) is not None
            assert node.topics["fuzz-a"].partitions[0].log.end_offset == 1
        finally:
            await node.close()

    asyncio.run(scenario())


async def _ask(node: Node, who: Principal) -> None:
    maker = MessageMaker(random.Random(SEED), TOPICS, [topic.id for topic in node.topics.values()])
    count = 0
    for api, version in _served():
        for _ in range(VARIANTS):
            request = maker.request(api.request, version)
            with suppress(Hangup):  # acks=0
                api.handler(request, Call(node, version, 1, "fuzz", "10.0.0.1:1", who, api.name))
            count += 1
    await asyncio.sleep(0)
    assert count > 1_000


def _node(folder: Path) -> Node:
    settings = BrokerSettings(data=folder, authorization=True, super_users="admin", durability=Durability.OS)
    return Node(settings, asyncio.get_running_loop(), Clock())


def _furnish(node: Node) -> None:
    """Topics, groups and transactional ids of the names that random requests use."""
    admin = Call(node, 7, 1, "admin", "10.0.0.1:1", ADMIN)
    wanted = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in TOPICS]
    create_topics.handle(CreateTopicsRequest(topics=wanted), admin)
    for word in filter(None, WORDS):
        place = OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata="")
        topic = OffsetCommitRequestTopic(name=TOPICS[0], partitions=[place])
        offset_commit.handle(OffsetCommitRequest(group_id=word, topics=[topic]), admin)
        init = InitProducerIdRequest(transactional_id=word, transaction_timeout_ms=1_000)
        init_producer_id.handle(init, admin)


def _served() -> Iterator[tuple[Api, int]]:
    for api in APIS.values():
        if api.key not in LOGIN:
            for version in api.request.__versions__:
                if api.version_min <= version <= api.version_max:
                    yield api, version


def _state(node: Node) -> object:
    catalog = node.catalog
    return (
        {name: entry for name, entry in catalog.topics.items() if name != AUDIT_TOPIC},
        frozenset(catalog.acls),
        dict(catalog.quotas),
        dict(catalog.users),
        dict(catalog.features),
        catalog.next_producer_id,
        {
            (partition.topic, partition.index): (partition.log.start_offset, partition.log.end_offset)
            for topic in node.topics.values()
            if topic.name != AUDIT_TOPIC
            for partition in topic.partitions
        },
        node.groups.group_ids(),
        sorted((txn.id, txn.state, txn.epoch) for txn in node.transactions.states),
    )
