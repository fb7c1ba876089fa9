"""Arguments that several commands take, and what they stand for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

import typer

from oncestream.cli.completion import topic_names
from oncestream.client.admin import TopicState, describe_topics
from oncestream.client.cluster import Cluster
from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import BadArgument, UnknownTopic
from oncestream.streams.names import parse_topic

TOPIC_HELP: Final = "A Kafka topic, or /path/of/stream:topic."

PARTITION_MAX: Final = 2**31 - 1
REPLICAS_MAX: Final = 2**15 - 1

Topic = Annotated[str, typer.Argument(help=TOPIC_HELP, autocompletion=topic_names)]
Topics = Annotated[list[str], typer.Argument(help=TOPIC_HELP, autocompletion=topic_names)]


def existing_topics(cluster: Cluster, names: Iterable[str]) -> list[TopicState]:
    """The topics of these names; UnknownTopic at once where there is none, without waiting for it to appear."""
    known = {topic.name: topic for topic in describe_topics(cluster)}
    found = []
    for name in names:
        kafka_name = parse_topic(name)
        if kafka_name not in known:
            raise UnknownTopic(topic=name)
        found.append(known[kafka_name])
    return found


def partitions_of(topics: Iterable[TopicState]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, each.partition) for topic in topics for each in topic.partitions]


def pairs(option: str, texts: Iterable[str]) -> dict[str, str]:
    """From `name=value` texts."""
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise BadArgument(name=f"{option} {text!r}", reason="it is not name=value")
        found[name] = value
    return found
