"""`oncestream pipeline`: run pipelines from a Python file; see how far they are."""

from __future__ import annotations

import logging
import runpy
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
from oncestream.cli.pipeline_run import Stopped, run_to_end, stopped_by_signals
from oncestream.cli.pipeline_screen import PipelineScreen
from oncestream.cli.pipeline_status import list_pipelines, status
from oncestream.client.settings import ClientSettings
from oncestream.errors import BadPipelineFile, OncestreamError

if TYPE_CHECKING:
    from oncestream.spark.options import OptionNames, PipelineOptions
    from oncestream.spark.pipeline import Pipeline
    from oncestream.spark.running import Running

MODULE_NAME: Final = "__oncestream_pipelines__"

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
    missing_source: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Where a source topic has never existed: wait for it, make it, or fail."),
    ] = None,
    conf: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(help="NAME=VALUE, a setting of Spark; may be given several times."),
    ] = None,
    ui: Annotated[bool, typer.Option("--ui", help="Spark's own page; its address is printed.")] = False,
    output: OutputOption = Output.TABLE,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No screen and no line per batch.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also tracebacks, and what Spark logs.")
    ] = False,
) -> None:
    """Run a pipeline until it ends or is stopped (Ctrl-C, SIGTERM)."""
    given = {
        "delivery": delivery,
        "checkpoint": checkpoint,
        "missing_source": missing_source,
        "trigger": "once" if once else None,
    }
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    spark_settings = _spark_settings(conf or [], ui=ui, verbose=verbose)
    _log_to_stderr(verbose)
    with stopped_by_signals():
        try:
            pipeline = load_pipeline(file)
            options = pipeline.check(**changes, **cluster_of(pipeline, bootstrap, profile, command_config))
            settings = ClientSettings.of(options.servers, options.settings)
            with PipelineScreen(pipeline.name, settings, output, quiet=quiet) as screen:
                options = replace(options, on_outcome=screen.show)
                _run(pipeline, options, cluster, spark_settings, screen if ui else None)
        except Stopped:
            said = "stopped; what is committed stays, the next start goes on from there"
            typer.echo(said, err=output is not Output.TABLE)


def _run(
    pipeline: Pipeline,
    options: PipelineOptions,
    master: str,
    settings: dict[str, str],
    tells_address: PipelineScreen | None,
) -> None:
    from oncestream.spark.failure import told
    from oncestream.spark.session import session

    def start() -> Running:
        spark = session(pipeline.name, master=master, settings=settings)
        if tells_address is not None:
            tells_address.say(f"Spark's own page: {spark.sparkContext.uiWebUrl}")
        return pipeline.start_checked(spark, options)

    try:
        run_to_end(start)
    except Exception as error:
        raise told(error, pipeline.name) from None


def cluster_of(
    pipeline: Pipeline, bootstrap: str | None, profile: str | None, command_config: Path | None
) -> OptionNames:
    """The cluster that the options name; else that of the definition, where it names one."""
    if not (bootstrap or profile or command_config) and pipeline.options.bootstrap_servers is not None:
        return {}
    chosen = chosen_cluster(bootstrap, profile, command_config, timeout_ms=None)
    settings = {**pipeline.options.settings, **chosen.options}
    return {"bootstrap_servers": chosen.servers, "settings": settings}


def _spark_settings(conf: list[str], *, ui: bool, verbose: bool) -> dict[str, str]:
    settings = {"spark.log.level": "WARN"} if verbose else {}
    if ui:
        settings["spark.ui.enabled"] = "true"
    return settings | pairs("--conf", conf)


def _log_to_stderr(verbose: bool) -> None:
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(message)s",
    )
    # What goes wrong is told once, by the pipeline.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)


def load_pipeline(file: str) -> Pipeline:
    """The pipeline that `FILE.py` or `FILE.py:NAME` names."""
    import oncestream

    oncestream.pipeline  # noqa: B018 -- SparkMissing where PySpark is not installed
    from oncestream.spark.failure import file_failed
    from oncestream.spark.pipeline import Pipeline

    path, _, name = file.partition(":")
    if not Path(path).is_file():
        raise BadPipelineFile(file=path, reason="there is no such file")
    sys.path.insert(0, str(Path(path).resolve().parent))
    try:
        # Not a module that can be imported: its functions travel to the workers by value.
        content = runpy.run_path(path, run_name=MODULE_NAME)
    except OncestreamError:
        raise
    except (Exception, SystemExit) as error:
        raise file_failed(path, error) from None
    found = {key: value for key, value in content.items() if isinstance(value, Pipeline)}
    chosen = {key: value for key, value in found.items() if not name or name in (key, value.name)}
    if len(chosen) != 1:
        names = ", ".join(sorted(found)) or "none"
        reason = f"it holds no pipeline {name!r}" if name else f"it holds {len(found)} pipelines"
        raise BadPipelineFile(file=path, reason=f"{reason}; those in it: {names}")
    return next(iter(chosen.values()))
