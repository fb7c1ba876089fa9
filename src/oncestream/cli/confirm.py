"""What destroys is shown first, and done only when a person or `--yes` says so."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from oncestream.errors import NotConfirmed

DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]


def may_go_on(what: Sequence[str], *, dry_run: bool, yes: bool) -> bool:
    """Tells what will be done; False for a dry run, NotConfirmed where nobody agrees."""
    if dry_run:
        for line in what:
            typer.echo(f"would {line}", err=True)
        return False
    if yes:
        return True
    for line in what:
        typer.echo(f"about to {line}", err=True)
    if not sys.stdin.isatty():
        raise NotConfirmed(reason="there is no terminal to ask at")
    try:
        agreed = typer.confirm("Go on?", err=True)
    except typer.Abort:
        raise NotConfirmed(reason="there was no answer") from None
    if not agreed:
        raise NotConfirmed(reason="you said no")
    return True
