"""What a connection has yet to send: bytes from memory, and slices of log files by sendfile."""

from __future__ import annotations

import errno
import os
import socket
from collections import deque
from collections.abc import Iterable
from typing import Final

from oncestream.storage.files import FileSlice

Chunk = bytes | bytearray | FileSlice

_BUFFERS_PER_SEND_MAX: Final = 64
_JOINED_BYTES_MAX: Final = 16 * 1024
_MSG_MORE: Final = getattr(socket, "MSG_MORE", 0)


class Slot:
    """The place of one answer in the order of the connection."""

    __slots__ = ("chunks",)

    def __init__(self) -> None:
        self.chunks: list[Chunk] | None = None


class Outbox:
    """A queue of chunks in front of a non-blocking socket."""

    __slots__ = ("_chunks", "_sent", "_sock")

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._chunks: deque[Chunk] = deque()
        self._sent = 0  # bytes of the first chunk that are gone

    def __len__(self) -> int:
        return len(self._chunks)

    def extend(self, chunks: Iterable[Chunk]) -> None:
        """Small answers are joined: one buffer costs less to send than many."""
        queue = self._chunks
        for chunk in chunks:
            if queue and type(chunk) is bytearray:
                last = queue[-1]
                if type(last) is bytearray and len(last) + len(chunk) <= _JOINED_BYTES_MAX:
                    last += chunk
                    continue
            queue.append(chunk)

    def send(self) -> bool:
        """Sends what the socket takes. True: nothing is left; False: it is full for now."""
        try:
            while self._chunks:
                self._advance(self._send_some())
        except (BlockingIOError, InterruptedError):
            return False
        return True

    def clear(self) -> None:
        self._chunks.clear()

    def _send_some(self) -> int:
        chunks = self._chunks
        first = chunks[0]
        if isinstance(first, FileSlice):
            return self._send_file(first)
        if len(chunks) == 1:
            return self._sock.send(memoryview(first)[self._sent :] if self._sent else first)
        buffers: list[bytes | bytearray | memoryview] = []
        for chunk in chunks:
            if isinstance(chunk, FileSlice) or len(buffers) == _BUFFERS_PER_SEND_MAX:
                break
            buffers.append(chunk)
        flags = _MSG_MORE if len(chunks) > len(buffers) else 0
        if self._sent:
            buffers[0] = memoryview(buffers[0])[self._sent :]
        if len(buffers) == 1:
            return self._sock.send(buffers[0], flags)
        return self._sock.sendmsg(buffers, (), flags)

    def _send_file(self, part: FileSlice) -> int:
        sent = os.sendfile(
            self._sock.fileno(), part.file.fd, part.position + self._sent, part.size - self._sent
        )
        if sent == 0:
            raise OSError(errno.EIO, "a log file ended before its slice did")
        return sent

    def _advance(self, sent: int) -> None:
        sent += self._sent
        chunks = self._chunks
        while chunks:
            first = chunks[0]
            size = first.size if isinstance(first, FileSlice) else len(first)
            if sent < size:
                break
            sent -= size
            chunks.popleft()
        self._sent = sent
