"""The program Spark starts as "python": asks the worker parent for a fork instead of starting afresh.

Runs as a script, in `python -I -S`, from the session's own folder: it may import the standard library only.
Where the worker parent does not answer, it becomes an ordinary Python that runs the same module.
"""

import array
import json
import os
import signal
import socket
import struct
import sys

HEADER = struct.Struct(">I")
ANSWER = struct.Struct(">i")
SOCKET_NAME = "parent.sock"


def main() -> int:
    folder = os.path.dirname(os.path.abspath(__file__))
    parent = _ask(os.path.join(folder, SOCKET_NAME))
    pid = _answer(parent) if parent is not None else None
    if parent is None or pid is None:
        _become_python(os.path.join(folder, "python"))
        return 1
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda got, _frame: os.kill(pid, got))
    exit_code = _answer(parent)
    return 1 if exit_code is None else exit_code


def _ask(path: str) -> "socket.socket | None":
    if len(sys.argv) < 3 or sys.argv[1] != "-m":
        return None
    request = json.dumps({"argv": sys.argv[2:], "env": dict(os.environ), "cwd": os.getcwd()}).encode()
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(path)
        streams = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))]
        connection.sendmsg([HEADER.pack(len(request))], streams)
        connection.sendall(request)
    except OSError:
        return None
    return connection


def _answer(connection: socket.socket) -> "int | None":
    try:
        data = connection.recv(ANSWER.size, socket.MSG_WAITALL)
    except OSError:
        return None
    return ANSWER.unpack(data)[0] if len(data) == ANSWER.size else None


def _become_python(python: str) -> None:
    os.execv(os.readlink(python), [python, *sys.argv[1:]])  # noqa: S606 -- the session's own interpreter


if __name__ == "__main__":
    sys.exit(main())
