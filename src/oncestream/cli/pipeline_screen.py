"""What a person sees of a running pipeline: a live table, or one line per batch where there is no terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from oncestream.errors import OncestreamError

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

    from oncestream.spark.batch import Outcome

LAG_INTERVAL_S: Final = 1.0
LAG_READ_BYTES_MAX: Final = 1024 * 1024  # the pipeline should have the broker to itself
RATE_WINDOW_S: Final = 10.0


class PipelineScreen:
    """Takes outcomes of batches and shows them; asks for the lag in a thread of its own."""

    def __init__(self, name: str, servers: str, settings: Mapping[str, str], *, quiet: bool) -> None:
        self._name = name
        self._servers = servers
        self._settings = settings
        self._quiet = quiet
        self._live: Live | None = None
        self._rows = self._dead = self._batches = 0
        self._recent: list[tuple[float, int]] = []
        self._last: Outcome | None = None
        self._last_dead: str | None = None
        self._lag: int | None = None
        self._stop = threading.Event()
        self._asking = threading.Thread(target=self._ask_lag, name="lag", daemon=True)

    def __enter__(self) -> Self:
        if self._quiet:
            return self
        if sys.stdout.isatty():
            from rich.live import Live

            self._live = Live(self._table(), refresh_per_second=4)
            self._live.start()
            self._asking.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._live is not None:
            self._live.update(self._table())
            self._live.stop()

    def show(self, outcome: Outcome) -> None:
        """After every batch."""
        now = time.monotonic()
        self._last = outcome
        self._batches += 1
        self._rows += outcome.rows
        self._dead += outcome.dead
        self._last_dead = outcome.first_dead or self._last_dead
        self._recent = [(at, rows) for at, rows in self._recent if now - at < RATE_WINDOW_S]
        self._recent.append((now, outcome.rows))
        if self._live is not None:
            self._live.update(self._table())
        elif not self._quiet:
            self.say(outcome.line())

    def say(self, text: str) -> None:
        print(text, flush=True)  # noqa: T201

    def _table(self) -> Table:
        from rich.table import Table

        title = f"pipeline {self._name} on {self._servers}"
        table = Table(title=title, title_justify="left", caption_justify="left")
        for heading in ("batches", "rows", "rows/s", "dead letters", "lag", "last batch", "its transaction"):
            table.add_column(heading, justify="right")
        last = self._last
        table.add_row(
            f"{self._batches:,}",
            f"{self._rows:,}",
            f"{self._rate():,.0f}",
            f"{self._dead:,}",
            "?" if self._lag is None else f"{self._lag:,}",
            "" if last is None else f"{last.total_s * 1000:.0f} ms",
            "" if last is None else f"{last.commit_s * 1000:.0f} ms",
        )
        if self._last_dead is not None:
            table.caption = f"last dead letter: {self._last_dead}"
        return table

    def _rate(self) -> float:
        if not self._recent:
            return 0.0
        elapsed = max(time.monotonic() - self._recent[0][0], 1.0)
        return sum(rows for _, rows in self._recent) / elapsed

    def _ask_lag(self) -> None:
        from oncestream.client.cluster import Cluster
        from oncestream.client.lag import group_lags, total_records
        from oncestream.client.settings import ClientSettings

        cluster = Cluster(ClientSettings.of(self._servers, self._settings))
        while not self._stop.wait(LAG_INTERVAL_S):
            try:
                lags = group_lags(cluster, self._name, read_bytes_max=LAG_READ_BYTES_MAX)
                self._lag = total_records(lags)
            except OncestreamError:
                self._lag = None
            if self._live is not None:
                self._live.update(self._table())
        cluster.close()
