"""What a handler knows about the request it answers, besides the request itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncestream.broker.security.acls import CLUSTER_NAME
from oncestream.broker.security.operations import all_operations
from oncestream.broker.security.principal import ANONYMOUS, Principal, host_of
from oncestream.broker.security.refusals import refusal
from oncestream.wire.acl_codes import Operation, ResourceType
from oncestream.wire.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from oncestream.broker.node import Node
    from oncestream.broker.security.sasl import Login


class Hangup(Exception):
    """The only answer left is to close the connection; the text says why."""


class Call:
    """One request on its way: who sent it, in which version, to which node."""

    __slots__ = (
        "address",
        "api",
        "client_id",
        "correlation_id",
        "login",
        "node",
        "peer",
        "principal",
        "throttle_ms",
        "version",
    )

    def __init__(
        self,
        node: Node,
        version: int,
        correlation_id: int,
        client_id: str | None,
        peer: str,
        principal: Principal = ANONYMOUS,
        api: str = "",
        address: tuple[str, int] | None = None,
        login: Login | None = None,
    ) -> None:
        self.node = node
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.peer = peer
        self.principal = principal
        self.api = api
        self.address = address or node.address  # of this broker, for the sender
        self.login = login  # None: done, or not asked for
        self.throttle_ms = 0  # the client is over its quota: it is told, and not read from for this long

    @property
    def host(self) -> str:
        """The client's address, without its port."""
        return host_of(self.peer)

    def may(
        self, operation: Operation, kind: ResourceType, name: str = CLUSTER_NAME, *, quiet: bool = False
    ) -> bool:
        """Whether the sender is allowed to. `quiet`: there is another way to be allowed, so a no is not audited."""
        authorizer = self.node.authorizer
        if authorizer is None:
            return True
        allowed = authorizer.allows(self.principal, self.host, operation, kind, name)
        if self.node.audit is not None and (allowed or not quiet):
            self.node.audit.decided(self, operation, kind, name, allowed)
        return allowed

    def sees(self, kind: ResourceType, name: str) -> bool:
        """Whether something belongs into a list for the sender: nobody asked for it, so it is not audited."""
        authorizer = self.node.authorizer
        return authorizer is None or authorizer.allows(
            self.principal, self.host, Operation.DESCRIBE, kind, name
        )

    def require(self, operation: Operation, kind: ResourceType, name: str = CLUSTER_NAME) -> None:
        """Raises the error that Kafka gives to those who may not."""
        if not self.may(operation, kind, name):
            raise refusal(kind)

    def require_for_acls(self, operation: Operation) -> None:
        """As `require` of the cluster; and where authorization is off there are no ACLs to look at or change."""
        self.require(operation, ResourceType.CLUSTER)
        if self.node.authorizer is None:
            raise KafkaError(ErrorCode.SECURITY_DISABLED, "authorization is off on this broker")

    def may_on_any(self, operation: Operation, kind: ResourceType) -> bool:
        """Whether the sender is allowed to on some resource of this type, whichever it is."""
        authorizer = self.node.authorizer
        return authorizer is None or authorizer.allows_on_any(self.principal, self.host, operation, kind)

    def operations(self, kind: ResourceType, name: str = CLUSTER_NAME) -> int:
        """What the sender may do with a resource, as the bit field that clients ask for."""
        authorizer = self.node.authorizer
        if authorizer is None:
            return all_operations(kind)
        return authorizer.operations(self.principal, self.host, kind, name)

    def charge(self, key: str, size_bytes: int) -> None:
        """Counts bytes towards the sender's quota."""
        user, client_id = self.principal.name, self.client_id or ""
        self.throttle_ms = self.node.quotas.charge(key, user, client_id, size_bytes, self.node.loop.time())

    def changed(self, kind: ResourceType, name: str, change: str, **details: object) -> None:
        """An administrative change was made; to be called before it is answered."""
        if self.node.audit is not None:
            self.node.audit.changed(self, kind, name, change, details)


def no_time() -> KafkaError:
    """What Apache Kafka answers where a request allows the controller no time."""
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT)
