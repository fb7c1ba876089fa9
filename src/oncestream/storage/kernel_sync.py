"""fdatasync in the background by Linux itself (its native asynchronous I/O).

A thread of ours that returns from fdatasync fights the event loop for the interpreter lock: about eight futex
calls and ten context switches a flush, more than the flush costs. The kernel's thread only raises an eventfd.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Iterator
from typing import Final, NamedTuple


class _Calls(NamedTuple):
    """Numbers of system calls."""

    setup: int
    destroy: int
    getevents: int
    submit: int


_CALLS: Final = {"x86_64": _Calls(206, 207, 208, 209), "aarch64": _Calls(0, 1, 4, 2)}
_FDSYNC: Final = 3
_RAISE_EVENTFD: Final = 1
# data, key, flags, operation, priority, file, buffer, size, offset, reserved, flags, eventfd
_REQUEST: Final = struct.Struct("=QIiHhIQQqQII")
_EVENT: Final = struct.Struct("=QQqq")  # data, request, result, second result
IN_FLIGHT_MAX: Final = 128


class KernelSync:
    """Flushes under way in the kernel. When `fd` is readable, some have ended: see `finished`."""

    def __init__(self, calls: _Calls) -> None:
        self._calls = calls
        self._syscall = ctypes.CDLL(None, use_errno=True).syscall
        self._context = ctypes.c_ulong(0)
        self._request = ctypes.create_string_buffer(_REQUEST.size)
        self._requests = (ctypes.c_void_p * 1)(ctypes.addressof(self._request))
        self._events = ctypes.create_string_buffer(_EVENT.size * IN_FLIGHT_MAX)
        self._call(calls.setup, IN_FLIGHT_MAX, ctypes.byref(self._context))
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    @classmethod
    def open(cls) -> KernelSync | None:
        """None where there is no such thing: another system, or a sandbox that forbids it."""
        calls = _CALLS.get(platform.machine())
        if sys.platform != "linux" or sys.maxsize < 2**32 or calls is None:
            return None
        try:
            return cls(calls)
        except OSError:
            return None

    def submit(self, fd: int, number: int) -> bool:
        """Starts to sync a file; False: this one must be synced another way."""
        _REQUEST.pack_into(
            self._request, 0, number, 0, 0, _FDSYNC, 0, fd, 0, 0, 0, 0, _RAISE_EVENTFD, self.fd
        )
        try:
            return self._call(self._calls.submit, self._context, 1, self._requests) == 1
        except OSError:
            return False

    def finished(self) -> Iterator[tuple[int, OSError | None]]:
        """The numbers of the flushes that have ended since, and how."""
        os.eventfd_read(self.fd)
        count = self._call(self._calls.getevents, self._context, 0, IN_FLIGHT_MAX, self._events, None)
        for number, _, result, _ in _EVENT.iter_unpack(self._events.raw[: count * _EVENT.size]):
            yield number, OSError(-result, os.strerror(-result)) if result < 0 else None

    def close(self) -> None:
        """Waits for what is under way."""
        self._call(self._calls.destroy, self._context)
        os.close(self.fd)

    def _call(self, *arguments: object) -> int:
        while (result := int(self._syscall(*arguments))) < 0:
            if ctypes.get_errno() != errno.EINTR:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return result
