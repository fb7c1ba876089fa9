"""Runs a pipeline until it ends or a signal comes, whatever Spark is doing at that moment."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from oncestream.spark.running import Running

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
INTERRUPTED: Final = 130


class Stopped(BaseException):
    """A signal asked for the end."""


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Within it the first signal raises Stopped; a second one ends the process at once."""
    before: dict[int, Any] = {number: signal.signal(number, _stop) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_to_end(start: Callable[[], Running]) -> None:
    """Starts a pipeline and waits for its end; Stopped where a signal came first.

    Another thread does all of it: a signal that reaches a thread which waits for Java breaks the way to Java.
    """
    started: Future[Running] = Future()
    ended: Future[None] = Future()

    def work() -> None:
        try:
            started.set_result(start())
            started.result().awaitTermination()
        except BaseException as error:
            ended.set_exception(error)
        else:
            ended.set_result(None)

    # No executor: one would wait for its thread when the process ends.
    Thread(target=work, name="pipeline", daemon=True).start()
    try:
        ended.result()
    finally:
        if started.done():
            started.result().stop()


def _stop(*_: object) -> None:
    for number in SIGNALS:
        signal.signal(number, lambda *_: os._exit(INTERRUPTED))
    raise Stopped
