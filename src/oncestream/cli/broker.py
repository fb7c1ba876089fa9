"""`oncestream broker`: run the embedded broker."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

if TYPE_CHECKING:
    from oncestream.broker.settings import BrokerSettings

app = typer.Typer(help="The embedded broker.", no_args_is_help=True)


@app.callback()
def _noun() -> None:
    """The embedded broker."""


@app.command()
def start(
    data: Annotated[Optional[Path], typer.Option(help="Folder that holds the logs.")] = None,  # noqa: UP045
    listen: Annotated[Optional[str], typer.Option(help="HOST:PORT; port 0 takes any free one.")] = None,  # noqa: UP045
    config: Annotated[Optional[Path], typer.Option(help="Settings in a TOML file.")] = None,  # noqa: UP045
    set_: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option("--set", help="Any setting as name=value (docs/settings.md); repeatable."),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Allow a listener beyond loopback without authentication.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log every connection.")] = False,
) -> None:
    """Start a broker and serve until Ctrl-C or SIGTERM."""
    from oncestream.broker.settings import load_settings

    flags = _pairs(set_ or [])
    given = {"data": data, "listen": listen, "insecure": insecure or None}
    flags.update({name: value for name, value in given.items() if value is not None})
    _serve(load_settings(config, flags=flags), verbose)


def _raise_file_limit() -> None:
    """Connections and log files together need more than the usual 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _pairs(texts: list[str]) -> dict[str, object]:
    from oncestream.errors import BadSetting

    flags: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise BadSetting(name=text, origin="--set", reason="it is not name=value")
        flags[name] = value
    return flags


def _serve(settings: BrokerSettings, verbose: bool) -> None:
    from oncestream.broker.embedded import READY_PREFIX
    from oncestream.broker.runner import new_loop, run_broker

    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )

    def on_ready(address: tuple[str, int]) -> None:
        gc.freeze()  # what start-up made stays; collections need not look at it again and again
        gc.enable()
        host, port = address
        typer.echo(f"{READY_PREFIX}{f'[{host}]' if ':' in host else host}:{port}")

    _raise_file_limit()
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
