"""`oncestream stream assign`: who reads the topics of a stream now."""

from __future__ import annotations

from typing import Final

from oncestream.cli.command import Call, command, noun
from oncestream.cli.stream_cursor import Group, Topic
from oncestream.cli.stream_path import Path, stream_of

COLUMNS: Final = ("group", "topic", "partition", "member_id", "client_id", "host")

app = noun("Who reads the topics of a stream.")


@command(app, "list")
def list_(call: Call, path: Path, consumergroup: Group = None, topic: Topic = None) -> None:
    """Which member of which group reads which partition."""
    call.show([each._asdict() for each in stream_of(call, path).assignments(consumergroup, topic)], COLUMNS)
