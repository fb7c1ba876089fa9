"""`make demo`: files with transactions, loaded exactly once by a pipeline that is killed twice on the way.

Starts the embedded broker, serves a few thousand small files over local HTTP, produces their URLs (some
twice, some of broken or missing files), runs files_with_transactions.py, SIGKILLs it twice while it writes,
and reads everything back. The exit code is 1 where anything is not as it should be.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Final

from rich.console import Console

import oncestream as once
from examples.demo.files import File, make_files, serve, shuffled_with_repeats
from examples.demo.plot import svg_plot, terminal_plot
from examples.demo.proof import prove
from examples.demo.run import Crashes, rows_before
from examples.demo.topics import create_topics, produce_urls

FILES: Final = 3000
SEED: Final = 20261115
OUTPUT: Final = Path(".cache") / "demo"
WIDTH_MIN: Final = 110


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--files", type=int, default=FILES, help="how many files to load")
    arguments.add_argument("--output", type=Path, default=OUTPUT, help="folder of the plot and the logs")
    given = arguments.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    for old in given.output.glob("run-*.log"):
        old.unlink()
    console = Console()
    console.width = max(console.width, WIDTH_MIN)
    random = Random(SEED)
    files = make_files(given.files, random)
    listed = shuffled_with_repeats(files, random)
    with tempfile.TemporaryDirectory(prefix="oncestream-demo-") as folder:
        holds = demo(console, files, listed, Path(folder), given.output)
    return 0 if holds else 1


def demo(console: Console, files: list[File], listed: list[File], folder: Path, output: Path) -> bool:
    """Whether the proof holds."""
    begun = time.monotonic()
    with once.Broker(folder / "broker", process=True) as broker, serve(files) as address:
        servers = broker.bootstrap_servers
        create_topics(servers)
        stands = produce_urls(servers, address, listed)
        console.print(
            f"broker up on [bold]{servers}[/], {len(files):,} files on {address}: {len(listed):,} URLs"
            f" produced, {len(listed) - len(files):,} of them repeats,"
            f" {sum(file.fault is not None for file in files):,} files broken or missing,"
            f" {rows_before(stands, None):,} rows to load"
        )
        story = Crashes(servers, folder / "checkpoint", output, stands, console).run()
        proof = prove(servers, address, stands, story)
    plot = output / "rows-over-time.svg"
    plot.write_text(svg_plot(story.points, story.kills))
    console.print(terminal_plot(story.points, story.kills), "")
    console.print(proof.table(time.monotonic() - begun))
    console.print(f"the plot: {plot.absolute()}, what the pipeline said: {output.absolute()}/run-*.log")
    console.print(
        "[bold green]every row exactly once[/]"
        if proof.holds
        else "[bold red]NOT as it should be: see the lines that do not hold[/]"
    )
    return proof.holds


if __name__ == "__main__":
    sys.exit(main())
