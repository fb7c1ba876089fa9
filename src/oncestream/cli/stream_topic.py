"""`oncestream stream topic`: the topics of a stream."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from oncestream.cli.arguments import PARTITION_MAX
from oncestream.cli.command import Call, command, noun
from oncestream.cli.confirm import DryRun, Yes, may_go_on
from oncestream.cli.stream_path import Path, TopicName, stream_of
from oncestream.streams.topics import TopicInfo

COLUMNS: Final = ("topic", "kafka_topic", "partitions")

app = noun("The topics of a stream.")


@command(app)
def create(
    call: Call,
    path: Path,
    topic: TopicName,
    partitions: Annotated[
        int | None, typer.Option(min=1, max=PARTITION_MAX, help="Default: what the stream says.")
    ] = None,
) -> None:
    """Make a topic with the attributes of its stream."""
    stream_of(call, path).create_topic(topic, partitions)


@command(app)
def edit(
    call: Call,
    path: Path,
    topic: TopicName,
    partitions: Annotated[
        int, typer.Option(min=1, max=PARTITION_MAX, help="New number of partitions; it only grows.")
    ],
) -> None:
    """Give a topic more partitions."""
    stream_of(call, path).edit_topic(topic, partitions)


@command(app)
def delete(call: Call, path: Path, topic: TopicName, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Delete a topic with all its records."""
    stream = stream_of(call, path)
    stream.topic_info(topic)
    if may_go_on([f"delete topic {path}:{topic} and all its records"], dry_run=dry_run, yes=yes):
        stream.delete_topic(topic)


@command(app)
def info(call: Call, path: Path, topic: TopicName) -> None:
    """Partitions and offsets of a topic, and where it differs from its stream."""
    found = stream_of(call, path).topic_info(topic)
    call.show_one(
        {
            **_row(found),
            "configs": dict(found.configs),
            "strays": dict(found.strays),
            "partitions": [
                {
                    "partition": each.partition,
                    "leader": each.leader,
                    "replicas": list(each.replicas),
                    "in_sync": list(each.in_sync),
                    "earliest": each.earliest,
                    "last_stable": each.stable,
                    "end": each.latest,
                }
                for each in found.partitions
            ],
        }
    )


@command(app, "list")
def list_(call: Call, path: Path) -> None:
    """The topics of a stream."""
    stream = stream_of(call, path)
    call.show([_row(stream.topic_info(name)) for name in stream.topics()], COLUMNS)


def _row(topic: TopicInfo) -> dict[str, Any]:
    return {"topic": topic.name, "kafka_topic": topic.kafka_topic, "partitions": len(topic.partitions)}
