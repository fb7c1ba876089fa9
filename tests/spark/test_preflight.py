"""What is wrong before Spark starts is told before Spark starts; a source topic that never was is waited for."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import oncestream as once
from oncestream.client.acls import Acl, create_acls
from oncestream.client.admin import NewTopic, create_topics
from oncestream.client.cluster import Cluster
from oncestream.client.settings import ClientSettings
from oncestream.errors import (
    BadPipeline,
    BadSourceOption,
    BrokerUnreachable,
    NotAuthorized,
    SourceDataLost,
    UnknownTopic,
)
from oncestream.wire.acl_codes import Operation, PatternType, ResourceType
from tests.client.kit import wait_until
from tests.conftest import Secured
from tests.spark.sink_kit import new_name, texts
from tests.spark.source_kit import Log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from oncestream.spark.options import OptionNames
    from oncestream.spark.pipeline import Pipeline

NOWHERE = "127.0.0.1:1"


def made(source: str, sink: str, **options: str) -> Pipeline:
    def same(rows: DataFrame) -> DataFrame:
        return rows.select("key", "value")

    return once.pipeline(source=source, sink=sink, name=new_name(), read=options)(same)


def test_a_cluster_that_does_not_answer_is_told_within_five_seconds() -> None:
    began = time.monotonic()
    with pytest.raises(BrokerUnreachable, match=r"no answer from 127\.0\.0\.1:1 within 3\.0 s"):
        made("in", "out").check(bootstrap_servers=NOWHERE)
    assert time.monotonic() - began < 5


def test_names_and_options_are_looked_at_before_a_broker_is_asked() -> None:
    with pytest.raises(BadSourceOption, match="maxOffsetsPerTrigger"):
        made("in", "out", maxOffsetsPerTrigger="many").check(bootstrap_servers=NOWHERE)
    wrong: list[tuple[OptionNames, str]] = [
        ({"trigger": "sometimes"}, "trigger='sometimes', it must be continuous, once, or an interval"),
        ({"attempts_max": 0}, "attempts_max=0, it must be a whole number, 1 or more"),
        ({"missing_source": "hope"}, "missing_source='hope', it must be one of wait, make, fail"),
        ({"output_mode": "all"}, "output_mode='all', it must be one of append, update, complete"),
    ]
    for options, told in wrong:
        options["bootstrap_servers"] = NOWHERE
        with pytest.raises(BadPipeline, match=told):
            made("in", "out").check(**options)


def test_a_missing_right_is_told_before_spark_starts(secured: Secured) -> None:
    servers, source, sink = secured.bootstrap_servers, new_name(), new_name()
    admin = Cluster(ClientSettings.of(servers, secured.settings_of("admin")))
    create_topics(admin, [NewTopic(source), NewTopic(sink)])
    pipeline = made(source, sink)

    def allow(kind: ResourceType, resource: str, operation: Operation) -> None:
        create_acls(admin, [Acl(kind, resource, PatternType.LITERAL, "User:alice", operation)])

    def told() -> str:
        try:
            pipeline.check(bootstrap_servers=servers, settings=secured.settings_of("alice"))
        except NotAuthorized as error:
            return error.cause_text
        return "nothing"

    wait_until(lambda: f"{sink} is not allowed" in told())
    for topic in (sink, f"{sink}.dead"):
        allow(ResourceType.TOPIC, topic, Operation.DESCRIBE)
    wait_until(lambda: told().startswith(f"WRITE on topic {sink} is not allowed"))
    allow(ResourceType.TOPIC, sink, Operation.WRITE)
    wait_until(lambda: f"{pipeline.name} is not allowed (TRANSACTIONAL_ID_AUTHORIZATION_FAILED)" in told())
    allow(ResourceType.TRANSACTIONAL_ID, pipeline.name, Operation.WRITE)
    wait_until(lambda: f"{source} is not allowed" in told())
    allow(ResourceType.TOPIC, source, Operation.DESCRIBE)
    wait_until(lambda: told().startswith(f"READ on topic {source} is not allowed"))
    allow(ResourceType.TOPIC, source, Operation.READ)
    wait_until(lambda: f"{pipeline.name} is not allowed (GROUP_AUTHORIZATION_FAILED)" in told())
    allow(ResourceType.GROUP, pipeline.name, Operation.READ)
    wait_until(lambda: told() == "nothing")
    admin.close()


def test_a_topic_that_never_was_is_waited_for_and_one_that_is_gone_is_an_error_at_once(
    spark: SparkSession, embedded_log: Log, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source, sink = new_name("late"), embedded_log.topic(1)
    pipeline = made(source, sink)

    def run() -> None:
        pipeline.run(spark, bootstrap_servers=embedded_log.bootstrap, checkpoint=tmp_path, trigger="once")

    run()
    told = f"pipeline={pipeline.name} waits for topic {source}, which does not exist yet"
    assert [each.message for each in caplog.records if each.levelno == logging.WARNING] == [told]
    embedded_log.topic(2, source)
    embedded_log.write(source, ["a"], partition=1)
    run()
    assert texts(embedded_log.bootstrap, sink) == ["a"]
    embedded_log.drop(source)
    with pytest.raises(SourceDataLost, match=f"records of {source}-"):
        run()


def test_a_stream_that_runs_takes_up_a_topic_when_it_comes(log: Log) -> None:
    source = new_name("late")
    reader = log.reader(source, startingOffsets="latest", missingTopics="wait")
    start = reader.initialOffset()
    limit = reader.getDefaultReadLimit()
    assert start["offsets"] == {}
    assert reader.latestOffset(start, limit) == start
    log.topic(1, source)
    log.write(source, ["a"])
    again = log.reader(source, startingOffsets="latest", missingTopics="wait")
    end = again.latestOffset(start, limit)
    assert (end["offsets"], end["from"]) == ({source: {"0": 1}}, {source: {"0": 0}})


def test_a_missing_topic_may_be_made_or_be_an_error(embedded_log: Log) -> None:
    source = new_name("late")
    pipeline = made(source, "out")
    with pytest.raises(UnknownTopic, match=source):
        pipeline.check(bootstrap_servers=embedded_log.bootstrap, missing_source="fail")
    pipeline.check(bootstrap_servers=embedded_log.bootstrap, missing_source="make")
    pipeline.check(bootstrap_servers=embedded_log.bootstrap, missing_source="fail")


@pytest.mark.parametrize("source", ["/nowhere/pump:*"])
def test_a_stream_or_pattern_may_be_empty(
    spark: SparkSession, embedded_log: Log, tmp_path: Path, source: str
) -> None:
    sink = embedded_log.topic(1)
    made(source, sink).run(
        spark, bootstrap_servers=embedded_log.bootstrap, checkpoint=tmp_path, trigger="once"
    )
    assert texts(embedded_log.bootstrap, sink) == []
