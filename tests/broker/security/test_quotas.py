"""Quotas: whose they are, which one holds, how much is too much, and what a client over its quota notices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncestream.broker.security.quota_values import (
    CONSUMED,
    DEFAULT,
    PRODUCED,
    Entity,
    Limit,
    Name,
    check_limit,
    limit_for,
)
from oncestream.broker.security.quotas import TRACKED_MAX, Quotas
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from oncestream.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from oncestream.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from oncestream.wire.messages.fetch import FetchResponse
from oncestream.wire.messages.produce import ProduceResponse
from tests.broker.conftest import Connect, StartBroker
from tests.broker.kit import (
    CLIENT_ID,
    FETCH_VERSION,
    PRODUCE_VERSION,
    Wire,
    batch,
    create_topic,
    fetch_request,
    is_readable,
    new_name,
    produce_request,
    values_of,
    wait_until,
)

ALICE, APP = Name("alice"), Name("app")
BY_PRECEDENCE: Final = (
    Entity(ALICE, APP),
    Entity(ALICE, DEFAULT),
    Entity(ALICE, None),
    Entity(DEFAULT, APP),
    Entity(DEFAULT, DEFAULT),
    Entity(DEFAULT, None),
    Entity(None, APP),
    Entity(None, DEFAULT),
)
EXACT, IS_DEFAULT, ANY = range(3)


@dataclass
class Table:
    """Where quotas are found."""

    quotas: dict[Entity, dict[str, float]] = field(default_factory=dict)
    quotas_version: int = 0


def one_quota(rate: float, entity: Entity = BY_PRECEDENCE[2]) -> Quotas:
    return Quotas(Table({entity: {PRODUCED: rate}}))


@pytest.mark.parametrize("place", range(len(BY_PRECEDENCE)))
def test_the_most_specific_quota_holds(place: int) -> None:
    quotas = {entity: {PRODUCED: float(i + 1)} for i, entity in enumerate(BY_PRECEDENCE) if i >= place}
    entity = BY_PRECEDENCE[place]
    counted_for = ("alice" if entity.user else None, "app" if entity.client_id else None)
    assert limit_for(quotas, PRODUCED, "alice", "app") == Limit(place + 1.0, counted_for)
    assert limit_for(quotas, CONSUMED, "alice", "app") is None


def test_a_client_below_its_quota_is_not_throttled_and_one_above_it_is() -> None:
    below, above = one_quota(100), one_quota(100)
    times = [quarter / 4 for quarter in range(200)]
    assert [below.charge(PRODUCED, "alice", "x", 22, now) for now in times] == [0] * len(times)
    throttled = [above.charge(PRODUCED, "alice", "x", 30, now) for now in times]
    assert throttled[:30] == [0] * 30  # the window is not full yet
    assert all(ms > 0 for ms in throttled[44:])


def test_the_throttle_time_brings_the_rate_back_to_the_quota() -> None:
    assert one_quota(100).charge(PRODUCED, "alice", "x", 1_500, 0.0) == 5_000
    quotas = one_quota(100)
    assert quotas.charge(PRODUCED, "alice", "x", 1_500, 0.5) == 4_500
    assert quotas.charge(PRODUCED, "alice", "x", 1, 11.0) == 0  # the burst has left the window


def test_bytes_count_for_the_user_for_the_client_id_or_for_both_as_the_quota_says() -> None:
    by_user = one_quota(100)
    assert by_user.charge(PRODUCED, "alice", "x", 1_000, 0.0) == 0
    assert by_user.charge(PRODUCED, "alice", "y", 500, 0.0) == 5_000
    assert by_user.charge(PRODUCED, "bob", "x", 9_000, 0.0) == 0
    each = one_quota(100, Entity(DEFAULT, None))
    assert each.charge(PRODUCED, "alice", "x", 1_000, 0.0) == 0
    assert each.charge(PRODUCED, "bob", "x", 1_000, 0.0) == 0


def test_a_changed_quota_counts_at_once() -> None:
    table = Table({BY_PRECEDENCE[2]: {PRODUCED: 100.0}})
    quotas = Quotas(table)
    assert quotas.charge(PRODUCED, "alice", "x", 2_000, 0.0) > 0
    table.quotas[BY_PRECEDENCE[2]] = {PRODUCED: 1e9}
    table.quotas_version += 1
    assert quotas.charge(PRODUCED, "alice", "x", 2_000, 0.0) == 0


def test_the_number_of_clients_remembered_is_bounded() -> None:
    quotas = one_quota(100, Entity(None, DEFAULT))
    for number in range(TRACKED_MAX + 100):
        quotas.charge(PRODUCED, "alice", f"client-{number}", 1, 0.0)
    assert len(quotas._windows) == TRACKED_MAX
    assert len(quotas._limits) <= TRACKED_MAX


@given(st.tuples(*[st.none() | st.builds(Name, st.none() | st.text())] * 2))
def test_an_entity_is_read_from_the_catalogue_as_it_was_written(
    names: tuple[Name | None, Name | None],
) -> None:
    assert Entity.parse(Entity(*names).text) == Entity(*names)


@pytest.mark.parametrize(
    "key_and_value",
    [
        (PRODUCED, 0.0),
        (PRODUCED, -1.0),
        (PRODUCED, 1.5),
        (PRODUCED, float("nan")),
        (PRODUCED, float("inf")),
        ("controller_mutation_rate", 1.0),
    ],
)
def test_a_limit_that_cannot_be_is_refused(key_and_value: tuple[str, float]) -> None:
    with pytest.raises(KafkaError) as refused:
        check_limit(*key_and_value)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


# -- on the wire, with Apache Kafka as the oracle --------------------------------------------------


def alter(wire: Wire, entity: dict[str, str | None], validate_only: bool = False, **ops: Any) -> int:
    """`ops` is the value of each key; None removes it."""
    entry = RequestEntryData(
        entity=[RequestEntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops.items()],
    )
    request = AlterClientQuotasRequest(entries=[entry], validate_only=validate_only)
    return wire.ask(request, 1, AlterClientQuotasResponse).entries[0].error_code


def describe(
    wire: Wire, *components: tuple[str, int, str | None], strict: bool = False
) -> list[tuple[dict[str, str | None], dict[str, float]]] | int:
    """Entities with their quotas; or the error code."""
    request = DescribeClientQuotasRequest(
        components=[ComponentData(entity_type=k, match_type=m, match=n) for k, m, n in components],
        strict=strict,
    )
    answer = wire.ask(request, 1, DescribeClientQuotasResponse)
    if answer.error_code:
        return answer.error_code
    return [
        (
            {part.entity_type: part.entity_name for part in entry.entity},
            {v.key: v.value for v in entry.values},
        )
        for entry in answer.entries or []
    ]


def test_quotas_are_set_found_and_removed(wire: Wire) -> None:
    user, client_id = new_name(), new_name()
    both: dict[str, str | None] = {"user": user, "client-id": client_id}
    assert alter(wire, {"user": user}, producer_byte_rate=1e9, consumer_byte_rate=2e9) == 0
    assert alter(wire, both, request_percentage=200.0) == 0
    assert alter(wire, both, validate_only=True, request_percentage=300.0) == 0
    mine = ("user", EXACT, user)

    def settled() -> bool:
        found = describe(wire, mine)
        return isinstance(found, list) and len(found) == 2

    wait_until(settled)
    assert describe(wire, mine, strict=True) == [
        ({"user": user}, {"producer_byte_rate": 1e9, "consumer_byte_rate": 2e9})
    ]
    assert describe(wire, ("client-id", EXACT, client_id)) == [(both, {"request_percentage": 200.0})]
    assert alter(wire, both, request_percentage=None) == 0
    assert alter(wire, {"user": user}, producer_byte_rate=None, consumer_byte_rate=None) == 0
    wait_until(lambda: describe(wire, mine) == [])


@pytest.mark.parametrize(
    ("entity", "ops"),
    [
        ({}, {"producer_byte_rate": 1.0}),
        ({"planet": "earth"}, {"producer_byte_rate": 1.0}),
        ({"user": "u"}, {"producer_byte_rate": -1.0}),
        ({"user": "u"}, {"producer_byte_rate": 1.5}),
        ({"user": "u"}, {"no_such_rate": 1.0}),
        ({"ip": "127.0.0.1", "user": "u"}, {"producer_byte_rate": 1.0}),
    ],
)
def test_a_wrong_quota_is_refused(wire: Wire, entity: dict[str, str | None], ops: dict[str, Any]) -> None:
    assert alter(wire, entity, **ops) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", IS_DEFAULT, "u")], ErrorCode.INVALID_REQUEST),
        ([("user", 9, None)], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, None), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("ip", ANY, None), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("planet", ANY, None)], ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_wrong_filter_is_refused(
    wire: Wire, components: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    assert describe(wire, *components) == code


# -- enforced --------------------------------------------------------------------------------------


def throttled_produce(wire: Wire, topic: str, size: int) -> int:
    request = produce_request(topic, batch(b"x" * size))
    answer = wire.ask(request, PRODUCE_VERSION, ProduceResponse)
    assert answer.responses[0].partition_responses[0].error_code == 0
    return answer.throttle_time_ms


def test_a_producer_over_its_quota_is_answered_told_and_then_not_read_from(
    start_broker: StartBroker, connect: Connect
) -> None:
    address = start_broker().bootstrap_servers
    wire, other = connect(address), connect(address)
    topic = create_topic(wire).name or ""
    assert throttled_produce(wire, topic, 10_000) == 0
    assert alter(wire, {"client-id": CLIENT_ID}, producer_byte_rate=10.0) == 0
    assert throttled_produce(wire, topic, 10_000) > 0
    wire.send(ApiVersionsRequest(), 0)
    for _ in range(20):
        other.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
    assert not is_readable(wire.sock, 0.05)


def test_a_throttled_client_goes_on_when_its_time_is_over(
    start_broker: StartBroker, connect: Connect
) -> None:
    address = start_broker().bootstrap_servers
    wire = connect(address)
    topic = create_topic(wire).name or ""
    assert alter(wire, {"user": "ANONYMOUS"}, producer_byte_rate=1_000.0) == 0
    told = throttled_produce(wire, topic, 11_500)  # a window holds 10,000 to 11,000
    assert 0 < told < 5_000
    assert wire.ask(ApiVersionsRequest(), 0, ApiVersionsResponse).error_code == 0
    assert alter(wire, {"user": "ANONYMOUS"}, producer_byte_rate=None) == 0
    assert throttled_produce(wire, topic, 11_500) == 0


def test_a_consumer_over_its_quota_gets_its_records_and_is_told(
    start_broker: StartBroker, connect: Connect
) -> None:
    address = start_broker().bootstrap_servers
    wire, producer = connect(address), connect(address)
    topic = create_topic(wire).name or ""
    for _ in range(4):
        assert throttled_produce(producer, topic, 10_000) == 0
    assert alter(wire, {"user": None}, consumer_byte_rate=1_000.0) == 0
    first = wire.ask(fetch_request(topic), FETCH_VERSION, FetchResponse)
    # No more than a window's worth, but never less than one batch.
    assert len(values_of(first.responses[0].partitions[0].records)) == 1
    assert throttled_produce(producer, topic, 10_000) == 0
    again = connect(address)
    second = again.ask(fetch_request(topic), FETCH_VERSION, FetchResponse)
    assert second.throttle_time_ms > 0
    assert len(values_of(second.responses[0].partitions[0].records)) == 1
