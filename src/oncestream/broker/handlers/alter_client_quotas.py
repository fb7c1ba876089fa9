"""AlterClientQuotas (49), versions 0-1: set or remove quotas of users, client ids, or both together.

producer_byte_rate and consumer_byte_rate are enforced, on Produce and Fetch, by the size of the records;
request_percentage is kept and told, but not enforced.
Differs from Apache Kafka: no quotas for ip addresses, none of controller_mutation_rate; an entity that is wrong
leaves the others of the request alone.
"""

from __future__ import annotations

import json
from collections import Counter

from oncestream.broker.call import Call
from oncestream.broker.catalog import set_quotas
from oncestream.broker.security.quota_values import ENTITIES_MAX, Entity, check_limit
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    RequestEntryData,
    ResponseEntityData,
    ResponseEntryData,
)


def handle(request: AlterClientQuotasRequest, call: Call) -> AlterClientQuotasResponse:
    named = Counter(_name(entry) for entry in request.entries)
    results = []
    for entry in request.entries:
        code, message = ErrorCode.NONE, None
        try:
            call.require(Operation.ALTER_CONFIGS, ResourceType.CLUSTER)
            if named[_name(entry)] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each entity must appear at most once.")
            _alter(entry, request.validate_only, call)
        except KafkaError as error:
            code, message = error.code, error.message
        results.append(
            ResponseEntryData(
                error_code=code,
                error_message=message,
                entity=[
                    ResponseEntityData(entity_type=part.entity_type, entity_name=part.entity_name)
                    for part in entry.entity
                ],
            )
        )
    return AlterClientQuotasResponse(entries=results)


def _name(entry: RequestEntryData) -> frozenset[tuple[str, str | None]]:
    return frozenset((part.entity_type, part.entity_name) for part in entry.entity)


def _alter(entry: RequestEntryData, validate_only: bool, call: Call) -> None:
    catalog = call.node.catalog
    parts = {part.entity_type: part.entity_name for part in entry.entity}
    if len(parts) < len(entry.entity):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid client quota entity, duplicate entity entry")
    entity = Entity.of(parts)
    if len({op.key for op in entry.ops}) < len(entry.ops):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate quota key")
    before = catalog.quotas.get(entity, {})
    limits = dict(before)
    for op in entry.ops:
        if op.remove:
            limits.pop(op.key, None)
        else:
            check_limit(op.key, op.value)
            limits[op.key] = op.value
    if not before and len(catalog.quotas) >= ENTITIES_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"quotas are set for {ENTITIES_MAX} entities already")
    if limits != before and not validate_only:
        catalog.commit([set_quotas(entity, limits)], call.node.clock.now_ms())
        call.changed(ResourceType.USER, json.dumps(entity.parts), "alter quotas", was=before, now=limits)
