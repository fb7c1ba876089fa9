"""Ports of this machine for servers that must know theirs before they listen.

Whoever gets a port need not listen on it yet: until its process ends, no other process gets the port from here.
"""

from __future__ import annotations

import errno
import fcntl
import os
import random
import socket
import tempfile
from functools import cache
from itertools import cycle, islice
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
# Below the range from which Linux takes source ports, so that a stopped server finds its port free.
PORTS: Final = range(20_000, 32_000)


class Ports:
    """Gives out the ports of a range."""

    def __init__(self, ports: range) -> None:
        self._range = ports
        self._next = cycle(random.sample(ports, len(ports)))

    def take(self, count: int) -> list[int]:
        """Ports that nobody listens on. A process gets none again before it got all others."""
        free = (port for port in islice(self._next, len(self._range)) if _reserve(port) and _can_bind(port))
        taken = list(islice(free, count))
        if len(taken) < count:
            raise OSError(
                errno.EADDRNOTAVAIL, f"{count} ports are needed, {len(taken)} of {self._range} are free"
            )
        return taken


@cache
def _all() -> Ports:
    return Ports(PORTS)


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens on, and that no outgoing connection takes meanwhile."""
    return _all().take(count)


def free_address() -> str:
    """Where a server listens that is killed and started again there."""
    return f"{HOST}:{free_ports(1)[0]}"


def _reserve(port: int) -> bool:
    """Locks the port's byte of a file that all processes of this user share; the lock ends with the process."""
    try:
        fcntl.lockf(_reservations(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


@cache
def _reservations() -> int:
    """Stays open: closing any descriptor of the file would end all locks of this process."""
    path = Path(tempfile.gettempdir()) / f"oncestream-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)


def _can_bind(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
