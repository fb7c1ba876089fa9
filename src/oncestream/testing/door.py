"""An address of the proxy and the broker behind it; a request that waits there to be delivered."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from oncestream.client.settings import Address
from oncestream.errors import ProxyFailed
from oncestream.testing.frames import Request
from oncestream.wire.schema import Message

HOST: Final = "127.0.0.1"
ANSWER_TIMEOUT_S: Final = 60
_LENGTH: Final = struct.Struct(">i")


@dataclass(slots=True, eq=False)
class Door:
    """Clients that knock here reach `target`."""

    target: Address
    listener: socket.socket = field(default_factory=lambda: socket.create_server((HOST, 0)))

    @property
    def address(self) -> Address:
        return Address(*self.listener.getsockname())


class Held(NamedTuple):
    """A request that was kept back, and where it was going."""

    request: Request
    door: Door

    def deliver(self) -> Message:
        """The broker has it now, on a connection of its own; what it answers."""
        with socket.create_connection(self.door.target, ANSWER_TIMEOUT_S) as broker:
            broker.sendall(self.request.frame)
            head = broker.recv(_LENGTH.size, socket.MSG_WAITALL)
            body = broker.recv(_LENGTH.unpack(head)[0], socket.MSG_WAITALL) if head else b""
        if not body:
            raise ProxyFailed(reason="the broker ended the connection of a request that was delivered late")
        return self.request.decode_answer(head + body)
