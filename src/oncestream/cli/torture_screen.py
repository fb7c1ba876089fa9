"""What `oncestream torture` shows while it runs: a table on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from oncestream.verify.torture_live import Progress

LINE_EVERY_S: Final = 10.0
MEBI: Final = 1024 * 1024


class TortureScreen:
    """A context manager; `show` takes what `run_torture` tells."""

    def __init__(self, cluster: str, seed: int, *, quiet: bool) -> None:
        self._title = f"torture of {cluster}, seed {seed}"
        self._quiet = quiet
        self._live: Any = None
        self._told_at = 0.0

    def __enter__(self) -> Self:
        if self._quiet:
            return self
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), refresh_per_second=4)
            self._live.start()
        else:
            typer.echo(self._title, err=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, progress: Progress) -> None:
        if self._live is not None:
            self._live.update(self._table(progress))
        elif not self._quiet and time.monotonic() - self._told_at >= LINE_EVERY_S:
            self._told_at = time.monotonic()
            cells = ", ".join(f"{name} {text}" for name, text in _cells(progress).items())
            typer.echo(f"{progress.efforts.seconds:6.0f} s  {progress.stage}: {cells}", err=True)

    def _table(self, progress: Progress) -> Table:
        from rich.table import Table

        left = f"{progress.efforts.seconds:.0f} of {progress.duration_s:.0f} s, {progress.stage}"
        table = Table(title=f"{self._title}\n{left}", title_justify="left", show_header=False)
        for name, text in _cells(progress).items():
            table.add_row(name, text)
        table.add_row("anomalies", "known when all is checked")
        return table


def _cells(progress: Progress) -> dict[str, str]:
    done, counts = progress.efforts, progress.counts
    memory = ", ".join(f"{size // MEBI} MiB" for size in progress.memory_bytes.values())
    return {
        "operations": f"{counts['events']:,}",
        "records": f"{counts['sent']:,}",
        "committed": f"{counts['committed']:,}",
        "aborted": f"{counts['aborted']:,}",
        "polls": f"{counts['polls']:,}",
        "processes": f"{done.lives:,}",
        "kills": f"{done.kills:,}",
        "freezes": f"{done.freezes:,}",
        "clock jumps": f"{done.clock_jumps:,}",
        "disk faults": f"{done.disk_faults:,}",
        "network faults": f"{done.network_faults:,}",
        "requests hit": f"{done.requests_hit:,}",
        "broker memory": memory or "-",
    }
