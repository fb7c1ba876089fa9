"""Starts the worker parent beside the driver, and makes the program that Spark is given as its Python."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from oncestream.spark import worker_door

SOCKET_PATH_BYTES_MAX: Final = 100  # Linux takes 107
SHEBANG_BYTES_MAX: Final = 120  # older Linux takes 127


@cache
def worker_python() -> str:
    """The path for PYSPARK_PYTHON; starts the worker parent once per process, so call it early."""
    folder = Path(tempfile.mkdtemp(prefix="oncestream-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    shebang = f"#!{sys.executable} -IS"
    path = folder / worker_door.SOCKET_NAME
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES_MAX or len(os.fsencode(shebang)) > SHEBANG_BYTES_MAX:
        return sys.executable
    (folder / "python").symlink_to(sys.executable)
    door = folder / "worker_door.py"
    door.write_text(f"{shebang}\n{Path(worker_door.__file__).read_text()}")
    door.chmod(0o700)
    _start_parent(path)
    return str(door)


def _start_parent(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen(1024)
        # Spark's workers hash strings alike, and numpy must start no threads in a process that forks.
        env = os.environ | {
            "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0"),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "YES",
        }
        parent = subprocess.Popen(  # noqa: S603 -- this interpreter, this package
            [sys.executable, "-m", "oncestream.spark.worker_parent", str(listener.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=(listener.fileno(),),
            env=env,
            start_new_session=True,
        )
    atexit.register(_stop_parent, parent)


def _stop_parent(parent: subprocess.Popen[bytes]) -> None:
    assert parent.stdin is not None
    parent.stdin.close()
    parent.wait()
