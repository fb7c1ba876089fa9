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

import oncestream
from oncestream.spark import worker_door

SOCKET_PATH_BYTES_MAX: Final = 100  # Linux takes 107
SHEBANG_BYTES_MAX: Final = 120  # older Linux takes 127
# The driver may have this package from a folder that a fresh interpreter does not look into.
PROGRAM: Final = """\
import socket, sys
sys.path.append(sys.argv[2])
from oncestream.spark.worker_parent import main
main(socket.socket(fileno=int(sys.argv[1])))
"""


@cache
def worker_python() -> str:
    """The path for PYSPARK_PYTHON; starts the worker parent once per process, so call it early."""
    folder = Path(tempfile.mkdtemp(prefix="oncestream-"))
    shebang = f"#!{sys.executable} -IS"
    path = folder / worker_door.SOCKET_NAME
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES_MAX or len(os.fsencode(shebang)) > SHEBANG_BYTES_MAX:
        folder.rmdir()
        return sys.executable
    (folder / "python").symlink_to(sys.executable)
    door = folder / "worker_door.py"
    door.write_text(f"{shebang}\n{Path(worker_door.__file__).read_text()}")
    door.chmod(0o700)
    atexit.register(_clean_up, os.getpid(), _start_parent(path), folder)
    return str(door)


def _start_parent(path: Path) -> subprocess.Popen[bytes]:
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
        return subprocess.Popen(  # noqa: S603 -- this interpreter, this package
            [
                sys.executable,
                "-c",
                PROGRAM,
                str(listener.fileno()),
                str(Path(oncestream.__file__).parents[1]),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=(listener.fileno(),),
            env=env,
            start_new_session=True,
        )


def _clean_up(driver: int, parent: subprocess.Popen[bytes], folder: Path) -> None:
    if os.getpid() != driver:
        return  # a fork of the driver ends, not the driver
    assert parent.stdin is not None
    parent.stdin.close()
    parent.wait()
    shutil.rmtree(folder, ignore_errors=True)
