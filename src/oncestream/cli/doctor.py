"""`oncestream doctor`: what works here and what would not, with what to do about it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from oncestream.cli.checks_cluster import cluster_checks
from oncestream.cli.checks_machine import State, machine_checks
from oncestream.cli.command import Call, command

COLUMNS: Final = ("state", "check", "detail", "what_to_do")

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@command(app)
def doctor(
    call: Call,
    data: Annotated[Path, typer.Option(help="Data folder of the embedded broker.")] = Path("oncestream-data"),
    listen: Annotated[str, typer.Option(help="Address of the embedded broker.")] = "127.0.0.1:9092",
) -> None:
    """Look for what would keep Oncestream from working here; exit code 1 where something would."""
    checks = [*machine_checks(data, listen), *cluster_checks(call)]
    call.show(
        [
            {
                "state": str(each.state),
                "check": each.name,
                "detail": each.detail,
                "what_to_do": each.what_to_do,
            }
            for each in checks
        ],
        COLUMNS,
    )
    if any(each.state is State.FAIL for each in checks):
        raise typer.Exit(1)
