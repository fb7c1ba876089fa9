"""How commands are made: a noun, and a command that is given a cluster and the form of its answer."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from oncestream.cli.completion import profile_names
from oncestream.cli.output import Output, OutputOption, Row, show, show_one
from oncestream.errors import BadArgument, OncestreamError

if TYPE_CHECKING:
    from oncestream.cli.cluster import Chosen
    from oncestream.client.cluster import Cluster


F = TypeVar("F", bound=Callable[..., None])

Bootstrap = Annotated[
    str | None, typer.Option("--bootstrap", "-b", help="HOST:PORT of a broker.", show_default=False)
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile", help="Profile made with `oncestream config set`.", autocompletion=profile_names
    ),
]
CommandConfig = Annotated[
    Path | None, typer.Option("--command-config", help="Kafka client settings in a properties file.")
]


class Call:
    """What a command works with: the cluster that its options name, and how to print."""

    def __init__(self, chosen: Chosen, output: Output) -> None:
        self.chosen = chosen
        self.settings = chosen.settings()
        self.output = output
        self.exit_code = 0

    @functools.cached_property
    def cluster(self) -> Cluster:
        from oncestream.client.cluster import Cluster

        cluster = Cluster(self.settings)
        cluster.require_contact()
        return cluster

    def require_contact(self) -> None:
        """Before what connects by itself, and would wait longer for a broker than a person does."""
        _ = self.cluster

    def show(self, rows: Sequence[Row], columns: Sequence[str]) -> None:
        show(rows, self.output, columns)

    def show_one(self, row: Row) -> None:
        show_one(row, self.output)

    def say(self, text: str) -> None:
        """For people, beside the answer."""
        typer.echo(text, err=True)

    def skip(self, error: OncestreamError) -> None:
        """Tells what is left out of the answer, and goes on; the exit code will say so too."""
        from oncestream.cli.app import tell_error

        self.exit_code = tell_error(error)

    def close(self) -> None:
        if "cluster" in self.__dict__:
            self.cluster.close()


def noun(text: str) -> typer.Typer:
    """The app of one noun, to which its module adds commands."""
    app = typer.Typer(help=text, no_args_is_help=True, rich_markup_mode=None, add_completion=False)
    app.callback()(lambda: None)
    return app


def command(app: typer.Typer, name: str | None = None, *, form: Any = OutputOption) -> Callable[[F], F]:
    """Registers a function whose first parameter is a Call; the options that make the Call are added.

    `form`: the option for the form of the answer, where `--output` has another meaning.
    """

    def register(function: F) -> F:
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        parameters = [
            each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for each in [*own, *_COMMON, _common("output", form, Output.TABLE)]
        ]

        @functools.wraps(function)
        def run(
            *,
            bootstrap: str | None,
            profile: str | None,
            command_config: Path | None,
            output: Output,
            **values: Any,
        ) -> None:
            from oncestream.cli.cluster import chosen_cluster

            for each, value in values.items():
                require_finite(each, value)
            call = Call(chosen_cluster(bootstrap, profile, command_config), output)
            try:
                function(call, **values)
            finally:
                call.close()
            if call.exit_code:
                raise typer.Exit(call.exit_code)

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        app.command(name)(run)
        return function

    return register


def require_finite(name: str, value: object) -> None:
    """`nan` and `inf` are numbers to Python, and within every range to typer."""
    if isinstance(value, float) and not math.isfinite(value):
        raise BadArgument(name=f"--{name.replace('_', '-')} {value}", reason="it is not a number")


def _common(name: str, annotation: Any, default: object = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


_COMMON: Final = (
    _common("bootstrap", Bootstrap),
    _common("profile", Profile),
    _common("command_config", CommandConfig),
)
