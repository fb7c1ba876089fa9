"""`oncestream`: the command line's entry. Errors are told with cause and suggestion, never as a traceback."""

from __future__ import annotations

import sys

import typer

from oncestream.cli import broker, pipeline
from oncestream.errors import OncestreamError

app = typer.Typer(
    name="oncestream",
    help="Exactly-once event streams for Python and Spark.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)
app.add_typer(broker.app, name="broker")
app.add_typer(pipeline.app, name="pipeline")


@app.callback()
def _root() -> None:
    """Exactly-once event streams for Python and Spark."""


def main() -> None:
    try:
        app()
    except OncestreamError as error:
        print(f"error: {error.cause_text}", file=sys.stderr)  # noqa: T201
        print(f"what to do: {error.suggestion_text}", file=sys.stderr)  # noqa: T201
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
