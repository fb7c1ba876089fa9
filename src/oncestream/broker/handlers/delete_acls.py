"""DeleteAcls (31), versions 1-3: delete the ACLs that each filter matches; all of the request at once.

Differs from Apache Kafka: nothing.
"""

from __future__ import annotations

from oncestream.broker.call import Call
from oncestream.broker.catalog import drop_acl
from oncestream.broker.security.acls import Acl, check_filter
from oncestream.wire.acl_codes import Operation
from oncestream.wire.error_codes import KafkaError
from oncestream.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)


def handle(request: DeleteAclsRequest, call: Call) -> DeleteAclsResponse:
    try:
        call.require_for_acls(Operation.ALTER)
    except KafkaError as error:
        return DeleteAclsResponse(filter_results=[_refused(error) for _ in request.filters])
    gone: dict[Acl, None] = {}
    results = []
    for wanted in request.filters:
        try:
            found = _find(wanted, call)
        except KafkaError as error:
            results.append(_refused(error))
            continue
        gone.update(dict.fromkeys(found))
        results.append(DeleteAclsFilterResult(error_message=None, matching_acls=[_told(a) for a in found]))
    if gone:
        try:
            call.node.catalog.commit([drop_acl(acl) for acl in gone], call.node.clock.now_ms())
        except KafkaError as error:
            return DeleteAclsResponse(filter_results=[_refused(error) for _ in request.filters])
        call.node.rights_changed()
        for acl in gone:
            call.changed(acl.resource_type, acl.name, "delete acl", **acl.described())
    return DeleteAclsResponse(filter_results=results)


def _find(wanted: DeleteAclsFilter, call: Call) -> list[Acl]:
    matching = check_filter(
        wanted.resource_type_filter,
        wanted.resource_name_filter,
        wanted.pattern_type_filter,
        wanted.principal_filter,
        wanted.host_filter,
        wanted.operation,
        wanted.permission_type,
    )
    return sorted(filter(matching.matches, call.node.catalog.acls))


def _told(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _refused(error: KafkaError) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=error.code, error_message=error.message)
