"""Configurations of groups, on the embedded broker and on Apache Kafka alike; what they do is for the embedded one."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncestream import Broker
from oncestream.broker.catalog import Catalog, set_group_configs
from oncestream.broker.clock import REAL_CLOCK
from oncestream.broker.groups.group_configs import GROUPS_MAX
from oncestream.storage.folder import DataFolder
from oncestream.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from oncestream.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from oncestream.wire.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from tests.broker import config_kit
from tests.broker.config_kit import APPEND, DELETE, SET
from tests.broker.kit import Wire, create_topic, error_name
from tests.client.kit import new_name, wait_until

GROUP = 32
DEFAULT_CONFIG, GROUP_CONFIG = 5, 8
SESSION, INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def change(wire: Wire, group: str, *changes: config_kit.Change, only_check: bool = False) -> str:
    error, message = config_kit.change(wire, GROUP, group, *changes, only_check=only_check)
    assert bool(message) == (error != "NONE")
    return error


def described(wire: Wire, group: str) -> dict[str, tuple[str | None, int]]:
    answer = config_kit.described(wire, GROUP, group, SESSION, INTERVAL)
    assert error_name(answer.error_code) == "NONE"
    return {entry.name: (entry.value, entry.config_source) for entry in answer.configs}


def groups_with_configs(wire: Wire) -> set[str]:
    request = ListConfigResourcesRequest(resource_types=[GROUP])
    found = wire.ask(request, 1, ListConfigResourcesResponse).config_resources
    assert {each.resource_type for each in found} <= {GROUP}
    return {each.resource_name for each in found}


def test_a_configuration_is_set_listed_and_taken_away(wire: Wire) -> None:
    group = new_name("group")
    defaults = {SESSION: ("45000", DEFAULT_CONFIG), INTERVAL: ("5000", DEFAULT_CONFIG)}
    assert described(wire, group) == defaults
    assert change(wire, group, (SESSION, SET, "50000")) == "NONE"
    wait_until(lambda: described(wire, group) == {**defaults, SESSION: ("50000", GROUP_CONFIG)})
    assert group in groups_with_configs(wire)
    assert change(wire, group, (SESSION, DELETE, None)) == "NONE"
    wait_until(lambda: described(wire, group) == defaults)


def test_all_configurations_are_replaced(wire: Wire) -> None:
    group = new_name("group")
    assert change(wire, group, (SESSION, SET, "50000")) == "NONE"
    assert config_kit.replace_all(wire, GROUP, group, (INTERVAL, "6000")) == ("NONE", None)
    after = {SESSION: ("45000", DEFAULT_CONFIG), INTERVAL: ("6000", GROUP_CONFIG)}
    wait_until(lambda: described(wire, group) == after)


def test_to_be_checked_is_not_to_be_set(wire: Wire) -> None:
    group = new_name("group")
    assert change(wire, group, (SESSION, SET, "50000"), only_check=True) == "NONE"
    assert group not in groups_with_configs(wire)


@pytest.mark.parametrize(
    ("name", "how", "value", "error"),
    [
        (SESSION, SET, "44999", "INVALID_CONFIG"),
        (SESSION, SET, "60001", "INVALID_CONFIG"),
        (INTERVAL, SET, "4999", "INVALID_CONFIG"),
        (INTERVAL, SET, "15001", "INVALID_CONFIG"),
        (SESSION, SET, "long", "INVALID_CONFIG"),
        (SESSION, SET, "5" * 5_000, "INVALID_CONFIG"),
        (SESSION, SET, None, "INVALID_REQUEST"),
        (SESSION, APPEND, "50000", "INVALID_CONFIG"),
        ("consumer.no.such.config", SET, "1", "INVALID_CONFIG"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_wrong_is_refused(wire: Wire, name: str, how: int, value: str | None, error: str) -> None:
    group = new_name("group")
    assert change(wire, group, (name, how, value)) == error
    assert group not in groups_with_configs(wire)


def test_a_group_needs_a_name(wire: Wire) -> None:
    assert change(wire, "", (SESSION, SET, "50000")) == "INVALID_REQUEST"


def test_not_any_number_of_groups_has_configurations(tmp_path: Path) -> None:
    groups = [f"group-{number}" for number in range(GROUPS_MAX - 2)]
    folder = DataFolder.open(tmp_path, clock_ms=REAL_CLOCK.now_ms)
    Catalog.open(folder).commit(set_group_configs(group, {SESSION: "50000"}) for group in groups)
    folder.close()
    with Broker(tmp_path) as broker, Wire(broker.bootstrap_servers) as wire:
        told = [change(wire, group, (SESSION, SET, "50000")) for group in ("one", "two", "three")]
        assert told == ["NONE", "NONE", "INVALID_REQUEST"]
        assert change(wire, "two", (SESSION, SET, "51000")) == "NONE"
        assert change(wire, "one", (SESSION, DELETE, None)) == "NONE"
        assert change(wire, "three", (SESSION, SET, "50000")) == "NONE"
        assert groups_with_configs(wire) == {*groups, "two", "three"}


def beat(wire: Wire, group: str, topic: str) -> int:
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=new_name("member"),
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[topic],
        topic_partitions=[],
    )
    answers: list[ConsumerGroupHeartbeatResponse] = []

    def is_taken() -> bool:  # Apache Kafka makes the topic of groups first
        wire.ask(FindCoordinatorRequest(coordinator_keys=[group]), 4, FindCoordinatorResponse)
        answers.append(wire.ask(request, 1, ConsumerGroupHeartbeatResponse))
        return answers[-1].error_code == 0

    wait_until(is_taken)
    return answers[-1].heartbeat_interval_ms


def test_members_are_told_the_interval_of_their_group(wire: Wire) -> None:
    topic = create_topic(wire).name or ""
    group, other = new_name("group"), new_name("group")
    assert change(wire, group, (INTERVAL, SET, "7000")) == "NONE"
    wait_until(lambda: described(wire, group)[INTERVAL] == ("7000", GROUP_CONFIG))
    assert beat(wire, group, topic) == 7000
    assert beat(wire, other, topic) == 5000


def test_configurations_of_groups_outlive_the_broker(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker, Wire(broker.bootstrap_servers) as wire:
        assert change(wire, "group:with:colons", (SESSION, SET, "50000")) == "NONE"
    with Broker(tmp_path) as broker, Wire(broker.bootstrap_servers) as wire:
        assert described(wire, "group:with:colons")[SESSION] == ("50000", GROUP_CONFIG)
        assert groups_with_configs(wire) == {"group:with:colons"}
