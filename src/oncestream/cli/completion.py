"""What the shell offers after Tab: names of the cluster, or the profiles, that the line names so far.

It comes within a second or not at all, and never with an error.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:
    from oncestream.client.cluster import Cluster

DEADLINE_S: Final = 0.5  # the rest of the second is the start of Python
Offer = Callable[[typer.Context, str], list[str]]


def _topics(cluster: Cluster, _: typer.Context) -> Iterable[str]:
    return cluster.topics_matching(".*")


def _groups(cluster: Cluster, _: typer.Context) -> Iterable[str]:
    from oncestream.client.groups import list_groups

    return (each.group for each in list_groups(cluster))


def _transactional_ids(cluster: Cluster, _: typer.Context) -> Iterable[str]:
    from oncestream.client.inspection import list_transactions

    return (each.transactional_id for each in list_transactions(cluster))


def _pipelines(cluster: Cluster, context: typer.Context) -> Iterable[str]:
    """A pipeline's name is its group's and its transactional id. Those that read files alone have no group."""
    return set(_groups(cluster, context)) & set(_transactional_ids(cluster, context))


def _streams(cluster: Cluster, _: typer.Context) -> Iterable[str]:
    from oncestream.streams.stream import list_streams

    return (each.path for each in list_streams(cluster))


def _topics_of_stream(cluster: Cluster, context: typer.Context) -> Iterable[str]:
    from oncestream.streams.names import StreamPath
    from oncestream.streams.topics import kafka_topics_of

    path = StreamPath(context.params["path"])
    return (path.topic_name(topic) or "" for topic in kafka_topics_of(cluster, path))


def _users(cluster: Cluster, _: typer.Context) -> Iterable[str]:
    from oncestream.client.users import list_users

    return list_users(cluster)


def _profiles(_: typer.Context) -> Iterable[str]:
    from oncestream.cli.profiles import load_profiles

    return load_profiles().entries


def _of_cluster(names: Callable[[Cluster, typer.Context], Iterable[str]]) -> Offer:
    def look(context: typer.Context) -> Iterable[str]:
        from oncestream.cli.cluster import chosen_cluster
        from oncestream.client.cluster import Cluster

        options = (context.params.get(name) for name in ("bootstrap", "profile", "command_config"))
        timeout_ms = round(DEADLINE_S * 1000)
        return names(Cluster(chosen_cluster(*options, timeout_ms=timeout_ms).settings()), context)

    return _offer(look)


def _offer(look: Callable[[typer.Context], Iterable[str]]) -> Offer:
    def offer(ctx: typer.Context, incomplete: str) -> list[str]:
        found: list[str] = []

        def collect() -> None:
            with suppress(Exception):  # whoever presses Tab has typed half a line: any of it may be wrong
                found.extend(sorted(name for name in look(ctx) if name.startswith(incomplete)))

        looking = threading.Thread(target=collect, daemon=True)
        looking.start()
        looking.join(DEADLINE_S)
        return found

    return offer


topic_names: Final = _of_cluster(_topics)
group_names: Final = _of_cluster(_groups)
transactional_ids: Final = _of_cluster(_transactional_ids)
pipeline_names: Final = _of_cluster(_pipelines)
stream_paths: Final = _of_cluster(_streams)
topics_of_stream: Final = _of_cluster(_topics_of_stream)
user_names: Final = _of_cluster(_users)
profile_names: Final = _offer(_profiles)
