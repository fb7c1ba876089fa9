"""The life of a stream: made, changed, deleted.

Every step first says in the stream's descriptor what is to be, then does it: what breaks off half-way is not
shown as a stream, or is finished by the same call again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from oncestream.client.acls import Acl
from oncestream.client.admin import create_topics, delete_topics
from oncestream.client.cluster import Cluster
from oncestream.client.configs import alter_topic_configs
from oncestream.errors import (
    BadStreamAttribute,
    NoSuchStream,
    RequestRefused,
    StreamExists,
    StreamHasTopics,
)
from oncestream.streams.attributes import PERMISSIONS, AttributeNames, StreamAttributes
from oncestream.streams.descriptor import Descriptor, State
from oncestream.streams.descriptor_log import Snapshot, erase_descriptor, read_snapshot, write_descriptor
from oncestream.streams.names import StreamPath
from oncestream.streams.permissions import (
    acls_of,
    default_permissions,
    refuse_if_off,
    rules_there,
    set_rules,
)
from oncestream.streams.topics import kafka_topics_of, new_topic
from oncestream.wire.error_codes import ErrorCode

# Called with how many topics are done, of how many.
Progress = Callable[[int, int], None]

TOPICS_PER_REQUEST: Final = 100
PROBE_TOPIC: Final = "probe"  # checked, never made
_RULED: Final = frozenset({*PERMISSIONS, "auto_create"})  # attributes that access rules come from


class Deletion(NamedTuple):
    """What goes with a stream: its topics, by their names in it, and its access rules."""

    topics: tuple[str, ...]
    rules: tuple[Acl, ...]


def ready_stream(cluster: Cluster, path: StreamPath) -> Descriptor:
    """NoSuchStream where there is none, or one that is only half made or half deleted."""
    found = read_snapshot(cluster).find(path)
    if found is None or found.state is not State.READY:
        raise NoSuchStream(path=path)
    return found


def create(
    cluster: Cluster,
    path: StreamPath,
    given: AttributeNames,
    *,
    like: StreamPath | None,
    adopt: bool,
    on_progress: Progress | None,
) -> None:
    snapshot = read_snapshot(cluster)
    _refuse_taken(path, snapshot)
    attributes = _new_attributes(cluster, path, given, like)
    _check_replicas(cluster, path, attributes)
    topics = list(kafka_topics_of(cluster, path))
    if topics and not adopt:
        raise StreamHasTopics(path=path, topics=", ".join(topics[:3]))
    now_ms = _now_ms()
    new = Descriptor(
        path=path,
        attributes=attributes,
        state=State.CREATING,
        revision=0,
        owner=cluster.settings.sasl_username,
        created_ms=now_ms,
        edited_ms=now_ms,
    )
    snapshot = write_descriptor(cluster, new, snapshot)
    set_rules(cluster, path, acls_of(path, attributes))
    _set_configs(cluster, topics, attributes, on_progress)
    write_descriptor(cluster, new.changed(State.READY, attributes, now_ms), snapshot)


def edit(cluster: Cluster, path: StreamPath, given: AttributeNames, *, on_progress: Progress | None) -> None:
    """Without attributes: makes the rules and the topics what the stream says that they are."""
    snapshot = read_snapshot(cluster)
    old = snapshot.find(path)
    if old is None or old.state is not State.READY:
        raise NoSuchStream(path=path)
    attributes = old.attributes.replaced(given)
    if given.keys() & set(PERMISSIONS) and rules_there(cluster, path) is None:
        refuse_if_off(given)
    if "replicas" in given:
        _check_replicas(cluster, path, attributes)
    write_descriptor(cluster, old.changed(State.READY, attributes, _now_ms()), snapshot)
    while True:
        if not given or given.keys() & _RULED:
            set_rules(cluster, path, acls_of(path, attributes))
        if not given or given.keys() - _RULED:
            _set_configs(cluster, list(kafka_topics_of(cluster, path)), attributes, on_progress)
        newest = read_snapshot(cluster).find(path)
        if newest is None or newest.state is not State.READY or newest.attributes == attributes:
            return
        attributes = (
            newest.attributes
        )  # of somebody who changed it meanwhile, and whose work we may have undone


def delete(cluster: Cluster, path: StreamPath, *, dry_run: bool, on_progress: Progress | None) -> Deletion:
    """Also of a stream that is only half made or half deleted."""
    snapshot = read_snapshot(cluster)
    old = snapshot.find(path)
    if old is None:
        raise NoSuchStream(path=path)
    topics = list(kafka_topics_of(cluster, path))
    rules = rules_there(cluster, path) or set()
    plan = Deletion(tuple(path.topic_name(topic) or "" for topic in topics), tuple(sorted(rules)))
    if dry_run:
        return plan
    snapshot = write_descriptor(cluster, old.changed(State.DELETING, old.attributes, _now_ms()), snapshot)
    topics = list(kafka_topics_of(cluster, path))  # from now on none is made on first use
    for done, some in _in_steps(topics):
        delete_topics(cluster, some, missing_ok=True)
        if on_progress is not None:
            on_progress(done, len(topics))
    set_rules(cluster, path, set())
    erase_descriptor(cluster, path, snapshot)
    return plan


def _refuse_taken(path: StreamPath, snapshot: Snapshot) -> None:
    there = snapshot.find(path)
    if there is not None and there.state is State.READY:
        raise StreamExists(path=path, reason="it is there already")
    if there is not None and there.state is State.DELETING:
        raise StreamExists(path=path, reason="its deletion broke off half-way; delete it again first")
    for other in snapshot.values:
        if other.startswith(f"{path}/"):
            raise StreamExists(path=path, reason=f"stream {other} is below it, and a stream is a leaf")
        if path.text.startswith(f"{other}/"):
            raise StreamExists(path=path, reason=f"stream {other} is above it, and a stream is a leaf")


def _new_attributes(
    cluster: Cluster, path: StreamPath, given: AttributeNames, like: StreamPath | None
) -> StreamAttributes:
    checked = rules_there(cluster, path) is not None
    if not checked:
        refuse_if_off(given)
    if like is not None:
        return ready_stream(cluster, like).attributes.replaced(given)
    left_out = set(PERMISSIONS) - given.keys()
    defaults = default_permissions(path, cluster.settings.sasl_username, checked=checked) if left_out else {}
    return StreamAttributes(**{**defaults, **given})  # type: ignore[arg-type]


def _check_replicas(cluster: Cluster, path: StreamPath, attributes: StreamAttributes) -> None:
    """Asks the cluster whether it could make so many copies, before a topic needs them."""
    if attributes.replicas is None:
        return
    try:
        create_topics(cluster, [new_topic(path.topic(PROBE_TOPIC), attributes)], validate_only=True)
    except RequestRefused as error:
        if error.facts["code"] == ErrorCode.TOPIC_ALREADY_EXISTS.name:
            return
        raise BadStreamAttribute(
            name="replicas", value=attributes.replicas, reason=error.facts["message"]
        ) from error


def _set_configs(
    cluster: Cluster, topics: Sequence[str], attributes: StreamAttributes, on_progress: Progress | None
) -> None:
    for done, some in _in_steps(topics):
        alter_topic_configs(cluster, dict.fromkeys(some, attributes.config_changes()))
        if on_progress is not None:
            on_progress(done, len(topics))


def _in_steps(topics: Sequence[str]) -> Iterator[tuple[int, Sequence[str]]]:
    """Some topics at a time, and how many there are up to these."""
    for start in range(0, len(topics), TOPICS_PER_REQUEST):
        some = topics[start : start + TOPICS_PER_REQUEST]
        yield start + len(some), some


def _now_ms() -> int:
    return int(time.time() * 1000)
