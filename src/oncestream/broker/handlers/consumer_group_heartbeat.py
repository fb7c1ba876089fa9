"""ConsumerGroupHeartbeat (68), versions 0-1: join, stay in and leave a consumer group (KIP-848).

Version 1 has regular expressions and members that choose their own id. Differs from Apache Kafka: a group with
members of the classic protocol is not converted while they are in it (GROUP_ID_NOT_FOUND, as with the migration
policy "disabled"); a member may join again under its id at any time; regular expressions: see groups/topic_regex.py.
"""

from __future__ import annotations

from functools import partial

from oncestream.broker.call import Call
from oncestream.broker.groups.heartbeat_request import Beat
from oncestream.broker.handlers.join_group import client_host
from oncestream.broker.later import Later
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import KafkaError
from oncestream.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def handle(request: ConsumerGroupHeartbeatRequest, call: Call) -> ConsumerGroupHeartbeatResponse | Later:
    try:
        call.require(Operation.READ, ResourceType.GROUP, request.group_id)
        for topic in request.subscribed_topic_names or ():
            call.require(Operation.DESCRIBE, ResourceType.TOPIC, topic)
    except KafkaError as error:
        return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
    later = Later()
    may_see = partial(call.sees, ResourceType.TOPIC)
    beat = Beat(request, call.version, call.client_id or "", client_host(call), may_see)
    call.node.groups.beat(beat, later)
    return later
