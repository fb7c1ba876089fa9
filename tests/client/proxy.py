"""A TCP proxy between client and broker that can cut a connection when a certain request passes."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from types import TracebackType
from typing import Final, Self

from oncestream.client.cluster import Cluster
from oncestream.client.connection import Connection
from oncestream.client.settings import Address, ClientSettings
from oncestream.wire.api import ApiKey

CHUNK_BYTES: Final = 64 * 1024
_FRAME_START: Final = struct.Struct(">ih")  # length, api key


class Proxy:
    """Forwards frames. `cut_answer_of` lets the next such request through and drops its answer."""

    def __init__(self, target: str) -> None:
        host, _, port = target.partition(",")[0].rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._cut: list[ApiKey] = []
        self.requests: list[ApiKey] = []

    @property
    def address(self) -> Address:
        return Address(*self._listener.getsockname())

    def cut_answer_of(self, api_key: ApiKey, times: int = 1) -> None:
        self._cut = [api_key] * times

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for sock in [self._listener, *self._sockets]:
            _end(sock)
        for thread in self._threads:
            thread.join(10)

    def _start(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            broker = socket.create_connection(self._target)
            self._sockets += [client, broker]
            muted = threading.Event()
            self._start(self._requests, client, broker, muted)
            self._start(self._answers, client, broker, muted)

    def _requests(self, client: socket.socket, broker: socket.socket, muted: threading.Event) -> None:
        try:
            while len(head := client.recv(_FRAME_START.size, socket.MSG_WAITALL)) == _FRAME_START.size:
                length, key = _FRAME_START.unpack(head)
                body = client.recv(length - 2, socket.MSG_WAITALL)
                self.requests.append(ApiKey(key))
                if key in self._cut:
                    self._cut.remove(ApiKey(key))
                    muted.set()
                broker.sendall(head + body)
        except OSError:
            pass
        _end(broker)

    def _answers(self, client: socket.socket, broker: socket.socket, muted: threading.Event) -> None:
        try:
            while data := broker.recv(CHUNK_BYTES):
                if muted.is_set():
                    break
                client.sendall(data)
        except OSError:
            pass
        _end(client)
        _end(broker)


class ProxiedCluster(Cluster):
    """Reaches every broker, whatever address it gives, through the proxy."""

    def __init__(self, proxy: Proxy, options: dict[str, str] | None = None) -> None:
        super().__init__(ClientSettings.of(str(proxy.address), options or {}))
        self._proxy = proxy

    def take(self, address: Address) -> Connection:
        return super().take(self._proxy.address)


def _end(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    sock.close()
