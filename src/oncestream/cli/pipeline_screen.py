"""What a person, or a program, sees of a running pipeline: a live screen, a line per batch, JSON lines, or nothing."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self

import typer

from oncestream.cli.output import Output
from oncestream.cli.pipeline_watch import PipelineWatch, Standing
from oncestream.cli.sparkline import sparkline
from oncestream.client.settings import ClientSettings

if TYPE_CHECKING:
    from rich.table import Table

    from oncestream.spark.batch import Outcome

SAMPLES_MAX: Final = 60  # of a sparkline
SAMPLE_S: Final = 1.0
REFRESHES_PER_S: Final = 4
NUMBER_WIDTH: Final = 10
LABELS_WIDTH: Final = 38  # of all that stands beside a sparkline


class View(Protocol):
    """How outcomes are shown."""

    def show(self, outcome: Outcome) -> None: ...

    def say(self, text: str) -> None: ...

    def close(self) -> None: ...


class PipelineScreen:
    """A context manager; `show` takes the outcome of every batch."""

    def __init__(self, name: str, settings: ClientSettings, output: Output, *, quiet: bool) -> None:
        self._view = _view(name, settings, output, quiet=quiet)
        self._has_shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and not self._has_shown:
            self._view.say("nothing new: all there is was read before")
        self._view.close()

    def show(self, outcome: Outcome) -> None:
        self._has_shown = True
        self._view.show(outcome)

    def say(self, text: str) -> None:
        self._view.say(text)


def _view(name: str, settings: ClientSettings, output: Output, *, quiet: bool) -> View:
    if quiet:
        return _Silence()
    if output is not Output.TABLE:
        return _JsonLines()
    return _Live(name, settings) if sys.stdout.isatty() else _Lines()


class _Silence:
    def show(self, outcome: Outcome) -> None:
        pass

    def say(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass


class _Lines(_Silence):
    def show(self, outcome: Outcome) -> None:
        typer.echo(outcome.line())

    def say(self, text: str) -> None:
        typer.echo(text)


class _JsonLines(_Silence):
    """An object per batch on standard output; what is for people alone goes to standard error."""

    def show(self, outcome: Outcome) -> None:
        typer.echo(json.dumps(outcome._asdict(), ensure_ascii=False))

    def say(self, text: str) -> None:
        typer.echo(text, err=True)


class _Live:
    """A screen that is drawn anew; rates are of whole seconds."""

    def __init__(self, name: str, settings: ClientSettings) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console()
        self._title = f"pipeline {name} on {settings.bootstrap_servers}"
        self._begun = self._sampled = time.monotonic()
        self._batches = self._rows = self._dead = 0
        self._unsampled_rows = 0
        self._standing = Standing()
        self._rates, self._batch_ms, self._commit_ms, self._lags = (_samples() for _ in range(4))
        self._last_dead: str | None = None
        self._live = Live(
            console=self._console, get_renderable=self._table, refresh_per_second=REFRESHES_PER_S
        )
        self._live.start()
        self._watch = PipelineWatch(name, settings, self._stands)
        self._watch.start()

    def show(self, outcome: Outcome) -> None:
        self._batches += 1
        self._rows += outcome.rows
        self._dead += outcome.dead
        self._unsampled_rows += outcome.rows
        self._batch_ms.append(outcome.total_s * 1000)
        self._commit_ms.append(outcome.commit_s * 1000)
        self._last_dead = outcome.first_dead or self._last_dead

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False)

    def close(self) -> None:
        self._watch.stop()
        self._live.refresh()
        self._live.stop()

    def _stands(self, standing: Standing) -> None:
        self._standing = standing
        if standing.lag is not None:
            self._lags.append(standing.lag)

    def _table(self) -> Table:
        from rich.table import Table

        self._sample()
        width = max(0, min(SAMPLES_MAX, self._console.width - LABELS_WIDTH))
        table = Table(
            title=f"{self._title}, for {_span(time.monotonic() - self._begun)}",
            title_justify="left",
            show_header=False,
        )
        table.add_column(style="bold", no_wrap=True)
        table.add_column(justify="right", min_width=NUMBER_WIDTH)
        table.add_column(no_wrap=True, min_width=width)
        table.add_row("rows", f"{self._rows:,}", f"in {self._batches:,} batches")
        table.add_row("rows/s", _last(self._rates, ",.0f"), sparkline(self._rates, width))
        table.add_row("lag", _last(self._lags, ",.0f"), sparkline(self._lags, width))
        table.add_row("batch", _last(self._batch_ms, ",.0f", " ms"), sparkline(self._batch_ms, width))
        table.add_row("commit", _last(self._commit_ms, ",.0f", " ms"), sparkline(self._commit_ms, width))
        table.add_row("dead letters", f"{self._dead:,}", self._last_dead or "")
        table.add_row("transaction", "", self._standing.transaction or "-")
        return table

    def _sample(self) -> None:
        now = time.monotonic()
        elapsed = now - self._sampled
        if elapsed >= SAMPLE_S:
            self._rates.append(self._unsampled_rows / elapsed)
            self._sampled, self._unsampled_rows = now, 0


def _samples() -> deque[float]:
    return deque(maxlen=SAMPLES_MAX)


def _last(values: Iterable[float], form: str, unit: str = "") -> str:
    *_, last = [None, *values]
    return "-" if last is None else f"{last:{form}}{unit}"


def _span(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
