"""One client connection: frames in, answers out in the order of the requests, in bounded memory.

Requests are parsed in place and handled at once; an answer that comes later (a long poll, a flush) has a slot
in the queue, so the parser goes on meanwhile. A client that does not take its answers is not read from.
"""

from __future__ import annotations

import logging
import socket
import struct
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from oncestream.broker.host import Host
from oncestream.broker.outbox import Chunk, Outbox, Slot
from oncestream.broker.security.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from oncestream.broker.security.sasl import Login

logger = logging.getLogger("oncestream.broker")

FRAME_BYTES_MIN: Final = 8  # the shortest request header
LOGIN_LIMITS: Final = (1, 64 * 1024, 1)  # smallest and largest frame, requests at once
REFUSED_SECONDS: Final = 0.1  # between telling a client that it may not come in and the end of its connection
UNRESERVED_BYTES_MAX: Final = 64 * 1024  # a larger frame needs room in the broker's budget before it is read
_ALLOCATION_BYTES_MAX: Final = 1024 * 1024  # ahead of what was received; beyond it the buffer doubles
_UNSENT_CHUNKS_MAX: Final = 64  # answers collected before they are sent, so that one send carries many
_LENGTH: Final = struct.Struct(">i")
_TLS_HELLO: Final = 0x1603


