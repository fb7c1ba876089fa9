"""`oncestream broker start`: the broker in this process, until it is told to stop. Without typer: see `main.py`."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from oncestream import machine
from oncestream.broker.embedded import READY_PREFIX
from oncestream.broker.runner import new_loop, run_broker
from oncestream.broker.settings import BrokerSettings, load_settings
from oncestream.errors import BadSetting


def start_broker(
    *,
    data: Path | None,
    listen: str | None,
    config: Path | None,
    settings: Sequence[str],
    insecure: bool,
    verbose: bool,
) -> None:
    """Serves until Ctrl-C or SIGTERM; `settings` are texts like name=value."""
    flags = _pairs(settings)
    given = {"data": data, "listen": listen, "insecure": insecure or None}
    flags.update({name: value for name, value in given.items() if value is not None})
    _serve(load_settings(config, flags=flags), verbose)


def _pairs(texts: Sequence[str]) -> dict[str, object]:
    flags: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise BadSetting(name=text, origin="--set", reason="it is not name=value")
        flags[name] = value
    return flags


def _serve(settings: BrokerSettings, verbose: bool) -> None:
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )

    def on_ready(addresses: str) -> None:
        gc.freeze()  # what start-up made stays; collections need not look at it again and again
        gc.enable()
        sys.stdout.write(f"{READY_PREFIX}{addresses}\n")
        sys.stdout.flush()

    machine.raise_file_limit()  # connections and log files together need more than the usual 1024
    gc.disable()
    loop = new_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        loop.run_until_complete(run_broker(settings, stop, on_ready))
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
