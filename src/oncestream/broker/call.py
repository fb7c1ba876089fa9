"""What a handler knows about the request it answers, besides the request itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncestream.broker.node import Node


class Hangup(Exception):
    """The only answer left is to close the connection; the text says why."""


class Call:
    """One request on its way: who sent it, in which version, to which node."""

    __slots__ = ("client_id", "correlation_id", "node", "peer", "version")

    def __init__(
        self, node: Node, version: int, correlation_id: int, client_id: str | None, peer: str
    ) -> None:
        self.node = node
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.peer = peer
