"""CreateAcls (30), versions 1-3: add ACLs, each one for itself; one that is there already is no error.

Differs from Apache Kafka: an ACL whose principal is not type:name is refused; there is a limit to their number.
"""

from __future__ import annotations

from oncestream.broker.call import Call
from oncestream.broker.catalog import put_acl
from oncestream.broker.security.acls import ACLS_MAX, Acl, check_new
from oncestream.wire.acl_codes import Operation
from oncestream.wire.error_codes import ErrorCode, KafkaError
from oncestream.wire.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)


def handle(request: CreateAclsRequest, call: Call) -> CreateAclsResponse:
    catalog = call.node.catalog
    try:
        call.require_for_acls(Operation.ALTER)
    except KafkaError as error:
        return CreateAclsResponse(results=[_refused(error) for _ in request.creations])
    results: list[AclCreationResult] = []
    new: dict[Acl, None] = {}
    for creation in request.creations:
        try:
            acl = _check(creation)
            if len(catalog.acls) + len(new) >= ACLS_MAX:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"this broker holds at most {ACLS_MAX} ACLs")
        except KafkaError as error:
            results.append(_refused(error))
            continue
        if acl not in catalog.acls:
            new[acl] = None
        results.append(AclCreationResult(error_message=None))
    if new:
        try:
            catalog.commit([put_acl(acl) for acl in new], call.node.clock.now_ms())
        except KafkaError as error:
            return CreateAclsResponse(results=[_refused(error) for _ in request.creations])
        call.node.rights_changed()
        for acl in new:
            call.changed(acl.resource_type, acl.name, "create acl", **acl.described())
    return CreateAclsResponse(results=results)


def _check(creation: AclCreation) -> Acl:
    return check_new(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def _refused(error: KafkaError) -> AclCreationResult:
    return AclCreationResult(error_code=error.code, error_message=error.message)
