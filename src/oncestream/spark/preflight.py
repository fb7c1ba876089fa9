"""What can be known to be wrong before Spark starts: an address, a right that is missing, a topic that is gone."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import closing
from typing import Final

from oncestream.client.admin import NewTopic, create_topics
from oncestream.client.cluster import Cluster
from oncestream.client.failures import raise_if_error
from oncestream.client.inspection import known_transactions
from oncestream.client.offsets import committed_offsets
from oncestream.client.retry import until_done
from oncestream.client.settings import ClientSettings
from oncestream.errors import NotAuthorized, SourceDataLost, UnknownTopic
from oncestream.spark.options import MissingSource, PipelineOptions
from oncestream.spark.sink import Delivery
from oncestream.spark.source_options import SourceOptions
from oncestream.streams.topics import topics_to_make
from oncestream.wire.acl_codes import Operation
from oncestream.wire.api import ApiKey
from oncestream.wire.error_codes import ErrorCode
from oncestream.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

NOT_TOLD: Final = -2147483648  # the broker does not say what the user may do
LOG: Final = logging.getLogger("oncestream.pipeline")


def check_sink(pipeline: str, options: PipelineOptions, topics: Iterable[str]) -> None:
    """The sink's cluster answers, and the user may write to these topics as this pipeline."""
    settings = ClientSettings.of(options.servers, options.settings)
    with closing(Cluster(settings)) as cluster:
        cluster.require_contact()
        for topic in _ask(cluster, topics):
            _require(topic, Operation.WRITE)
        if options.promise(pipeline) is Delivery.EXACTLY_ONCE:
            known_transactions(cluster, [pipeline])


def check_source(pipeline: str, source: SourceOptions, missing: MissingSource) -> None:
    """The source's cluster answers, and the user may read its topics; those that never were are waited for."""
    names = source.selection.topics
    with closing(Cluster(source.client)) as cluster:
        cluster.require_contact()
        topics = _ask(cluster, names)
        for topic in topics:
            _require(topic, Operation.READ)
        absent = sorted(names - {str(topic.name) for topic in topics})
        if source.group is not None:
            _refuse_gone(cluster, source, absent)
        if absent:
            _meet(cluster, pipeline, absent, missing)


def _ask(cluster: Cluster, names: Iterable[str]) -> list[MetadataResponseTopic]:
    """Those of the topics that exist, with what the user may do; an error where there is one that he may not see."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )

    def attempt() -> list[MetadataResponseTopic]:
        told = cluster.ask_any(request, MetadataResponse).topics
        there = [each for each in told if each.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        for topic in there:
            raise_if_error(topic.error_code, topic.name)
        return there

    return until_done(attempt, cluster.retry(), ApiKey.METADATA.name)


def _require(topic: MetadataResponseTopic, operation: Operation) -> None:
    allowed = topic.topic_authorized_operations
    if allowed != NOT_TOLD and not allowed >> operation & 1:
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED.name
        raise NotAuthorized(api=operation.name, subject=f"topic {topic.name}", code=code)


def _refuse_gone(cluster: Cluster, source: SourceOptions, absent: list[str]) -> None:
    """A topic that the group has read and that is not there: its records are lost."""
    assert source.group is not None
    for at, commit in committed_offsets(cluster, source.group, stable=False).items():
        if at.topic in absent and source.fail_on_data_loss:
            raise SourceDataLost(
                topic=at.topic,
                partition=at.partition,
                offset=commit.offset,
                reason="the topic was read before and is gone",
            )


def _meet(cluster: Cluster, pipeline: str, absent: list[str], missing: MissingSource) -> None:
    match missing:
        case MissingSource.FAIL:
            raise UnknownTopic(topic=absent[0])
        case MissingSource.MAKE:
            wanted = {name: NewTopic(name) for name in absent}
            wanted |= {topic.name: topic for topic in topics_to_make(cluster, absent)}
            create_topics(cluster, wanted.values(), exist_ok=True)
        case MissingSource.WAIT:
            names = ", ".join(absent)
            LOG.warning("pipeline=%s waits for topic %s, which does not exist yet", pipeline, names)
