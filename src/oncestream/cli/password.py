"""Passwords: from a prompt, a file or standard input, never from an argument that others can see."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from oncestream.errors import BadArgument

PasswordFile = Annotated[
    Path | None,
    typer.Option("--password-file", help="File whose first line is the password; - is standard input."),
]


def ask_password(file: Path | None) -> str:
    """From the file; else from a prompt, twice; else, without a terminal, the first line of standard input."""
    if file is not None and str(file) != "-":
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadArgument(name=f"--password-file {file}", reason=f"it cannot be read: {error}") from None
        password = text.split("\n", 1)[0]
    elif file is None and sys.stdin.isatty():
        password = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = _typed()
    password = password.rstrip("\r\n")
    if not password:
        raise BadArgument(name="the password", reason="it is empty")
    return password


def _typed() -> str:
    try:
        return sys.stdin.readline()
    except UnicodeDecodeError:
        raise BadArgument(name="the password", reason="it is no UTF-8 text") from None
