"""`oncestream broker`: run the embedded broker."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Optional

import typer

from oncestream.cli.command import noun
from oncestream.cli.password import PasswordFile, ask_password

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
    """Start a broker and serve until Ctrl-C or SIGTERM."""  # main.py reads these options, too
    from oncestream.cli.serving import start_broker

    start_broker(
        data=data, listen=listen, config=config, settings=set_ or [], insecure=insecure, verbose=verbose
    )


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