class Connection:
    """A client's socket, with what is half received and what is not yet sent."""

    __slots__ = (
        "_corked",
        "_fd",
        "_flushing",
        "_frame_bytes_max",
        "_frame_bytes_min",
        "_host",
        "_outbox",
        "_partial",
        "_reading",
        "_received",
        "_requests_max",
        "_reserved",
        "_slots",
        "_sock",
        "address",
        "blocked",
        "closed",
        "last_progress",
        "login",
        "muted",
        "opened",
        "peer",
        "principal",
        "starved",
    )

    def __init__(
        self, sock: socket.socket, peer: str, host: Host, address: tuple[str, int], login: Login | None
    ) -> None:
        self._sock = sock
        self._fd = sock.fileno()
        self._host = host
        self.peer = peer
        self.address = address  # what this client is told of where we are
        self.login = login  # until it is done, the client may do nothing else
        self.principal = ANONYMOUS
        self._frame_bytes_min, self._frame_bytes_max, self._requests_max = (
            LOGIN_LIMITS if login else self._limits()
        )
        self.closed = False
        self.blocked = False  # the client does not take its answers
        self.starved = False  # waits for room in the broker's budget
        self.muted = False  # over its quota
        self.opened = self.last_progress = host.now()
        self._partial: bytearray | None = None  # the start of a frame; `_received` bytes of it are filled
        self._received = 0
        self._reserved = 0
        self._slots: deque[Slot] = deque()
        self._outbox = Outbox(sock)
        self._corked = False
        self._flushing = False  # answers wait for the end of this turn of the loop
        self._reading = False
        self._update_reading()

    @property
    def admitted(self) -> bool:
        """Past everything that stands before the first request."""
        return self.login is None

    def admit(self, principal: Principal) -> None:
        """The log-in is done."""
        self.login = None
        self.principal = principal
        logger.debug("client known peer=%s principal=%s", self.peer, principal)
        self._frame_bytes_min, self._frame_bytes_max, self._requests_max = self._limits()

    def _limits(self) -> tuple[int, int, int]:
        return FRAME_BYTES_MIN, self._host.frame_bytes_max, self._host.requests_in_flight_max

    @property
    def receiving(self) -> bool:
        """In the middle of a frame."""
        return self._partial is not None

    @property
    def waiting(self) -> int:
        """Requests that have no answer yet."""
        return len(self._slots)

    # -- receiving ----------------------------------------------------------------------------

    def on_readable(self) -> None:
        count = self._receive(self._target())
        if count:
            self._taken(count)

    def _target(self) -> memoryview:
        """Where the next bytes go: behind what is there of a frame."""
        partial = self._partial
        return self._host.receive_view if partial is None else memoryview(partial)[self._received :]

    def _receive(self, target: memoryview) -> int:
        """How many bytes came; 0 if none, or if the connection has ended."""
        try:
            count = self._sock.recv_into(target)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            self.close(f"receive failed: {error.strerror}", quiet=True)
            return 0
        if count == 0:
            self.close("closed by the client", quiet=True)
        self.last_progress = self._host.now()
        return count

    def _taken(self, count: int) -> None:
        """`count` bytes were put to the target."""
        partial = self._partial
        if partial is None:
            self._take(self._host.receive_view, count)
        else:
            self._received += count
            self._take(memoryview(partial), self._received)

    def granted(self, size_bytes: int) -> None:
        """The broker has room for the frame this connection waits to receive."""
        self.starved = False
        self._reserved = size_bytes
        self.last_progress = self._host.now()
        self.resume()

    def resume(self) -> None:
        """Goes on with what was received before the connection was paused."""
        if self.closed or self._corked:
            return
        if self._partial is not None:
            self._take(memoryview(self._partial), self._received)
        else:
            self._update_reading()

    def mute(self, for_ms: int) -> None:
        """The client is not read from for this long; what it is owed is sent."""
        if self.closed or self.muted:
            return
        self.muted = True
        self._host.call_later(for_ms / 1000, self._unmute)
        self._update_reading()

    def _unmute(self) -> None:
        self.muted = False
        self.last_progress = self._host.now()
        self.resume()

    def _take(self, data: memoryview, end: int) -> None:
        """Handles the whole frames in `data[:end]`, keeps the rest, sends what is answered."""
        self._corked = True
        self._host.hold()
        try:
            used = self._parse(data, end)
        except BaseException:
            # The rest of what was received is lost, and nothing that comes after it would make sense.
            self.close("a request failed")
            raise
        finally:
            self._corked = False
            self._host.let_go()
        if self.closed:
            return
        heard_one = self._host.heard_one
        if heard_one is not None and used and used == _LENGTH.unpack_from(data)[0] + 4:
            heard_one()
        if used == end:
            self._drop_partial()
        else:
            self._keep(data, used, end)
        full = len(self._slots) >= self._requests_max
        self._drain()
        if full and len(self._slots) < self._requests_max:
            self._host.call_soon(self.resume)  # whole frames may have been left
        self._update_reading()

    def _parse(self, data: memoryview, end: int) -> int:
        host, slots = self._host, self._slots
        used = 0
        while end - used >= 4 and len(slots) < self._requests_max and not self.blocked and not self.muted:
            size = _LENGTH.unpack_from(data, used)[0]
            if not self._frame_bytes_min <= size <= self._frame_bytes_max:
                allowed = f"{self._frame_bytes_min} to {self._frame_bytes_max}"
                hint = "; a client that speaks TLS?" if size >> 16 == _TLS_HELLO else ""
                self.close(f"a frame of {size} bytes (allowed: {allowed}{hint})")
                return end
            stop = used + 4 + size
            if stop > end:
                break
            host.on_frame(self, data[used + 4 : stop])
            if self.closed:
                return end
            used = stop
            if len(self._outbox) >= _UNSENT_CHUNKS_MAX:
                self._drain()
        return used

    def _keep(self, data: memoryview, used: int, end: int) -> None:
        """Holds the unused bytes in a buffer of this connection's own, with room for the rest of the frame."""
        left = end - used
        partial = self._partial
        if partial is not None and used == 0 and end < len(partial):
            return
        size = 4 + _LENGTH.unpack_from(data, used)[0] if left >= 4 else 4
        capacity = max(left, min(size, max(2 * left, _ALLOCATION_BYTES_MAX)))
        if size > UNRESERVED_BYTES_MAX and self._reserved < size and size > left:
            self._reserve(size)
            capacity = left if self.starved else capacity
        kept = bytearray(capacity)
        kept[:left] = data[used:end]
        self._partial, self._received = kept, left

    def _reserve(self, size_bytes: int) -> None:
        self._give_back()
        if self._host.reserve(self, size_bytes):
            self._reserved = size_bytes
        else:
            self.starved = True

    def _drop_partial(self) -> None:
        self._partial, self._received = None, 0
        self._give_back()

    def _give_back(self) -> None:
        if self._reserved:
            reserved, self._reserved = self._reserved, 0
            self._host.release(reserved)

    # -- answering ----------------------------------------------------------------------------

    def open_slot(self) -> Slot:
        slot = Slot()
        self._slots.append(slot)
        return slot

    def answer(self, slot: Slot, chunks: list[Chunk]) -> None:
        """An answer that took its time; no chunks: none is owed. Several of one moment are sent together."""
        slot.chunks = chunks
        if not self.closed and not self._corked and not self._flushing and self._slots[0] is slot:
            self._flushing = True
            self._host.call_soon(self._flush)

    def answer_now(self, chunks: list[Chunk]) -> None:
        if self._slots:
            self.open_slot().chunks = chunks
        else:
            self._outbox.extend(chunks)
        if not self._corked:
            self._drain()

    def _flush(self) -> None:
        self._flushing = False
        if not self.closed:
            self._drain()
            self.resume()

    def on_writable(self) -> None:
        self.last_progress = self._host.now()
        self._send()
        if not self.blocked:
            self.resume()

    def _drain(self) -> None:
        slots = self._slots
        while slots and slots[0].chunks is not None:
            self._outbox.extend(slots.popleft().chunks or ())
        if self._outbox and not self.blocked:
            self._send()

    def _send(self) -> None:
        try:
            done = self._outbox.send()
        except OSError as error:
            self.close(f"send failed: {error.strerror}", quiet=True)
            return
        if done == self.blocked:
            self.blocked = not done
            self._host.watch_writes(self._fd, self.on_writable if self.blocked else None)
            self._update_reading()

    # -- life ---------------------------------------------------------------------------------

    def close(self, reason: str, *, quiet: bool = False) -> None:
        """Ends the connection; `quiet` for what clients do every day."""
        if self.closed:
            return
        self.closed = True
        level = logging.DEBUG if quiet else logging.WARNING
        logger.log(level, "connection closed peer=%s reason=%s", self.peer, reason)
        self._update_reading()
        if self.blocked:
            self._host.watch_writes(self._fd, None)
        self._drop_partial()
        self._send_last()
        self._outbox.clear()
        self._slots.clear()
        self._sock.close()
        self._host.on_closed(self)

    def turn_away(self, reason: str) -> None:
        """Reads no more. Clients miss what they were told last if the end comes along with it: so it comes later."""
        logger.warning("client refused peer=%s reason=%s", self.peer, reason)
        self._requests_max = 0
        self._update_reading()
        self._host.call_later(REFUSED_SECONDS, lambda: self.close(reason, quiet=True))

    def _send_last(self) -> None:
        """What was answered before the end still goes out, as far as the socket takes it."""
        while self._slots and self._slots[0].chunks is not None:
            self._outbox.extend(self._slots.popleft().chunks or ())
        with suppress(OSError):
            self._outbox.send()

    def _update_reading(self) -> None:
        wanted = not (
            self.closed
            or self.blocked
            or self.starved
            or self.muted
            or len(self._slots) >= self._requests_max
            or (
                self._partial is not None and self._received == len(self._partial)
            )  # frames wait for their turn
        )
        if wanted != self._reading:
            self._reading = wanted
            self._host.watch_reads(self._fd, self.on_readable if wanted else None)
