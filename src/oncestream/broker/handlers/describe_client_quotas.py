"""DescribeClientQuotas (48), versions 0-1: the quotas of users and client ids that a filter matches.

Differs from Apache Kafka: there are no quotas for ip addresses, so none are found.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from oncestream.broker.call import Call
from oncestream.broker.security.quota_values import CLIENT_ID, USER
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

_IP: Final = "ip"


class Match(IntEnum):
    EXACT = 0
    DEFAULT = 1
    ANY = 2


def handle(request: DescribeClientQuotasRequest, call: Call) -> DescribeClientQuotasResponse:
    try:
        call.require(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)
        _check(request.components)
    except KafkaError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
    found = []
    for entity, limits in call.node.catalog.quotas.items():
        parts = entity.parts
        if request.strict and len(parts) != len(request.components):
            continue
        if all(_matches(component, parts) for component in request.components):
            found.append(
                EntryData(
                    entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in parts.items()],
                    values=[ValueData(key=key, value=limit) for key, limit in limits.items()],
                )
            )
    return DescribeClientQuotasResponse(error_message=None, entries=found)


def _matches(wanted: ComponentData, parts: dict[str, str | None]) -> bool:
    if wanted.entity_type not in parts:
        return False
    return wanted.match_type == Match.ANY or parts[wanted.entity_type] == wanted.match


def _check(components: list[ComponentData]) -> None:
    kinds = [component.entity_type for component in components]
    if len(set(kinds)) < len(kinds):
        raise _refused("An entity type cannot appear more than once in the filter.")
    if _IP in kinds and len(kinds) > 1:
        raise _refused("IP filter component should not be used with user or clientId filter component.")
    for component in components:
        if not component.entity_type:
            raise _refused("Invalid empty entity type.")
        if component.entity_type not in (USER, CLIENT_ID, _IP):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {component.entity_type}"
            )
        if component.match_type not in tuple(Match):
            raise _refused(f"Unknown match type {component.match_type}")
        if (component.match_type == Match.EXACT) != (component.match is not None):
            raise _refused("A name is given with an exact match, and only with one.")


def _refused(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, reason)
