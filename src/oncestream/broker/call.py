"""What a handler knows about the request it answers, besides the request itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncestream.broker.security.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from oncestream.broker.node import Node


class Hangup(Exception):
    """The only answer left is to close the connection; the text says why."""


class Call:
    """One request on its way: who sent it, in which version, to which node."""

    __slots__ = ("client_id", "correlation_id", "node", "peer", "principal", "version")

    def __init__(
        self,
        node: Node,
        version: int,
        correlation_id: int,
        client_id: str | None,
        peer: str,
        principal: Principal = ANONYMOUS,
    ) -> None:
        self.node = node
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.peer = peer
        self.principal = principal

    @property
    def host(self) -> str:
        """The client's address, without its port."""
        return self.peer.rpartition(":")[0].strip("[]")
