"""Access rules (ACLs): who may do what on which topic, group, transactional id, or on the cluster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from oncestream.client.cluster import Cluster
from oncestream.client.failures import raise_if_error
from oncestream.errors import BadAcl
from oncestream.wire.acl_codes import Operation, PatternType, Permission, ResourceType
from oncestream.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from oncestream.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from oncestream.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

CLUSTER_NAME: Final = "kafka-cluster"
WILDCARD: Final = "*"


@dataclass(frozen=True, slots=True, order=True)
class Acl:
    """One rule. A literal resource "*" is every resource of its type, host "*" every host."""

    resource_type: ResourceType
    resource: str
    pattern: PatternType
    principal: str
    operation: Operation
    permission: Permission = Permission.ALLOW
    host: str = WILDCARD


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Which rules; what is not said matches every rule. Pattern MATCH: all rules that apply to the name."""

    resource_type: ResourceType = ResourceType.ANY
    resource: str | None = None
    pattern: PatternType = PatternType.ANY
    principal: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY
    host: str | None = None


EVERY_RULE: Final = AclFilter()


def create_acls(cluster: Cluster, acls: Iterable[Acl]) -> None:
    """Adds rules; one that is there already is left as it is."""
    wanted = list(acls)
    for acl in wanted:
        _check(acl)
    if not wanted:
        return
    request = CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=acl.resource_type,
                resource_name=acl.resource,
                resource_pattern_type=acl.pattern,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in wanted
        ]
    )

    def check(told: CreateAclsResponse) -> None:
        for acl, result in zip(wanted, told.results, strict=True):
            raise_if_error(result.error_code, acl.resource, result.error_message)

    cluster.ask_controller(request, CreateAclsResponse, check)


def describe_acls(cluster: Cluster, which: AclFilter = EVERY_RULE) -> list[Acl]:
    """The rules that the filter matches, sorted."""
    request = DescribeAclsRequest(**_filter_fields(which))

    def check(told: DescribeAclsResponse) -> None:
        raise_if_error(told.error_code, which.resource or "access rules", told.error_message)

    told = cluster.ask_controller(request, DescribeAclsResponse, check)
    return sorted(
        Acl(
            ResourceType(resource.resource_type),
            resource.resource_name,
            PatternType(resource.pattern_type),
            acl.principal,
            Operation(acl.operation),
            Permission(acl.permission_type),
            acl.host,
        )
        for resource in told.resources
        for acl in resource.acls
    )


def delete_acls(cluster: Cluster, filters: Iterable[AclFilter]) -> list[Acl]:
    """Removes every rule that one of the filters matches; answers the removed ones, sorted."""
    wanted = list(filters)
    if not wanted:
        return []
    request = DeleteAclsRequest(filters=[DeleteAclsFilter(**_filter_fields(each)) for each in wanted])
    gone: set[Acl] = set()

    def check(told: DeleteAclsResponse) -> None:
        for which, result in zip(wanted, told.filter_results, strict=True):
            raise_if_error(result.error_code, which.resource or "access rules", result.error_message)
            for acl in result.matching_acls:
                raise_if_error(acl.error_code, acl.resource_name, acl.error_message)
                gone.add(
                    Acl(
                        ResourceType(acl.resource_type),
                        acl.resource_name,
                        PatternType(acl.pattern_type),
                        acl.principal,
                        Operation(acl.operation),
                        Permission(acl.permission_type),
                        acl.host,
                    )
                )

    cluster.ask_controller(request, DeleteAclsResponse, check)
    return sorted(gone)


def _filter_fields(which: AclFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": which.resource_type,
        "resource_name_filter": which.resource,
        "pattern_type_filter": which.pattern,
        "principal_filter": which.principal,
        "host_filter": which.host,
        "operation": which.operation,
        "permission_type": which.permission,
    }


def _check(acl: Acl) -> None:
    reason = None
    if acl.pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
        reason = f"pattern {acl.pattern.name}"
    elif acl.resource_type == ResourceType.ANY:
        reason = "resource type ANY"
    elif acl.operation == Operation.ANY:
        reason = "operation ANY"
    elif acl.permission == Permission.ANY:
        reason = "permission ANY"
    elif not acl.resource:
        reason = "it names no resource"
    elif ":" not in acl.principal:
        reason = f"{acl.principal!r} is no principal"
    if reason is not None:
        raise BadAcl(resource=acl.resource, reason=reason)
