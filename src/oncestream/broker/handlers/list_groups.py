"""ListGroups (16), versions 0-5: all groups, from version 4 by state, from 5 by type.

Differs from Apache Kafka: nothing.
"""

from __future__ import annotations

from oncestream.broker.call import Call
from oncestream.broker.groups.classic_group import ClassicGroup
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def handle(request: ListGroupsRequest, call: Call) -> ListGroupsResponse:
    states = {state.strip().lower() for state in request.states_filter}
    types = {kind.strip().lower() for kind in request.types_filter}
    sees_all = call.may(Operation.DESCRIBE, ResourceType.CLUSTER, quiet=True)
    listed = []
    for group_id in call.node.groups.group_ids():
        if not sees_all and not call.sees(ResourceType.GROUP, group_id):
            continue
        group = call.node.groups.group(group_id)
        assert group is not None
        kind = "classic" if isinstance(group, ClassicGroup) else "consumer"
        if (states and group.state.lower() not in states) or (types and kind not in types):
            continue
        listed.append(
            ListedGroup(
                group_id=group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state,
                group_type=kind,
            )
        )
    return ListGroupsResponse(groups=listed)
