"""The network side of the broker: listener, connections, limits."""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections import deque
from collections.abc import Callable
from typing import Final

from oncestream.broker.connection import Connection
from oncestream.broker.dispatch import Dispatcher
from oncestream.broker.node import Node
from oncestream.broker.settings import parse_address
from oncestream.errors import ListenFailed, OpenListener

logger = logging.getLogger("oncestream.broker")

RECEIVE_BYTES: Final = 256 * 1024
SWEEP_SECONDS: Final = 1.0
BACKLOG: Final = 512
ACCEPTS_PER_TURN: Final = 64
ACCEPT_PAUSE_SECONDS: Final = 1.0


class Server:
    """Accepts clients on one address and hands their frames to the dispatcher."""

    def __init__(self, node: Node) -> None:
        settings = node.settings
        self._node = node
        self._loop = node.loop
        self._dispatcher = Dispatcher(node)
        self.receive_view = memoryview(bytearray(RECEIVE_BYTES))
        self.frame_bytes_max = settings.frame_bytes_max
        self.requests_in_flight_max = settings.requests_in_flight_max
        self.on_frame = self._dispatcher.on_frame
        self.call_soon = node.loop.call_soon
        self._connections: set[Connection] = set()
        self._reserved_bytes = 0
        self._starved: deque[tuple[Connection, int]] = deque()
        advertised = parse_address(settings.advertise, "advertise") if settings.advertise else None
        self._listener = self._listen()
        self._listening(True)
        self._sweeper = self._loop.call_later(SWEEP_SECONDS, self._sweep)
        node.address = advertised or self.address

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._listener.getsockname()[:2]
        return str(host), int(port)

    def close(self) -> None:
        self._sweeper.cancel()
        self._listening(False)
        self._listener.close()
        self._dispatcher.close()
        for connection in tuple(self._connections):
            connection.close("the broker stops", quiet=True)

    # -- what connections ask for -------------------------------------------------------------

    def now(self) -> float:
        return self._loop.time()

    def on_closed(self, connection: Connection) -> None:
        self._connections.discard(connection)

    def reserve(self, connection: Connection, size_bytes: int) -> bool:
        """Room for a large frame: now, or in turn when others have finished theirs."""
        if not self._starved and self._fits(size_bytes):
            self._reserved_bytes += size_bytes
            return True
        self._starved.append((connection, size_bytes))
        return False

    def release(self, size_bytes: int) -> None:
        self._reserved_bytes -= size_bytes
        while self._starved and self._fits(self._starved[0][1]):
            connection, wanted = self._starved.popleft()
            if not connection.closed:
                self._reserved_bytes += wanted
                self._loop.call_soon(self._grant, connection, wanted)

    def watch_reads(self, fd: int, callback: Callable[[], None] | None) -> None:
        if callback is None:
            self._loop.remove_reader(fd)
        else:
            self._loop.add_reader(fd, callback)

    def watch_writes(self, fd: int, callback: Callable[[], None] | None) -> None:
        if callback is None:
            self._loop.remove_writer(fd)
        else:
            self._loop.add_writer(fd, callback)

    def _fits(self, size_bytes: int) -> bool:
        room = self._node.settings.in_flight_bytes_max
        return self._reserved_bytes == 0 or self._reserved_bytes + size_bytes <= room

    def _grant(self, connection: Connection, size_bytes: int) -> None:
        if connection.closed:
            self.release(size_bytes)
        else:
            connection.granted(size_bytes)

    # -- the listener -------------------------------------------------------------------------

    def _listen(self) -> socket.socket:
        text = self._node.settings.listen
        host, port = parse_address(text, "listen")
        try:
            family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        except OSError as error:
            raise ListenFailed(address=text, reason=error.strerror or str(error)) from None
        if not ipaddress.ip_address(address[0]).is_loopback and not self._node.settings.insecure:
            raise OpenListener(address=text)
        sock = socket.socket(family, kind, proto)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(address)
            sock.listen(BACKLOG)
        except OSError as error:
            sock.close()
            raise ListenFailed(address=text, reason=error.strerror or str(error)) from None
        sock.setblocking(False)
        return sock

    def _listening(self, on: bool) -> None:
        """Out of file descriptors, the listener would otherwise wake the loop for ever."""
        if self._listener.fileno() >= 0:
            self.watch_reads(self._listener.fileno(), self._accept if on else None)

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                sock, address = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                logger.warning("accept failed error=%s; trying again in %.0f s", error, ACCEPT_PAUSE_SECONDS)
                self._listening(False)
                self._loop.call_later(ACCEPT_PAUSE_SECONDS, self._listening, True)
                return
            self._welcome(sock, f"{address[0]}:{address[1]}")

    def _welcome(self, sock: socket.socket, peer: str) -> None:
        if len(self._connections) >= self._node.settings.connections_max:
            logger.warning("connection refused peer=%s reason=%d are open", peer, len(self._connections))
            sock.close()
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections.add(Connection(sock, peer, self))

    def _sweep(self) -> None:
        """Closes connections that are idle, or stuck in the middle of a request or an answer."""
        settings = self._node.settings
        now = self.now()
        for connection in tuple(self._connections):
            still_ms = (now - connection.last_progress) * 1000
            if connection.starved:
                continue
            if (connection.receiving and not connection.waiting) or connection.blocked:
                if still_ms > settings.stall_ms_max:
                    connection.close(f"no progress for {int(still_ms)} ms in the middle of a message")
            elif not connection.waiting and still_ms > settings.idle_ms_max:
                connection.close(f"idle for {int(still_ms)} ms", quiet=True)
        self._sweeper = self._loop.call_later(SWEEP_SECONDS, self._sweep)
