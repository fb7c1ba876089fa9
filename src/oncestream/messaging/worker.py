"""A thread that owns a client, so that an event loop never waits for it."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Generic, NamedTuple, TypeVar

C = TypeVar("C")
T = TypeVar("T")

BUSY_S: Final = 0.002  # how often a client that expects something is looked after between two jobs


class _Job(NamedTuple):
    run: Callable[[Any], Any]
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[Any]


class Worker(Generic[C]):
    """Runs jobs one after another, in the order they came. `look_after` answers whether to come again soon."""

    def __init__(self, build: Callable[[], C], look_after: Callable[[C], bool] = lambda _: False) -> None:
        self._build = build
        self._look_after = look_after
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._outstanding = 0

    @property
    def is_idle(self) -> bool:
        """No job is running or waiting; only the event loop's thread may ask."""
        return self._outstanding == 0

    async def do(self, run: Callable[[C], T]) -> T:
        """The job runs to its end even if nobody waits for it any more."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="oncestream-messaging", daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._outstanding += 1
        self._jobs.put(_Job(run, loop, done))
        return await done

    def stop(self) -> None:
        self._jobs.put(None)

    def _work(self) -> None:
        client: C | None = None
        is_busy = False
        while True:
            try:
                job = self._jobs.get(timeout=BUSY_S if is_busy else None)
            except queue.Empty:
                assert client is not None
                is_busy = self._look_after(client)
                continue
            if job is None:
                return
            result: Any = None
            error: BaseException | None = None
            try:
                client = client if client is not None else self._build()
                result = job.run(client)
                is_busy = self._look_after(client)
            except BaseException as raised:
                error = raised
            with suppress(RuntimeError):  # the event loop has ended meanwhile
                job.loop.call_soon_threadsafe(self._settle, job.done, result, error)

    def _settle(self, done: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
        self._outstanding -= 1
        settle(done, result, error)


def settle(done: asyncio.Future[Any], result: Any, error: BaseException | None = None) -> None:
    """In the event loop's thread: nothing where the one who waited was cancelled."""
    if done.done():
        return
    if error is not None:
        done.set_exception(error)
    else:
        done.set_result(result)
