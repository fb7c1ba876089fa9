"""What differs between operating systems, here Linux and macOS: no other module asks on which one it runs.

Where a system lacks a function, its absence decides, not the system's name. All of this is tested on Linux, with
the functions taken away that macOS lacks; none of it has run on a Mac.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from oncestream.errors import SystemUnsupported

try:
    import fcntl
    import resource
except ImportError as error:
    raise SystemUnsupported(missing=error.name) from error

_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
_CPU_MAX: Final = "/sys/fs/cgroup/cpu.max"  # of a container: microseconds, or "max", in a period
_FULL_SYNC: Final[int | None] = getattr(fcntl, "F_FULLFSYNC", None)  # macOS only, as the next
_PATH_OF: Final[int | None] = getattr(fcntl, "F_GETPATH", None)
# How file systems of macOS say that they have no F_FULLFSYNC: smb, then webdav and fuse, then zfs.
_NO_FULL_SYNC: Final = frozenset({errno.ENOTSUP, errno.EINVAL, errno.ENOTTY})
_OPEN_FILES_MAX: Final = 10_240  # OPEN_MAX of macOS, which refuses more although it calls its limit infinite
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_PATH_BYTES_MAX: Final = 1024
_ID_BYTES_MAX: Final = 64
_TIMEX_BYTES: Final = 512
_TIME_ERROR: Final = 5  # of adjtimex(2): the clock is not synchronised

# -- the disk ----------------------------------------------------------------------------------


def _full_sync(fd: int) -> None:
    """The `fsync` of macOS leaves data in the cache of the disk."""
    assert _FULL_SYNC is not None
    try:
        fcntl.fcntl(fd, _FULL_SYNC)
    except OSError as error:
        if error.errno not in _NO_FULL_SYNC:
            raise  # the flush itself failed: a second one may succeed although the data is lost
        os.fsync(fd)


# Chosen once: every acknowledged write waits for a call.
sync_file: Final[Callable[[int], None]] = os.fsync if _FULL_SYNC is None else _full_sync
sync_data: Final[Callable[[int], None]] = (
    getattr(os, "fdatasync", os.fsync) if _FULL_SYNC is None else _full_sync
)


def path_of(fd: int) -> str:
    """Where an open file lies."""
    if _PATH_OF is None:
        return os.readlink(f"/proc/self/fd/{fd}")
    return os.fsdecode(fcntl.fcntl(fd, _PATH_OF, bytes(_PATH_BYTES_MAX)).rstrip(b"\0"))


def raise_file_limit(wanted: int | None = None) -> None:
    """Lets this process open as many files as the system allows, or at least as many as `wanted`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = hard if wanted is None or 0 <= hard < wanted else wanted
    if soft == hard or 0 <= limit <= soft:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    except (ValueError, OSError):
        if soft < _OPEN_FILES_MAX:
            resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES_MAX, hard))


# -- the machine -------------------------------------------------------------------------------


def boot_id() -> bytes | None:
    """Names this start of the machine; None where the system has no name for it.

    When it started (`kern.boottime`) is no such name: it moves when the clock is set.
    """
    with suppress(OSError), open(_BOOT_ID, "rb") as file:
        return file.read().strip()
    return _system_value(b"kern.bootsessionuuid")


def usable_cores() -> int:
    """How many cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_quota(cpu_max: str | os.PathLike[str] = _CPU_MAX) -> float:
    """How many cores' time the container gets; infinite without a limit."""
    try:
        with open(cpu_max) as file:
            quota, period = file.read().split()
        return float(quota) / float(period)
    except (OSError, ValueError):
        return float("inf")


def is_clock_synchronised() -> bool | None:
    """As far as the kernel knows; None where it cannot be asked."""
    import ctypes

    try:
        told = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    except (OSError, AttributeError):
        return None
    return None if told < 0 else told != _TIME_ERROR


def _system_value(name: bytes) -> bytes | None:
    """A text of sysctl(3), which Linux does not have."""
    import ctypes

    try:
        ask = ctypes.CDLL(None).sysctlbyname
    except (OSError, AttributeError):
        return None
    ask.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    value = ctypes.create_string_buffer(_ID_BYTES_MAX)
    size = ctypes.c_size_t(_ID_BYTES_MAX)
    return value.value or None if ask(name, value, ctypes.byref(size), None, 0) == 0 else None


# -- processes ---------------------------------------------------------------------------------


# Whether a process that has imported numpy, pandas and pyarrow may fork. Not on macOS: the system's own libraries,
# which they load, may start threads, and a fork lacks them.
MAY_FORK_LOADED: Final = sys.platform != "darwin"


def resident_bytes(pid: int) -> int | None:
    """The memory of a process; None where it is gone."""
    try:
        if not _has_proc():
            return next((int(kib) * 1024 for kib in _listed("rss=", "-p", str(pid))), None)
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * _PAGE_BYTES
    except OSError:
        return None


def children_of(pid: int) -> list[int]:
    """The processes that a process has started and that are alive."""
    if not _has_proc():
        pairs = (line.split() for line in _listed("pid=,ppid=", "-A"))
        return [int(child) for child, parent in pairs if int(parent) == pid]
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError), open(f"/proc/{pid}/task/{thread}/children") as file:
                found += map(int, file.read().split())
    return found


def command_lines() -> Iterator[bytes]:
    """Those of all processes that may be looked at; what stands between arguments differs."""
    if not _has_proc():
        yield from _listed("command=", "-A", "-ww")
        return
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with suppress(OSError), open(f"/proc/{name}/cmdline", "rb") as file:
                yield file.read()


def _has_proc() -> bool:
    return os.path.exists("/proc/self/statm")


def _listed(columns: str, *which: str) -> list[bytes]:
    """What ps(1) says, a line for each process."""
    import subprocess

    command = ["ps", "-o", columns, *which]
    said = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)  # noqa: S603
    return said.stdout.splitlines()
