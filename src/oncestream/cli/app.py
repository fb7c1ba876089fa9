"""The commands of `oncestream`. Errors are told with cause and suggestion, never as a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

import oncestream
from oncestream.errors import BadArgument, OncestreamError, Unexpected

USAGE_EXIT_CODE: Final = 2
INTERRUPTED: Final = 130
TRACE_VARIABLE: Final = "ONCESTREAM_TRACEBACK"

# One module of this package per noun, imported when its noun is called and not before.
NOUNS: Final = {
    "broker": "The embedded broker.",
    "stream": "Streams: named collections of topics that share their attributes.",
    "topic": "Topics, of streams and of plain Kafka.",
    "cursor": "Cursors: how far the consumer groups are.",
    "produce": "Write lines or JSON from standard input to a topic.",
    "consume": "Print the records of topics.",
    "txn": "Transactions: who holds what, and for how long.",
    "pipeline": "Exactly-once pipelines on Spark.",
    "verify": "Look whether every input has its output once.",
    "torture": "Kill, freeze and cut a cluster and its clients, and check that nothing is lost or doubled.",
    "user": "Users and their passwords.",
    "acl": "Access rights as Kafka has them.",
    "quota": "Limits of bytes per second, by user or client id.",
    "doctor": "Look for what would keep Oncestream from working here.",
    "config": "Profiles: several clusters and how to reach them.",
}


class Nouns(TyperGroup):
    """Lists the nouns without importing them; imports the one that is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: TyperCommand(name, help=text) for name, text in NOUNS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, listed, rest = super().resolve_command(ctx, args)
        if listed is None:
            return name, listed, rest
        app = import_module(f"oncestream.cli.{name}").app
        return name, typer.main.get_command(app), rest


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(oncestream.__version__)
        raise typer.Exit


app = typer.Typer(
    name="oncestream",
    cls=Nouns,
    help="Exactly-once event streams for Python and Spark.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
)


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Exactly-once event streams for Python and Spark."""


def run(commands: typer.Typer = app, arguments: Sequence[str] | None = None) -> int:
    """Runs the command that was typed; the exit code."""
    try:
        _require_text(sys.argv[1:] if arguments is None else arguments)
        return commands(arguments, prog_name="oncestream", standalone_mode=False) or 0
    except typer.TyperException as error:
        return _usage(error)
    except typer.Abort:
        return INTERRUPTED
    except Exception as error:
        return tell_error(error)


def _require_text(arguments: Sequence[str]) -> None:
    """Bytes that are no UTF-8 come as halves of characters, which no name in Kafka can have."""
    for each in arguments:
        try:
            each.encode()
        except UnicodeEncodeError:
            raise BadArgument(name=ascii(each), reason="it is no UTF-8 text") from None


def tell_error(error: Exception) -> int:
    """The exit code. What is no error of this package is a fault of it, and its traceback is for those who mend it."""
    if not isinstance(error, OncestreamError):
        if TRACE_VARIABLE in os.environ:
            raise error
        error = Unexpected(kind=type(error).__name__, reason=error, variable=TRACE_VARIABLE)
    _tell(error.cause_text, error.suggestion_text)
    return error.exit_code


def _usage(error: typer.TyperException) -> int:
    """A wrong option or argument; the page of help where nothing was asked for."""
    message = error.format_message()
    if message.startswith("Usage:"):
        typer.echo(message, err=True)
    else:
        where = getattr(error, "ctx", None)
        path = where.command_path if where is not None else "oncestream"
        _tell(message.rstrip("."), f"see {path} --help")
    return USAGE_EXIT_CODE


def _tell(cause: str, suggestion: str) -> None:
    typer.echo(f"error: {cause}", err=True)
    typer.echo(f"what to do: {suggestion}", err=True)
