"""The worker parent: a process that has imported everything a Python worker needs, and forks at a request.

Importing pandas, pyarrow and pyspark takes 1.5 s; Spark would do it anew in each of its Python processes. A
request (see worker_door.py) carries arguments, environment, folder and the three standard streams; the fork
becomes that process. The parent ends when the driver's end of its standard input closes.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple, NoReturn

from oncestream.spark.worker_door import ANSWER, HEADER

REQUEST_BYTES_MAX: Final = 16 << 20
REQUEST_TIMEOUT_S: Final = 10.0
SIGNALS_MAX: Final = 4096
PRELOADED: Final = (
    "numpy",
    "pyarrow",
    "pyarrow.compute",
    "pandas",
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.streaming.datasource",
    "oncestream.spark.source",
    "oncestream.spark.tasks",
)


class Request(NamedTuple):
    """The process that Spark asked for."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    streams: list[int]


class Child(NamedTuple):
    pid: int
    connection: socket.socket


def main(listener: socket.socket) -> None:
    """Serve until standard input closes. Requests that come while modules load wait in the backlog."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for module in PRELOADED:
        # What cannot be imported here fails in the worker, where Spark shows it to the user.
        with suppress(ImportError):
            importlib.import_module(module)
    gc.collect()
    gc.freeze()
    with selectors.DefaultSelector() as selector, _signals_of_children() as ended:
        selector.register(listener, selectors.EVENT_READ)
        selector.register(ended, selectors.EVENT_READ)
        selector.register(0, selectors.EVENT_READ)
        _serve(listener, ended, selector)


@contextmanager
def _signals_of_children() -> Iterator[socket.socket]:
    """What it gives is readable once a child has ended: on every system, unlike a descriptor of the child."""
    ended, waker = socket.socketpair()
    with ended, waker:
        ended.setblocking(False)
        waker.setblocking(False)
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        yield ended
        signal.set_wakeup_fd(-1)


def _serve(listener: socket.socket, ended: socket.socket, selector: selectors.BaseSelector) -> None:
    children: dict[int, Child] = {}
    while True:
        for key, _ in selector.select():
            if key.fileobj is listener:
                _accept(listener, selector, children)
            elif key.fileobj is ended:
                ended.recv(SIGNALS_MAX)
                _reap(selector, children)
            elif not isinstance(key.data, Child):
                return
            elif key.data.pid in children:
                # The door was killed: whoever wanted the process wants it no more.
                selector.unregister(key.data.connection)
                os.kill(key.data.pid, signal.SIGTERM)


def _accept(listener: socket.socket, selector: selectors.BaseSelector, children: dict[int, Child]) -> None:
    connection, _ = listener.accept()
    connection.settimeout(REQUEST_TIMEOUT_S)
    try:
        request = _receive(connection)
    except (OSError, ValueError):
        connection.close()
        return
    pid = os.fork()
    if pid == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        selector.close()
        listener.close()
        connection.close()
        _become(request)
    for stream in request.streams:
        os.close(stream)
    child = children[pid] = Child(pid, connection)
    selector.register(connection, selectors.EVENT_READ, child)
    with suppress(OSError):
        connection.sendall(ANSWER.pack(pid))


def _reap(selector: selectors.BaseSelector, children: dict[int, Child]) -> None:
    """Tells the doors of all children that have ended; one signal may stand for several."""
    for child in list(children.values()):
        pid, status = os.waitpid(child.pid, os.WNOHANG)
        if not pid:
            continue
        del children[pid]
        with suppress(KeyError):
            selector.unregister(child.connection)
        with suppress(OSError):
            child.connection.sendall(ANSWER.pack(os.waitstatus_to_exitcode(status) & 0xFF))
        child.connection.close()


def _receive(connection: socket.socket) -> Request:
    head, streams, _, _ = socket.recv_fds(connection, HEADER.size, 3)
    (size,) = HEADER.unpack(head)
    if size > REQUEST_BYTES_MAX or len(streams) != 3:
        raise ValueError("not a request of worker_door.py")
    body = bytearray()
    while len(body) < size:
        chunk = connection.recv(size - len(body))
        if not chunk:
            raise ValueError("the request ended early")
        body += chunk
    return Request(**json.loads(body), streams=streams)


def _become(request: Request) -> NoReturn:
    exit_code = 1
    try:
        for number, stream in enumerate(request.streams):
            os.dup2(stream, number)
            os.close(stream)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.clear()
        os.environ.update(request.env)
        os.chdir(request.cwd)
        sys.argv = list(request.argv)
        sys.path[:] = _python_path(request.env.get("PYTHONPATH", ""))
        traceback.print_exc = print_error  # type: ignore[assignment]  # how Spark's daemon tells what ends a worker
        runpy.run_module(request.argv[0], run_name="__main__", alter_sys=True)
        exit_code = 0
    except SystemExit as end:
        exit_code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        for output in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                output.flush()
        os._exit(exit_code & 0xFF)


def print_error() -> None:
    """The error just caught; not that the JVM has ended first, as it does when a query stops: no one waits then."""
    error = sys.exception()
    if error is not None and not isinstance(error, BrokenPipeError | ConnectionResetError):
        traceback.print_exception(error)


def _python_path(wanted: str) -> list[str]:
    """This process' path, and what the request adds to it but Spark's archives: those are imported already."""
    added = [part for part in wanted.split(os.pathsep) if part and part not in sys.path]
    return sys.path + [part for part in added if not part.endswith((".zip", ".jar"))]
