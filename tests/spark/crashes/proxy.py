"""A proxy that also loses or delays requests, and a driver's cluster that is reached only through it."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from oncestream.client.cluster import Cluster
from oncestream.client.connection import Connection
from oncestream.client.settings import Address, ClientSettings
from oncestream.wire.api import ApiKey
from oncestream.wire.error_codes import ErrorCode
from tests.client.proxy import Proxy

REQUEST_TIMEOUT_MS: Final = 1_000
API_TIMEOUT_MS: Final = 4_000
TIMEOUT_S: Final = 30
_REQUEST_HEAD: Final = struct.Struct(">ihh")  # length, api key, version
_LENGTH: Final = struct.Struct(">i")
_END_TXN_ANSWER: Final = struct.Struct(">ixih")  # correlation id, no tags, throttle time, error code


class LossyProxy(Proxy):
    """Requests of one kind can be lost with their connection, or kept until they are delivered late."""

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self._losing: list[ApiKey] = []
        self._keeping: ApiKey | None = None
        self._kept: list[bytes] = []

    def lose_next(self, api_key: ApiKey) -> None:
        """The next such request is not forwarded, its connection ends."""
        self._losing.append(api_key)

    def keep(self, api_key: ApiKey) -> None:
        """From now on no such request is forwarded, and none is answered."""
        self._keeping = api_key

    def forward_again(self) -> None:
        self._keeping, self._cut = None, []

    def deliver_kept_end_txns(self) -> list[ErrorCode]:
        """What was kept reaches the broker now; answers what it says."""
        answers = []
        for frame in self._kept:
            with socket.create_connection(self._target, TIMEOUT_S) as broker:
                broker.sendall(frame)
                (length,) = _LENGTH.unpack(broker.recv(_LENGTH.size, socket.MSG_WAITALL))
                answer = broker.recv(length, socket.MSG_WAITALL)
            answers.append(ErrorCode(_END_TXN_ANSWER.unpack_from(answer)[2]))
        self._kept.clear()
        return answers

    def _requests(self, client: socket.socket, broker: socket.socket, muted: threading.Event) -> None:
        checked = _Checked(client, self._passes)
        super()._requests(checked, broker, muted)  # type: ignore[arg-type]

    def _passes(self, frame: bytes) -> bool:
        """Whether to forward it; OSError ends the connection."""
        key = _REQUEST_HEAD.unpack_from(frame)[1]
        if key in self._losing:
            self._losing.remove(ApiKey(key))
            raise ConnectionAbortedError
        if key == self._keeping:
            self._kept.append(frame)
            return False
        return True


class _Checked:
    """A client's socket that gives out only the frames that pass."""

    def __init__(self, client: socket.socket, passes: Callable[[bytes], bool]) -> None:
        self._client, self._passes = client, passes
        self._frame = b""

    def recv(self, count: int, flags: int = 0) -> bytes:
        while not self._frame:
            head = self._client.recv(_LENGTH.size, socket.MSG_WAITALL)
            if len(head) < _LENGTH.size:
                return b""
            frame = head + self._client.recv(_LENGTH.unpack(head)[0], socket.MSG_WAITALL)
            self._frame = frame if self._passes(frame) else b""
        given, self._frame = self._frame[:count], self._frame[count:]
        return given


def cluster_through(proxy: Proxy) -> type[Cluster]:
    """For the driver's own calls; it does not wait long for an answer."""

    class Through(Cluster):
        def __init__(self, settings: ClientSettings) -> None:
            super().__init__(
                replace(settings, request_timeout_ms=REQUEST_TIMEOUT_MS, api_timeout_ms=API_TIMEOUT_MS)
            )

        def take(self, address: Address) -> Connection:
            return super().take(proxy.address)

    return Through
