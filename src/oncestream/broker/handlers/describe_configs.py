"""DescribeConfigs (32), versions 1-4: configurations of topics, of groups and of the broker, and where each comes from.

Differs from Apache Kafka: of the broker's settings those are left out that tune a part which is not here
(kafka_settings.py names them); groups have those of the consumer protocol.
"""

from __future__ import annotations

from oncestream.broker.call import Call
from oncestream.broker.config_entries import ConfigEntry
from oncestream.broker.config_resources import describe, guarded_by
from oncestream.broker.topic_configs import ConfigType
from oncestream.wire.acl_codes import Operation
from oncestream.wire.error_codes import KafkaError
from oncestream.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


def handle(request: DescribeConfigsRequest, call: Call) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(results=[_describe(want, request, call) for want in request.resources])


def _describe(
    want: DescribeConfigsResource, request: DescribeConfigsRequest, call: Call
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_message="", resource_type=want.resource_type, resource_name=want.resource_name
    )
    try:
        kind, name = guarded_by(want.resource_type, want.resource_name)
        call.require(Operation.DESCRIBE_CONFIGS, kind, name)
        entries = describe(call.node, want.resource_type, want.resource_name)
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message
        return result
    keys = want.configuration_keys
    result.configs = [_result(entry, request) for entry in entries if not keys or entry.name in keys]
    return result


def _result(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else []
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.type is ConfigType.PASSWORD,
        synonyms=[DescribeConfigsSynonym(name=s.name, value=s.value, source=s.source) for s in synonyms],
        config_type=entry.type,
        documentation=entry.doc if request.include_documentation else None,
    )
