"""`oncestream topic`: topics of plain Kafka, and those of streams by their full names."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from oncestream.cli.arguments import (
    PARTITION_MAX,
    REPLICAS_MAX,
    Topic,
    Topics,
    existing_topics,
    pairs,
    partitions_of,
)
from oncestream.cli.command import Call, command, noun
from oncestream.cli.confirm import DryRun, Yes, may_go_on
from oncestream.cli.stream_path import stream_of
from oncestream.client.admin import (
    BROKER_DEFAULT,
    NewTopic,
    TopicState,
    create_topics,
    delete_topics,
    describe_topics,
    grow_partitions,
)
from oncestream.client.configs import alter_topic_configs, describe_configs
from oncestream.client.offsets import EARLIEST, LATEST, list_offsets
from oncestream.errors import BadArgument
from oncestream.streams.names import parse_topic

app = noun("Topics, of streams and of plain Kafka.")

Configs = Annotated[
    list[str] | None, typer.Option("--config", "-c", help="Configuration as NAME=VALUE; repeatable.")
]


@command(app)
def create(
    call: Call,
    topics: Topics,
    partitions: Annotated[
        int | None, typer.Option(min=1, max=PARTITION_MAX, help="Number of partitions.")
    ] = None,
    replicas: Annotated[
        int | None, typer.Option(min=1, max=REPLICAS_MAX, help="Copies of each partition.")
    ] = None,
    config: Configs = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="A topic that is there is fine.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Make topics."""
    configs = pairs("--config", config or [])
    wanted = [
        NewTopic(parse_topic(name), partitions or BROKER_DEFAULT, replicas or BROKER_DEFAULT, configs)
        for name in topics
    ]
    for path in sorted({name.partition(":")[0] for name in topics if name.startswith("/")}):
        stream_of(call, path).info()  # NoSuchStream where there is none: no topic is made in its place
    create_topics(call.cluster, wanted, exist_ok=if_not_exists, validate_only=dry_run)
    if dry_run:
        may_go_on([f"create topic {each.name}" for each in wanted], dry_run=True, yes=False)


@command(app, "list")
def list_(
    call: Call,
    every: Annotated[bool, typer.Option("--all", help="Internal topics too.")] = False,
) -> None:
    """All topics that you may see."""
    rows = [
        {
            "topic": topic.name,
            "partitions": len(topic.partitions),
            "replicas": _replicas(topic),
            "internal": topic.is_internal,
        }
        for topic in describe_topics(call.cluster)
        if every or not topic.is_internal
    ]
    call.show(rows, ("topic", "partitions", "replicas", "internal"))


@command(app)
def describe(
    call: Call,
    topic: Topic,
    every: Annotated[bool, typer.Option("--all", help="Configurations that are defaults, too.")] = False,
) -> None:
    """Partitions, offsets and configurations of a topic."""
    state = existing_topics(call.cluster, [topic])[0]
    configs = describe_configs(call.cluster, [state.name])[state.name]
    offsets = {row["partition"]: row for row in _offsets(call, state)}
    partitions = [
        {
            "partition": each.partition,
            "leader": each.leader,
            "replicas": list(each.replicas),
            "in_sync": list(each.in_sync),
            "earliest": offsets[each.partition]["earliest"],
            "last_stable": offsets[each.partition]["last_stable"],
            "end": offsets[each.partition]["end"],
        }
        for each in state.partitions
    ]
    call.show_one(
        {
            "topic": state.name,
            "internal": state.is_internal,
            "replicas": _replicas(state),
            "configs": {entry.name: entry.value for entry in configs if every or not entry.default},
            "partitions": partitions,
        }
    )


@command(app)
def alter(
    call: Call,
    topic: Topic,
    partitions: Annotated[
        int | None, typer.Option(min=1, max=PARTITION_MAX, help="New number of partitions; it only grows.")
    ] = None,
    config: Configs = None,
    dry_run: DryRun = False,
) -> None:
    """Change configurations (NAME= goes back to the default), or add partitions."""
    if partitions is None and not config:
        raise BadArgument(name="topic alter", reason="neither --partitions nor --config is given")
    state = existing_topics(call.cluster, [topic])[0]
    changes = {name: value or None for name, value in pairs("--config", config or []).items()}
    plan = [f"set {name} of {state.name} to {value or 'the default'}" for name, value in changes.items()]
    if partitions is not None:
        plan.append(f"grow {state.name} from {len(state.partitions)} to {partitions} partitions")
    if not may_go_on(plan, dry_run=dry_run, yes=True):
        alter_topic_configs(call.cluster, {state.name: changes}, validate_only=True)
        return
    alter_topic_configs(call.cluster, {state.name: changes})
    if partitions is not None:
        grow_partitions(call.cluster, {state.name: partitions})


@command(app)
def delete(call: Call, topics: Topics, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Delete topics with all their records."""
    names = [state.name for state in existing_topics(call.cluster, topics)]
    if may_go_on([f"delete topic {name} and all its records" for name in names], dry_run=dry_run, yes=yes):
        delete_topics(call.cluster, names)


@command(app)
def offsets(call: Call, topics: Topics) -> None:
    """First offset, last stable offset and end of each partition."""
    rows = [row for state in existing_topics(call.cluster, topics) for row in _offsets(call, state)]
    call.show(rows, ("topic", "partition", "earliest", "last_stable", "end"))


def _offsets(call: Call, state: TopicState) -> list[dict[str, Any]]:
    partitions = partitions_of([state])
    starts = list_offsets(call.cluster, dict.fromkeys(partitions, EARLIEST))
    stable = list_offsets(call.cluster, dict.fromkeys(partitions, LATEST))
    ends = list_offsets(call.cluster, dict.fromkeys(partitions, LATEST), read_committed=False)
    return [
        {
            "topic": each.topic,
            "partition": each.partition,
            "earliest": starts[each],
            "last_stable": stable[each],
            "end": ends[each],
        }
        for each in partitions
    ]


def _replicas(topic: TopicState) -> int:
    return max((len(each.replicas) for each in topic.partitions), default=0)
