"""`oncestream pipeline`: run pipelines from a Python file; see how far they are."""

from __future__ import annotations

import logging
import runpy
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Optional

import typer

from oncestream.cli.arguments import pairs
from oncestream.cli.cluster import chosen_cluster
from oncestream.cli.command import Bootstrap, CommandConfig, Profile, command, noun
from oncestream.cli.output import Output, OutputOption
from oncestream.cli.pipeline_dead_letters import dead_letters
from oncestream.cli.pipeline_screen import PipelineScreen
from oncestream.cli.pipeline_status import list_pipelines, status
from oncestream.client.settings import ClientSettings
from oncestream.errors import BadPipelineFile

if TYPE_CHECKING:
    from oncestream.spark.options import OptionNames
    from oncestream.spark.pipeline import Pipeline

MODULE_NAME: Final = "__oncestream_pipelines__"
# What goes wrong is told by the pipeline, in one line: Spark would add pages of Java.
SPARK_SETTINGS: Final = {"spark.log.level": "FATAL"}

UI_SETTING: Final = "spark.ui.enabled"

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
    bootstrap: Bootstrap = None,
    profile: Profile = None,
    command_config: CommandConfig = None,
    checkpoint: Annotated[Optional[str], typer.Option(help="Folder of Spark's checkpoint.")] = None,  # noqa: UP045
    cluster: Annotated[str, typer.Option(help="Spark master: local[*] or spark://HOST:PORT.")] = "local[*]",
    conf: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="NAME=VALUE, a setting of Spark; repeatable."),
    ] = None,
    ui: Annotated[bool, typer.Option("--ui", help="Serve Spark's own page, and print its address.")] = False,
    output: OutputOption = Output.TABLE,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No screen and no line per batch.")] = False,
) -> None:
    """Run a pipeline until it ends or is stopped (Ctrl-C, SIGTERM)."""
    pipeline = load_pipeline(file)
    options = replace(pipeline.options, **cluster_of(pipeline, bootstrap, profile, command_config))
    changes: dict[str, Any] = {
        "bootstrap_servers": options.bootstrap_servers,
        "settings": options.settings,
        "delivery": delivery,
        "checkpoint": checkpoint,
        "trigger": "once" if once else None,
    }
    changes = {name: value for name, value in changes.items() if value is not None}
    logging.basicConfig(
        level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s"
    )
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    signal.signal(signal.SIGTERM, _interrupt)
    from oncestream.spark.session import session

    settings = ClientSettings.of(options.servers, options.settings)
    spark_settings = SPARK_SETTINGS | ({UI_SETTING: "true"} if ui else {}) | pairs("--conf", conf or ())
    with PipelineScreen(pipeline.name, settings, output, quiet=quiet) as screen:
        try:
            spark = session(pipeline.name, master=cluster, settings=spark_settings)
            if ui:
                screen.say(f"Spark's own page: {spark.sparkContext.uiWebUrl}")
            pipeline.run(spark, on_outcome=screen.show, **changes)
        except KeyboardInterrupt:
            screen.say("stopped; what is committed stays, the next start goes on from there")


def cluster_of(
    pipeline: Pipeline, bootstrap: str | None, profile: str | None, command_config: Path | None
) -> OptionNames:
    """Options name it first, then the pipeline's file, then what every command asks: environment, profile in use."""
    is_named = any(each is not None for each in (bootstrap, profile, command_config))
    if not is_named and pipeline.options.bootstrap_servers is not None:
        return {}
    chosen = chosen_cluster(bootstrap, profile, command_config, timeout_ms=None)
    return {
        "bootstrap_servers": chosen.servers,
        "settings": {**pipeline.options.settings, **chosen.options},
    }


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
