"""Python without what macOS lacks, and with what macOS has instead, as far as Linux can stand in for it.

Reaches every Python that inherits the environment: the broker's process, Spark's workers.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

FLUSHES: Final = "MAC_LIKE_FLUSHES"  # a file that gets one byte for each F_FULLFSYNC
FULL_SYNC_ERROR: Final = "MAC_LIKE_FULL_SYNC_ERROR"  # the number by which F_FULLFSYNC is refused, if it is
PROGRAM: Final = """\
import builtins, errno, fcntl, io, os, resource, select, socket, sys

MISSING = {
    os: ("fdatasync", "pidfd_open", "waitid", "waitid_result", "posix_fadvise", "posix_fallocate",
         "sched_getaffinity", "sched_setaffinity", "copy_file_range", "memfd_create", "eventfd", "preadv2"),
    select: ("epoll",),
    socket: ("MSG_MORE", "SOCK_CLOEXEC", "SOCK_NONBLOCK"),
}
F_GETPATH, F_FULLFSYNC, OPEN_MAX, INFINITY = 50, 51, 10240, 2**63 - 1
real_fcntl, real_setrlimit, real_getrlimit = fcntl.fcntl, resource.setrlimit, resource.getrlimit
real_readlink, real_open = os.readlink, os.open
hard = real_getrlimit(resource.RLIMIT_NOFILE)[1]

for module, names in MISSING.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)

if hasattr(os, "process_cpu_count"):  # from Python 3.13 on; it asks sched_getaffinity
    os.process_cpu_count = os.cpu_count


def without_linux_files(function):
    def wrapped(path, *args, **kwargs):
        if isinstance(path, (str, bytes, os.PathLike)) and os.fsdecode(path).startswith(("/proc", "/sys")):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return function(path, *args, **kwargs)
    return wrapped


for module, name in ((os, "stat"), (os, "open"), (os, "readlink"), (builtins, "open"), (io, "open")):
    setattr(module, name, without_linux_files(getattr(module, name)))
for name in ("listdir", "scandir"):
    real = getattr(os, name)
    setattr(os, name, lambda path=".", real=without_linux_files(real): real(path))


def fcntl_of_macos(fd, command, argument=0):
    if command == F_FULLFSYNC:
        flushes = real_open(os.environ["MAC_LIKE_FLUSHES"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(flushes, b".")
        os.close(flushes)
        if refused := int(os.environ.get("MAC_LIKE_FULL_SYNC_ERROR", 0)):
            raise OSError(refused, os.strerror(refused))
        os.fsync(fd)
        return 0
    if command == F_GETPATH:
        path = os.fsencode(real_readlink(f"/proc/self/fd/{fd}"))
        return path + bytes(len(argument) - len(path))
    return real_fcntl(fd, command, argument)


def getrlimit(which):
    soft, most = real_getrlimit(which)
    return (soft, INFINITY) if which == resource.RLIMIT_NOFILE else (soft, most)


def setrlimit(which, limits):
    if which == resource.RLIMIT_NOFILE:
        if limits[0] > OPEN_MAX:
            raise ValueError("current limit exceeds maximum limit")
        limits = (min(limits[0], hard), hard)
    real_setrlimit(which, limits)


real_setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))
fcntl.F_GETPATH, fcntl.F_FULLFSYNC, fcntl.fcntl = F_GETPATH, F_FULLFSYNC, fcntl_of_macos
resource.getrlimit, resource.setrlimit = getrlimit, setrlimit

# Other packages are built for Linux: only ours takes this for a Mac.
linux, sys.platform = sys.platform, "darwin"
import oncestream.machine
sys.platform = linux
"""


def mac_like(folder: Path, *, full_sync_error: int = 0) -> dict[str, str]:
    """The environment of a child process for which this machine is like a Mac."""
    home = folder / "mac-like"
    home.mkdir()
    (home / "sitecustomize.py").write_text(PROGRAM)
    ours = {"PYTHONPATH": str(home), FLUSHES: str(folder / "flushes"), FULL_SYNC_ERROR: str(full_sync_error)}
    return {**os.environ, **ours}


def flushes(folder: Path) -> int:
    """How often F_FULLFSYNC was asked for."""
    path = folder / "flushes"
    return path.stat().st_size if path.exists() else 0
