"""DescribeAcls (29), versions 1-3: the ACLs that a filter matches, by resource.

Differs from Apache Kafka: nothing.
"""

from __future__ import annotations

from collections import defaultdict

from oncestream.broker.call import Call
from oncestream.broker.security.acls import Acl, check_filter
from oncestream.wire.acl_codes import Operation, PatternType, ResourceType
from oncestream.wire.error_codes import KafkaError
from oncestream.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)


def handle(request: DescribeAclsRequest, call: Call) -> DescribeAclsResponse:
    try:
        call.require_for_acls(Operation.DESCRIBE)
        wanted = check_filter(
            request.resource_type_filter,
            request.resource_name_filter,
            request.pattern_type_filter,
            request.principal_filter,
            request.host_filter,
            request.operation,
            request.permission_type,
        )
    except KafkaError as error:
        return DescribeAclsResponse(error_code=error.code, error_message=error.message)
    found: defaultdict[tuple[ResourceType, str, PatternType], list[Acl]] = defaultdict(list)
    for acl in sorted(filter(wanted.matches, call.node.catalog.acls)):
        found[acl.resource_type, acl.name, acl.pattern].append(acl)
    return DescribeAclsResponse(
        error_message=None,
        resources=[
            DescribeAclsResource(
                resource_type=kind,
                resource_name=name,
                pattern_type=pattern,
                acls=[
                    AclDescription(
                        principal=acl.principal,
                        host=acl.host,
                        operation=acl.operation,
                        permission_type=acl.permission,
                    )
                    for acl in acls
                ],
            )
            for (kind, name, pattern), acls in found.items()
        ],
    )
