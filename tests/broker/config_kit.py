"""Parts that tests of configurations share: changes as plain tuples, what DescribeConfigs tells."""

from __future__ import annotations

from typing import Final

from oncestream.wire.messages.alter_configs import AlterableConfig as WholeConfig
from oncestream.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from oncestream.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from oncestream.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from oncestream.wire.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalResource,
)
from tests.broker.kit import Wire, error_name

TOPIC, BROKER, LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = range(4)
NODE: Final = "1"  # the id of a single node
CLUSTER: Final = ""

Change = tuple[str, int, str | None]
Outcome = tuple[str, str | None]  # the error's name, and its message


def change(wire: Wire, kind: int, name: str, *changes: Change, only_check: bool = False) -> Outcome:
    configs = [AlterableConfig(name=key, config_operation=how, value=value) for key, how, value in changes]
    resource = IncrementalResource(resource_type=kind, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=only_check)
    told = wire.ask(request, 1, IncrementalAlterConfigsResponse).responses[0]
    return error_name(told.error_code), told.error_message


def replace_all(wire: Wire, kind: int, name: str, *configs: tuple[str, str | None]) -> Outcome:
    given = [WholeConfig(name=key, value=value) for key, value in configs]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=given)
    request = AlterConfigsRequest(resources=[resource])
    told = wire.ask(request, 2, AlterConfigsResponse).responses[0]
    return error_name(told.error_code), told.error_message


def described(wire: Wire, kind: int, name: str, *keys: str, version: int = 4) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    return wire.ask(request, version, DescribeConfigsResponse).results[0]


def config(wire: Wire, kind: int, name: str, key: str) -> DescribeConfigsResourceResult:
    (entry,) = described(wire, kind, name, key).configs
    return entry


def chain(entry: DescribeConfigsResourceResult) -> list[tuple[str, str | None, int]]:
    """Where its values come from, the one that holds first."""
    return [(each.name, each.value, each.source) for each in entry.synonyms]
