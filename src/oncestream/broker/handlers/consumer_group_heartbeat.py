"""ConsumerGroupHeartbeat (68), versions 0-1: join, stay in and leave a consumer group (KIP-848).

Version 1 has regular expressions and members that choose their own id. Differs from Apache Kafka: a group with
members of the classic protocol is not converted while they are in it (GROUP_ID_NOT_FOUND, as with the migration
policy "disabled"); a member may join again under its id at any time; regular expressions: see groups/topic_regex.py.
"""

from __future__ import annotations

from oncestream.broker.call import Call
from oncestream.broker.groups.heartbeat_request import Beat
from oncestream.broker.handlers.join_group import client_host
from oncestream.broker.later import Later
from oncestream.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def handle(request: ConsumerGroupHeartbeatRequest, call: Call) -> Later:
    later = Later()
    call.node.groups.beat(Beat(request, call.version, call.client_id or "", client_host(call)), later)
    return later
