"""The stream that a command is about."""

from __future__ import annotations

from typing import Annotated

import typer

from oncestream.cli.command import Call
from oncestream.cli.completion import stream_paths, topics_of_stream
from oncestream.streams.stream import Stream

Path = Annotated[
    str, typer.Argument(help="Path of the stream, such as /apps/pump.", autocompletion=stream_paths)
]
TopicName = Annotated[
    str,
    typer.Argument(help="Name of the topic in its stream, such as warning.", autocompletion=topics_of_stream),
]


def stream_of(call: Call, path: str) -> Stream:
    stream = Stream(path, call.chosen.servers, call.chosen.options)
    call.require_contact()
    return stream
