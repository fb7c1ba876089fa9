"""A broker for Python programs: in a thread of this process, or in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from oncestream import machine
from oncestream.broker.runner import new_loop, run_broker
from oncestream.broker.settings import ENVIRONMENT_PREFIX, BrokerSettings, load_settings
from oncestream.errors import BrokerFailed, OncestreamError

START_SECONDS_MAX: Final = 60.0
STOP_SECONDS_MAX: Final = 60.0
READY_PREFIX: Final = "oncestream broker ready on "
OPEN_FILES_MIN: Final = 1024  # macOS begins with 256, fewer than the log files that are kept open


class Broker:
    """An embedded broker.

    with (
        Broker("data") as broker,
        confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer,
    ):
        producer.produce("greetings", b"hello")

    Listens on a free port of 127.0.0.1 unless told otherwise. `process=True` runs it in a child process, which
    can be killed without harm to this one; its log goes to `log_file`, if that is set before the start.
    Other keyword arguments are settings (docs/settings.md).
    """

    def __init__(self, data: str | Path, *, process: bool = False, **settings: object) -> None:
        flags: dict[str, object] = {"listen": "127.0.0.1:0", **settings, "data": data}
        self.settings: BrokerSettings = load_settings(environment={}, flags=flags)
        self._flags = flags
        self._in_process = not process
        self.log_file: Path | None = None
        self._addresses: list[str] = []
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._child: subprocess.Popen[str] | None = None

    @property
    def bootstrap_servers(self) -> str:
        """What clients put into `bootstrap.servers`; with several listeners, that of the first."""
        if not self._addresses:
            raise BrokerFailed(folder=self.settings.data, reason="it is not running")
        return self._addresses[0].rpartition("//")[2]

    def bootstrap_servers_of(self, protocol: str) -> str:
        """The same for one of several listeners, such as SASL_SSL."""
        for address in self._addresses:
            if address.startswith(f"{protocol}://"):
                return address.rpartition("//")[2]
        raise BrokerFailed(folder=self.settings.data, reason=f"it is not running with a listener {protocol}")

    @property
    def pid(self) -> int:
        """The process the broker runs in."""
        return self._child.pid if self._child is not None else os.getpid()

    def start(self) -> Self:
        if self._addresses:
            raise BrokerFailed(folder=self.settings.data, reason="it is running already")
        if self._in_process:
            self._start_thread()
        else:
            self._start_child()
        return self

    def stop(self) -> None:
        """Stops cleanly: everything is flushed, the next start needs no recovery."""
        self._addresses = []
        if self._loop is not None and self._stop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(STOP_SECONDS_MAX)
            self._thread = None
            self._raise_failure()
        if self._child is not None:
            self._child.send_signal(signal.SIGTERM)
            self._end_child()

    def kill(self) -> None:
        """SIGKILL, as a crash would do it; only with `process=True`."""
        if self._child is None:
            raise BrokerFailed(
                folder=self.settings.data, reason="only a broker with process=True can be killed"
            )
        self._addresses = []
        self._child.kill()
        self._end_child()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._addresses:
            self.stop()

    # -- in a thread --------------------------------------------------------------------------

    def _start_thread(self) -> None:
        self._failure = None
        machine.raise_file_limit(OPEN_FILES_MIN)
        ready = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(ready,), name="oncestream-broker", daemon=True
        )
        self._thread.start()
        if not ready.wait(START_SECONDS_MAX):
            raise BrokerFailed(folder=self.settings.data, reason=f"not ready after {START_SECONDS_MAX:.0f} s")
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            self._thread = None
            raise self._failure

    def _run(self, ready: threading.Event) -> None:
        loop = new_loop()
        asyncio.set_event_loop(loop)
        self._loop, self._stop = loop, asyncio.Event()

        def on_ready(addresses: str) -> None:
            self._addresses = addresses.split(",")
            ready.set()

        try:
            settings = replace(self.settings, busy_poll_us=0)  # the program would wait for the lock of Python
            loop.run_until_complete(self._serve(settings, self._stop, on_ready))
        except OncestreamError as error:
            self._failure = error
        except BaseException as error:
            self._failure = BrokerFailed(folder=self.settings.data, reason=repr(error))
            self._failure.__cause__ = error
        finally:
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()
            ready.set()

    async def _serve(
        self, settings: BrokerSettings, stop: asyncio.Event, on_ready: Callable[[str], None]
    ) -> None:
        """What the thread runs; a subclass may give it another disk or clock."""
        await run_broker(settings, stop, on_ready)

    # -- in a process of its own --------------------------------------------------------------

    def _start_child(self) -> None:
        command = self._command([f"{name}={_flag_text(value)}" for name, value in self._flags.items()])
        ours = {key: text for key, text in os.environ.items() if not key.startswith(ENVIRONMENT_PREFIX)}
        with contextlib.ExitStack() as files:
            log = None if self.log_file is None else files.enter_context(self.log_file.open("ab"))
            child = subprocess.Popen(  # noqa: S603
                command, stdout=subprocess.PIPE, stderr=log, env=ours, text=True
            )
        self._child = child
        assert child.stdout is not None
        line = child.stdout.readline()
        if not line.startswith(READY_PREFIX):
            child.wait(STOP_SECONDS_MAX)
            self._end_child()
            raise BrokerFailed(folder=self.settings.data, reason="its process ended; see its error above")
        self._addresses = line.removeprefix(READY_PREFIX).strip().split(",")

    def _command(self, flags: list[str]) -> list[str]:
        set_flags = [text for flag in flags for text in ("--set", flag)]
        return [sys.executable, "-m", "oncestream.cli.main", "broker", "start", *set_flags]

    def _end_child(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.wait(STOP_SECONDS_MAX)
        if child.stdout is not None:
            child.stdout.close()


def _flag_text(value: object) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}={item}" for key, item in value.items())
    return str(value)
