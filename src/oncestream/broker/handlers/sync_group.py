"""SyncGroup (14), versions 0-5: the leader hands in the assignment, every member gets its part.

Differs from Apache Kafka: nothing.
"""

from __future__ import annotations

from oncestream.broker.call import Call
from oncestream.broker.later import Later
from oncestream.wire.messages.sync_group import SyncGroupRequest


def handle(request: SyncGroupRequest, call: Call) -> Later:
    later = Later()
    call.node.groups.sync(request, later)
    return later
