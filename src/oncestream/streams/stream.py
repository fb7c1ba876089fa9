"""`Stream`: a stream, its topics and its cursors."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple, Unpack

from oncestream.client.admin import (
    create_topics,
    delete_records,
    delete_topics,
    describe_topics,
    grow_partitions,
)
from oncestream.client.cluster import Cluster, cluster_of
from oncestream.client.settings import NO_OPTIONS, ClientSettings, servers_or_default
from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import BadStreamName, DescriptorUnreadable, UnknownTopic
from oncestream.streams import cursors, lifecycle, topics
from oncestream.streams.attributes import AttributeNames, StreamAttributes
from oncestream.streams.cursors import Assignment, Cursor, CursorMove, Which
from oncestream.streams.descriptor import Descriptor, State, decode
from oncestream.streams.descriptor_log import read_snapshot
from oncestream.streams.lifecycle import Deletion, Progress
from oncestream.streams.names import StreamPath
from oncestream.streams.topics import Expired, TopicInfo, kafka_topics_of

_log: Final = logging.getLogger(__name__)


class StreamInfo(NamedTuple):
    """`owner` is the user who made it, where the cluster has users; `topics` are names within the stream."""

    path: str
    attributes: StreamAttributes
    owner: str
    revision: int
    created_ms: int
    edited_ms: int
    topics: tuple[str, ...]


class Stream:
    """A stream by its path, such as /apps/pump; it need not exist yet.

    bootstrap_servers: $ONCESTREAM_BOOTSTRAP or 127.0.0.1:9092 if not given. settings: further Kafka client
    settings (security.protocol, sasl.username, ...).
    """

    def __init__(
        self,
        path: str,
        bootstrap_servers: str | None = None,
        settings: Mapping[str, str] = NO_OPTIONS,
    ) -> None:
        self.path = StreamPath(path)
        self._settings = ClientSettings.of(servers_or_default(bootstrap_servers), settings)

    def __repr__(self) -> str:
        return f"Stream({self.path.text!r}, {self._settings.bootstrap_servers!r})"

    # -- the stream itself --------------------------------------------------------------------

    def create(
        self,
        *,
        like: str | None = None,
        adopt: bool = False,
        on_progress: Progress | None = None,
        **attributes: Unpack[AttributeNames],
    ) -> StreamInfo:
        """Makes the stream; `StreamAttributes` lists what it can have. Permissions not given: the creator's.

        like: the path of a stream whose attributes it gets, but for those given. adopt: topics of its name
        that are there already become its own and get its attributes, the time-to-live among them.
        """
        model = None if like is None else StreamPath(like)
        lifecycle.create(
            self._cluster, self.path, attributes, like=model, adopt=adopt, on_progress=on_progress
        )
        return self.info()

    def edit(
        self, *, on_progress: Progress | None = None, **attributes: Unpack[AttributeNames]
    ) -> StreamInfo:
        """Changes the attributes given, of the stream and of its topics; partitions and copies of new ones only.

        Without any: makes permissions and topics again what the stream says.
        """
        lifecycle.edit(self._cluster, self.path, attributes, on_progress=on_progress)
        return self.info()

    def info(self) -> StreamInfo:
        found = lifecycle.ready_stream(self._cluster, self.path)
        return _info(found, kafka_topics_of(self._cluster, self.path))

    def delete(self, *, dry_run: bool = False, on_progress: Progress | None = None) -> Deletion:
        """Removes the topics with all their records, the permissions and the stream; answers what went.

        Where it broke off half-way, the same call again finishes it.
        """
        return lifecycle.delete(self._cluster, self.path, dry_run=dry_run, on_progress=on_progress)

    def purge(self, *, everything: bool = False, dry_run: bool = False) -> list[Expired]:
        """Removes at once the records that are older than the time-to-live; or everything but the topics."""
        stream = lifecycle.ready_stream(self._cluster, self.path)
        old = topics.expired(self._cluster, self.path, stream.attributes.ttl_s, everything=everything)
        if old and not dry_run:
            until = {TopicPartition(self.path.topic(each.topic), each.partition): each.until for each in old}
            delete_records(self._cluster, until)
        return old

    # -- topics -------------------------------------------------------------------------------

    def topics(self) -> list[str]:
        """Names of its topics within the stream, sorted."""
        return list(self.info().topics)

    def create_topic(self, name: str, partitions: int | None = None) -> None:
        """With the stream's attributes; `partitions`: the stream's default if not given."""
        kafka_topic = self.path.topic(name)
        stream = lifecycle.ready_stream(self._cluster, self.path)
        create_topics(self._cluster, [topics.new_topic(kafka_topic, stream.attributes, partitions)])

    def edit_topic(self, name: str, partitions: int) -> None:
        """Gives a topic more partitions: it can have more, never fewer."""
        grow_partitions(self._cluster, {self._existing(name): partitions})

    def delete_topic(self, name: str, *, dry_run: bool = False) -> TopicInfo:
        """Removes a topic with all its records; answers what it was."""
        gone = self.topic_info(name)
        if not dry_run:
            delete_topics(self._cluster, [gone.kafka_topic])
        return gone

    def topic_info(self, name: str) -> TopicInfo:
        stream = lifecycle.ready_stream(self._cluster, self.path)
        return topics.describe(self._cluster, self._existing(name), stream)

    # -- cursors ------------------------------------------------------------------------------

    def cursors(
        self, group: str | None = None, topic: str | None = None, partition: int | None = None
    ) -> list[Cursor]:
        """What groups have committed in its topics, and how far they lag behind."""
        return cursors.cursors_of(self._cluster, self.path, Which(group, topic, partition))

    def delete_cursors(
        self,
        group: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
        *,
        dry_run: bool = False,
    ) -> list[Cursor]:
        """Forgets what groups have committed; answers what that was."""
        gone = self.cursors(group, topic, partition)
        if not dry_run:
            cursors.forget_cursors(self._cluster, self.path, gone)
        return gone

    def reset_cursors(
        self,
        group: str,
        to: str | int | datetime,
        topic: str | None = None,
        partition: int | None = None,
        *,
        dry_run: bool = False,
    ) -> list[CursorMove]:
        """Sets the cursors of a group without live members to `earliest`, `latest`, an offset or a time.

        Without a topic: in all topics where it has cursors; in all of the stream, where it has none.
        Answers every move; a dry run only that.
        """
        which = Which(group, topic, partition)
        moves = cursors.planned_moves(self._cluster, self.path, group, to, which)
        if not moves:
            self.info()  # there is such a stream, or NoSuchStream says that there is none
        if not dry_run:
            cursors.move_cursors(self._cluster, self.path, moves)
        return moves

    def assignments(self, group: str | None = None, topic: str | None = None) -> list[Assignment]:
        """Which member of which group reads which partition now."""
        return cursors.assignments_of(self._cluster, self.path, Which(group, topic))

    @property
    def _cluster(self) -> Cluster:
        return cluster_of(self._settings)

    def _existing(self, name: str) -> str:
        kafka_topic = self.path.topic(name)
        if kafka_topic not in kafka_topics_of(self._cluster, self.path):
            raise UnknownTopic(topic=f"{self.path}:{name}")
        return kafka_topic


def list_streams(cluster: Cluster, prefix: str = "/") -> list[StreamInfo]:
    """The streams at or below a path, sorted."""
    found: list[StreamInfo] = []
    every_topic = {topic.name: 0 for topic in describe_topics(cluster)}
    for text, value in sorted(read_snapshot(cluster).values.items()):
        if prefix not in ("/", text) and not text.startswith(prefix.rstrip("/") + "/"):
            continue
        try:
            stream = decode(StreamPath(text), value)
        except (BadStreamName, DescriptorUnreadable) as error:
            _log.warning("a stream is left out of the list: %s", error)
            continue
        if stream.state is State.READY:
            found.append(_info(stream, every_topic))
    return found


def _info(stream: Descriptor, kafka_topics: Mapping[str, int]) -> StreamInfo:
    names = [stream.path.topic_name(topic) for topic in kafka_topics]
    return StreamInfo(
        stream.path.text,
        stream.attributes,
        stream.owner,
        stream.revision,
        stream.created_ms,
        stream.edited_ms,
        tuple(sorted(name for name in names if name is not None)),
    )
