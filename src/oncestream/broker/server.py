"""The network side of the broker: listener, connections, limits."""

from __future__ import annotations

import logging
import socket
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from oncestream.broker.busy_poll import BusyPoll, has_cores_to_spare
from oncestream.broker.connection import Connection
from oncestream.broker.dispatch import Dispatcher
from oncestream.broker.listeners import Listener, Plan, addresses_text, open_listener
from oncestream.broker.node import Node
from oncestream.broker.security.principal import host_of

# TLS and log-ins are imported by the brokers that have them: the others start sooner.
if TYPE_CHECKING:
    from oncestream.broker.security.sasl import Login
    from oncestream.broker.security.tls import ServerTls

logger = logging.getLogger("oncestream.broker")

RECEIVE_BYTES: Final = 256 * 1024
SWEEP_SECONDS: Final = 1.0
ACCEPTS_PER_TURN: Final = 64
ACCEPT_PAUSE_SECONDS: Final = 1.0


class Server:
    """Accepts clients on its listeners and hands their frames to the dispatcher."""

    def __init__(
        self, node: Node, plans: Sequence[Plan], tls: ServerTls | None, sweep_s: float = SWEEP_SECONDS
    ) -> None:
        settings = node.settings
        self._node = node
        self._loop = node.loop
        self._dispatcher = Dispatcher(node)
        self.receive_view = memoryview(bytearray(RECEIVE_BYTES))
        self.frame_bytes_max = settings.frame_bytes_max
        self.requests_in_flight_max = settings.requests_in_flight_max
        self.on_frame = self._dispatcher.on_frame
        self.hold, self.let_go = node.folder.journal.hold, node.folder.journal.let_go
        self.call_soon = node.loop.call_soon
        self.call_later = node.loop.call_later
        self.heard_one = self._busy_poll()
        self._connections: set[Connection] = set()
        self._reserved_bytes = 0
        self._starved: deque[tuple[Connection, int]] = deque()
        self._tls = tls
        self._sweep_s = sweep_s
        self.listeners: list[Listener] = []
        try:
            for plan in plans:
                self.listeners.append(open_listener(plan, settings))
        except BaseException:
            self._close_listeners()
            raise
        if any(listener.mechanisms for listener in self.listeners):
            from oncestream.broker.security.users import ensure_login_secret

            ensure_login_secret(node.catalog, node.clock.now_ms())
        for listener in self.listeners:
            self._listening(listener, True)
        self._sweeper = self._loop.call_later(self._sweep_s, self._sweep)
        node.address = self.listeners[0].address
        node.advertised_listeners = addresses_text(self.listeners)

    def close(self) -> None:
        self._sweeper.cancel()
        for listener in self.listeners:
            self._listening(listener, False)
        self._close_listeners()
        self._dispatcher.close()
        for connection in tuple(self._connections):
            connection.close("the broker stops", quiet=True)

    def _busy_poll(self) -> Callable[[], None] | None:
        """A loop that stays awake keeps Python's lock from the threads that flush: not with fsync."""
        window_us = self._node.settings.busy_poll_us
        if not window_us or self._node.durable or not has_cores_to_spare():
            return None
        return BusyPoll(self.call_soon, window_us).heard_one

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

    # -- the listeners ------------------------------------------------------------------------

    def _close_listeners(self) -> None:
        for listener in self.listeners:
            listener.sock.close()

    def _listening(self, listener: Listener, on: bool) -> None:
        """Out of file descriptors, the listener would otherwise wake the loop for ever."""
        if listener.sock.fileno() >= 0:
            self.watch_reads(listener.sock.fileno(), partial(self._accept, listener) if on else None)

    def _accept(self, listener: Listener) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                sock, address = listener.sock.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                logger.warning("accept failed error=%s; trying again in %.0f s", error, ACCEPT_PAUSE_SECONDS)
                self._listening(listener, False)
                self._loop.call_later(ACCEPT_PAUSE_SECONDS, self._listening, listener, True)
                return
            if address is None:  # macOS says so where the client has disconnected already
                sock.close()
            else:
                self._welcome(listener, sock, f"{address[0]}:{address[1]}")

    def _welcome(self, listener: Listener, sock: socket.socket, peer: str) -> None:
        if len(self._connections) >= self._node.settings.connections_max and not self._make_room():
            logger.warning("connection refused peer=%s reason=%d are open", peer, len(self._connections))
            sock.close()
            return
        sock.setblocking(False)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:  # macOS says so where the client has disconnected already
            sock.close()
            return
        address = listener.address_for(sock)
        login = self._login(listener, peer) if listener.mechanisms else None
        if listener.protocol.uses_tls:
            from oncestream.broker.security.tls import TlsConnection

            assert self._tls is not None
            context = self._tls.context
            connection: Connection = TlsConnection(sock, peer, self, address, login, context)
        else:
            connection = Connection(sock, peer, self, address, login)
        self._connections.add(connection)

    def _login(self, listener: Listener, peer: str) -> Login:
        from oncestream.broker.security.sasl import Login

        audit = self._node.audit
        told = None if audit is None else partial(audit.login_failed, host_of(peer))
        return Login(self._node.catalog, listener.mechanisms, told)

    def _make_room(self) -> bool:
        """Silent connections keep nobody out: of those that have not come in yet, the oldest goes."""
        strangers = [connection for connection in self._connections if not connection.admitted]
        if strangers:
            min(strangers, key=lambda connection: connection.opened).close("its place was needed")
        return bool(strangers)

    def _sweep(self) -> None:
        """Closes connections that are idle, or stuck in the middle of a request or an answer."""
        if self._tls is not None:
            self._tls.reload_if_changed()
        settings = self._node.settings
        now = self.now()
        for connection in tuple(self._connections):
            still_ms = (now - connection.last_progress) * 1000
            if not connection.admitted:
                waited_ms = (now - connection.opened) * 1000
                if waited_ms > settings.stall_ms_max:
                    connection.close(f"neither TLS handshake nor log-in was done within {int(waited_ms)} ms")
                continue
            if connection.starved or connection.muted:
                continue
            if (connection.receiving and not connection.waiting) or connection.blocked:
                if still_ms > settings.stall_ms_max:
                    connection.close(f"no progress for {int(still_ms)} ms in the middle of a message")
            elif not connection.waiting and still_ms > settings.idle_ms_max:
                connection.close(f"idle for {int(still_ms)} ms", quiet=True)
        self._sweeper = self._loop.call_later(self._sweep_s, self._sweep)
