"""Configurations of topics: reading and changing them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from oncestream.client.cluster import Cluster
from oncestream.client.failures import raise_if_error
from oncestream.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from oncestream.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

_TOPIC: Final = 2
_SET: Final = 0
_DELETE: Final = 1


class ConfigSource(IntEnum):
    """Where a value comes from."""

    UNKNOWN = 0
    TOPIC = 1
    BROKER_DYNAMIC = 2
    CLUSTER_DYNAMIC = 3
    BROKER_STATIC = 4
    DEFAULT = 5


class ConfigEntry(NamedTuple):
    """`default`: the topic itself does not set it. The value of a sensitive one is not told (None)."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    default: bool


def describe_configs(cluster: Cluster, topics: Iterable[str]) -> dict[str, list[ConfigEntry]]:
    """All configurations of each topic, sorted by name."""
    resources = [
        DescribeConfigsResource(resource_type=_TOPIC, resource_name=name, configuration_keys=None)
        for name in topics
    ]
    if not resources:
        return {}

    def check(told: DescribeConfigsResponse) -> None:
        for each in told.results:
            raise_if_error(each.error_code, each.resource_name, each.error_message)

    told = cluster.ask_controller(DescribeConfigsRequest(resources=resources), DescribeConfigsResponse, check)
    return {
        topic.resource_name: sorted(
            ConfigEntry(
                entry.name,
                entry.value,
                ConfigSource(entry.config_source),
                entry.read_only,
                entry.is_sensitive,
                entry.config_source != ConfigSource.TOPIC,
            )
            for entry in topic.configs
        )
        for topic in told.results
    }


def alter_topic_configs(
    cluster: Cluster, changes: Mapping[str, Mapping[str, str | None]], *, validate_only: bool = False
) -> None:
    """Sets configurations by topic and name; None takes the topic's own value away. The others stay.

    Brokers of an Apache Kafka cluster show the change a moment later.
    """
    resources = [
        AlterConfigsResource(
            resource_type=_TOPIC,
            resource_name=topic,
            configs=[
                AlterableConfig(name=name, config_operation=_DELETE if value is None else _SET, value=value)
                for name, value in configs.items()
            ],
        )
        for topic, configs in changes.items()
        if configs
    ]
    if not resources:
        return

    def check(told: IncrementalAlterConfigsResponse) -> None:
        for each in told.responses:
            raise_if_error(each.error_code, each.resource_name, each.error_message)

    request = IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)
    cluster.ask_controller(request, IncrementalAlterConfigsResponse, check)
