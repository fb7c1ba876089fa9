"""`oncestream broker`: run the embedded broker."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from oncestream.cli.command import noun
from oncestream.cli.password import PasswordFile, ask_password

if TYPE_CHECKING:
    from oncestream.broker.settings import BrokerSettings

app = noun("The embedded broker.")


class UserMechanism(StrEnum):
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


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


@app.command("add-user")
def add_user(
    name: Annotated[str, typer.Argument(help="The user's name.")],
    data: Annotated[
        Path, typer.Option(help="Folder of a broker that does not run; made if it is not there.")
    ],
    password_file: PasswordFile = None,
    mechanism: Annotated[
        Optional[list[UserMechanism]],  # noqa: UP045
        typer.Option(help="How the user logs in; repeatable. Both if none is given."),
    ] = None,
) -> None:
    """Make a user, or give it another password, while the broker is stopped: so the first one gets in."""
    from oncestream.broker.security.scram import Mechanism
    from oncestream.broker.security.users import add_user_offline

    chosen = [Mechanism[each.name] for each in mechanism or UserMechanism]
    add_user_offline(data, name, ask_password(password_file), chosen)


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

    def on_ready(addresses: str) -> None:
        gc.freeze()  # what start-up made stays; collections need not look at it again and again
        gc.enable()
        typer.echo(f"{READY_PREFIX}{addresses}")

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
