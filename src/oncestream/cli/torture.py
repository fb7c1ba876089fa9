"""`oncestream torture`: clients, a pipeline and faults together, and a check of all that came out."""

from __future__ import annotations

import random
import shutil
import signal
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from oncestream.cli.command import require_finite
from oncestream.cli.torture_screen import TortureScreen
from oncestream.errors import BadArgument, DataFolderUnusable, SparkMissing

if TYPE_CHECKING:
    from oncestream.verify.torture_cluster import Victim

NODES: Final = (0, 1, 3)
SEEDS: Final = 1_000_000
# A client's numbers have room for a thousand lives; it has about four a minute.
MINUTES_MAX: Final = 200

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def torture(
    minutes: Annotated[
        float, typer.Option(min=0.05, max=MINUTES_MAX, help="How long faults are made.")
    ] = 2.0,
    seed: Annotated[
        int | None, typer.Option(help="The same seed makes the same faults at the same times.")
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap", "-b", help="A cluster that is there, without TLS; its brokers are left alone."
        ),
    ] = None,
    kafka_nodes: Annotated[
        int,
        typer.Option(help="1 or 3: start Apache Kafka with so many nodes, instead of the embedded broker."),
    ] = 0,
    data: Annotated[
        Path | None, typer.Option(help="Folder for data and histories; a temporary one if not given.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Folder for torture.txt, torture.json and torture.html.")
    ] = None,
    no_spark: Annotated[bool, typer.Option("--no-spark", help="Without a pipeline on Spark.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No screen.")] = False,
) -> None:
    """Torture the embedded broker, Apache Kafka or a cluster that is there; exit code 1 on any anomaly."""
    require_finite("minutes", minutes)
    if kafka_nodes not in NODES:
        raise BadArgument(name=f"--kafka-nodes {kafka_nodes}", reason="it is 1 or 3")
    if bootstrap is not None and kafka_nodes:
        raise BadArgument(name="--bootstrap with --kafka-nodes", reason="it is one or the other")
    if not no_spark and find_spec("pyspark") is None:
        raise SparkMissing(name="torture", package="pyspark")
    signal.signal(signal.SIGTERM, _interrupt)
    number = random.randrange(SEEDS) if seed is None else seed  # noqa: S311 - to be repeated
    folder = _new_folder(data, number)
    victim = _victim(folder, bootstrap, kafka_nodes)
    if not _run(victim, folder, number, minutes, report, spark=not no_spark, quiet=quiet):
        raise typer.Exit(1)


def _new_folder(data: Path | None, seed: int) -> Path:
    try:
        if data is not None:
            data.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=f"oncestream-torture-{seed}-", dir=data))
    except OSError as error:
        raise DataFolderUnusable(folder=data or tempfile.gettempdir(), reason=error.strerror) from None


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _victim(folder: Path, bootstrap: str | None, nodes: int) -> Victim:
    from oncestream.verify.torture_cluster import Apache, Embedded, Given

    if bootstrap is not None:
        return Given(bootstrap)
    return Apache(folder, nodes) if nodes else Embedded(folder)


def _run(
    victim: Victim,
    folder: Path,
    seed: int,
    minutes: float,
    report: Path | None,
    *,
    spark: bool,
    quiet: bool,
) -> bool:
    """Whether all is well; then the folder goes."""
    from oncestream.verify.torture import run_torture

    done = False
    try:
        with TortureScreen(victim.name, seed, quiet=quiet) as screen:
            found = run_torture(
                victim, folder, seed=seed, duration_s=minutes * 60, spark=spark, on_progress=screen.show
            )
        done = found.ok
        found.save(report or folder)
        typer.echo(found.text())
    finally:
        if done:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            again = f"--seed {seed} --minutes {minutes:g}"
            typer.echo(f"data, histories and logs are kept in {folder}; to run it again: {again}", err=True)
    return done
