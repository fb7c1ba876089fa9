"""`oncestream pipeline`: run pipelines from a Python file; see how far they are."""

from __future__ import annotations

import logging
import runpy
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Optional

import typer

from oncestream.cli.command import command, noun
from oncestream.cli.pipeline_dead_letters import dead_letters
from oncestream.cli.pipeline_screen import PipelineScreen
from oncestream.cli.pipeline_status import list_pipelines, status
from oncestream.errors import BadPipelineFile

if TYPE_CHECKING:
    from oncestream.spark.pipeline import Pipeline

MODULE_NAME: Final = "__oncestream_pipelines__"
# What goes wrong is told by the pipeline, in one line: Spark would add pages of Java.
SPARK_SETTINGS: Final = {"spark.log.level": "FATAL"}

app = noun("Exactly-once pipelines on Spark.")
command(app, "list")(list_pipelines)
command(app, "status")(status)
command(app, "dead-letters")(dead_letters)


@app.command()
def run(
    file: Annotated[str, typer.Argument(help="FILE.py, or FILE.py:NAME where it holds several pipelines.")],
    delivery: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="exactly-once, at-least-once or at-most-once."),
    ] = None,
    once: Annotated[
        bool,
        typer.Option("--once/--continuous", help="Read what there is and stop, or go on for good."),
    ] = False,
    bootstrap: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="HOST:PORT of Kafka or of the embedded broker."),
    ] = None,
    checkpoint: Annotated[Optional[str], typer.Option(help="Folder of Spark's checkpoint.")] = None,  # noqa: UP045
    cluster: Annotated[str, typer.Option(help="Spark master: local[*] or spark://HOST:PORT.")] = "local[*]",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No screen and no line per batch.")] = False,
) -> None:
    """Run a pipeline until it ends or is stopped (Ctrl-C, SIGTERM)."""
    pipeline = load_pipeline(file)
    changes: dict[str, Any] = {"delivery": delivery, "bootstrap_servers": bootstrap, "checkpoint": checkpoint}
    changes = {name: value for name, value in changes.items() if value is not None}
    if once:
        changes["trigger"] = "once"
    logging.basicConfig(
        level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    signal.signal(signal.SIGTERM, _interrupt)
    from oncestream.spark.session import session

    servers = bootstrap or pipeline.options.servers
    with PipelineScreen(pipeline.name, servers, pipeline.options.settings, quiet=quiet) as screen:
        try:
            spark = session(pipeline.name, master=cluster, settings=SPARK_SETTINGS)
            pipeline.run(spark, on_outcome=screen.show, **changes)
        except KeyboardInterrupt:
            screen.say("stopped; what is committed stays, the next start goes on from there")


def load_pipeline(file: str) -> Pipeline:
    """The pipeline that `FILE.py` or `FILE.py:NAME` names."""
    from oncestream.spark.pipeline import Pipeline

    path, _, name = file.partition(":")
    if not Path(path).is_file():
        raise BadPipelineFile(file=path, reason="there is no such file")
    sys.path.insert(0, str(Path(path).resolve().parent))
    try:
        # Not a module that can be imported: its functions travel to the workers by value.
        content = runpy.run_path(path, run_name=MODULE_NAME)
    except Exception as error:
        raise BadPipelineFile(file=path, reason=f"{type(error).__name__}: {error}") from error
    found = {key: value for key, value in content.items() if isinstance(value, Pipeline)}
    chosen = {key: value for key, value in found.items() if not name or name in (key, value.name)}
    if len(chosen) != 1:
        names = ", ".join(sorted(found)) or "none"
        reason = f"it holds no pipeline {name!r}" if name else f"it holds {len(found)} pipelines"
        raise BadPipelineFile(file=path, reason=f"{reason}; those in it: {names}")
    return next(iter(chosen.values()))


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
