"""One connection without a broker: frames that have to wait for their turn."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator

import pytest

from oncestream.broker.connection import Connection


class OneAtATime:
    """A server that answers every frame with itself, through a slot, and has room for one request."""

    frame_bytes_max = 1024
    requests_in_flight_max = 1

    def __init__(self) -> None:
        self.receive_view = memoryview(bytearray(1024))
        self.read: Callable[[], None] | None = None
        self.soon: list[Callable[[], None]] = []
        self.heard_one: Callable[[], None] | None = None

    def now(self) -> float:
        return 0.0

    def call_soon(self, callback: Callable[[], None]) -> object:
        self.soon.append(callback)
        return callback

    def call_later(self, seconds: float, callback: Callable[[], None]) -> object:
        raise AssertionError("nothing is to be done later")

    def on_frame(self, connection: Connection, frame: memoryview) -> None:
        slot = connection.open_slot()
        connection.answer(slot, [struct.pack(">i", len(frame)) + bytes(frame)])

    def on_closed(self, connection: Connection) -> None:
        self.read = None

    def reserve(self, connection: Connection, size_bytes: int) -> bool:
        return True

    def release(self, size_bytes: int) -> None: ...

    def hold(self) -> None: ...

    def let_go(self) -> None: ...

    def watch_reads(self, fd: int, callback: Callable[[], None] | None) -> None:
        self.read = callback

    def watch_writes(self, fd: int, callback: Callable[[], None] | None) -> None:
        raise AssertionError("the socket takes all of it")

    def turn(self) -> None:
        """What is readable comes before what is to be done soon: loops promise no order."""
        if self.read is not None:
            self.read()
        callbacks, self.soon = self.soon, []
        for callback in callbacks:
            callback()


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def test_frames_that_waited_for_their_turn_are_answered_before_more_is_read(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = ends
    host = OneAtATime()
    connection = Connection(ours, "peer:1", host, ("here", 1), None)
    frames = b"".join(struct.pack(">i", 8) + b"frame%03d" % number for number in range(5))
    theirs.sendall(frames)
    for _ in range(10):
        host.turn()
    assert not connection.closed
    assert theirs.recv(1024) == frames
    theirs.sendall(frames)
    for _ in range(10):
        host.turn()
    assert theirs.recv(1024) == frames, "it reads on"


def test_a_request_that_raises_ends_its_connection_and_holds_nothing_up(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    class Raises(OneAtATime):
        held = 0

        def on_frame(self, connection: Connection, frame: memoryview) -> None:
            raise ZeroDivisionError

        def hold(self) -> None:
            self.held += 1

        def let_go(self) -> None:
            self.held -= 1

    ours, theirs = ends
    host = Raises()
    connection = Connection(ours, "peer:1", host, ("here", 1), None)
    theirs.sendall(struct.pack(">i", 8) + b"whatever")
    with pytest.raises(ZeroDivisionError):
        host.turn()
    assert (connection.closed, host.held) == (True, 0)
    assert theirs.recv(1024) == b""


def test_only_a_frame_that_comes_alone_is_told_as_one(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    host = OneAtATime()
    host.requests_in_flight_max = 8
    heard: list[None] = []
    host.heard_one = lambda: heard.append(None)
    Connection(ours, "peer:1", host, ("here", 1), None)
    frame = struct.pack(">i", 8) + b"whatever"
    for sent, told in ((frame, 1), (frame * 5, 1), (frame[:6], 1), (frame[6:], 2), (frame, 3)):
        theirs.sendall(sent)
        host.turn()
        assert len(heard) == told
