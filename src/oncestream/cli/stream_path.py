"""The stream that a command is about."""

from __future__ import annotations

from typing import Annotated

import typer

from oncestream.cli.command import Call
from oncestream.streams.stream import Stream

Path = Annotated[str, typer.Argument(help="Path of the stream, such as /apps/pump.")]
TopicName = Annotated[str, typer.Argument(help="Name of the topic in its stream, such as warning.")]


def stream_of(call: Call, path: str) -> Stream:
    stream = Stream(path, call.chosen.servers, call.chosen.options)
    call.require_contact()
    return stream
