"""`oncestream verify`: every input accounted for once in the outputs of a pipeline."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from oncestream.cli.arguments import existing_topics
from oncestream.cli.command import Call, command
from oncestream.cli.completion import pipeline_names, topic_names
from oncestream.cli.output import Output
from oncestream.cli.progress import progress
from oncestream.errors import BadArgument
from oncestream.verify.audit import audit_topics

KEY_HELP: Final = "value, key, header:NAME, json:$.PATH, key.json:$.PATH, or several joined by ' + '."

app = typer.Typer(rich_markup_mode=None, add_completion=False)


# `--output` names a topic here, as the input does.
FormOption = Annotated[Output, typer.Option("-o", "--form", help="Form of the answer.")]


@command(app, form=FormOption)
def verify(
    call: Call,
    outputs: Annotated[
        list[str],
        typer.Option("--output", help="Topic with outputs; repeatable.", autocompletion=topic_names),
    ],
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", help="Topic with inputs; repeatable.", autocompletion=topic_names),
    ] = None,
    pipeline: Annotated[
        str | None,
        typer.Option(
            help="Inputs count below what this pipeline has committed.", autocompletion=pipeline_names
        ),
    ] = None,
    key: Annotated[str, typer.Option(help=f"What identifies a record: {KEY_HELP}")] = "value",
    output_key: Annotated[
        str | None, typer.Option(help="The same for outputs, where they have it elsewhere.")
    ] = None,
    compare: Annotated[
        str | None, typer.Option(help="What must be equal in an input and its output, such as value.")
    ] = None,
) -> None:
    """Look for inputs without an output, outputs too many and outputs that differ; exit code 1 where one is found."""
    if not inputs and pipeline is None:
        raise BadArgument(name="what to verify", reason="give --pipeline NAME, or --input TOPIC")
    found = existing_topics(call.cluster, [*(inputs or []), *outputs])
    names = [topic.name for topic in found]
    with progress("offsets") as advance:
        report = audit_topics(
            call.settings,
            input_topics=names[: len(names) - len(outputs)],
            output_topics=names[len(names) - len(outputs) :],
            key=key,
            output_key=output_key,
            compare=compare,
            pipeline=pipeline,
            on_progress=advance,
            on_damage=call.skip,
        )
    if call.output is Output.TABLE:
        typer.echo(report.text())
    else:
        call.show_one(report.content())
    if not report.ok:
        raise typer.Exit(1)
