"""Stream names where the source and the sink take topics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import oncestream as once
from oncestream.client.acls import Acl, AclFilter, create_acls, delete_acls
from oncestream.client.admin import create_topics
from oncestream.client.cluster import Cluster
from oncestream.client.settings import ClientSettings
from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import BadStreamName, NoSuchStream
from oncestream.spark.progress import PROGRESS_TOPIC
from oncestream.spark.selection import Assigned, Selection, TopicPattern, Topics, selection_of
from oncestream.streams.stream import Stream
from oncestream.wire.acl_codes import Operation, PatternType, ResourceType
from tests.conftest import Secured
from tests.spark.sink_kit import committed, load, new_name, rows, texts
from tests.spark.source_kit import Log
from tests.streams.kit import consume, produce

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def pump(embedded_log: Log) -> Stream:
    """Two topics with a record each."""
    stream = Stream(f"/spark/{new_name('pump')}", embedded_log.bootstrap)
    stream.create(default_partitions=2)
    for name in ("warning", "alarm"):
        stream.create_topic(name)
        embedded_log.write(stream.path.topic(name), [name])
    return stream


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        ({"subscribe": "/apps/pump:b, plain,/apps/pump:a"}, Topics(("apps.pump.a", "apps.pump.b", "plain"))),
        ({"subscribe": "/apps/pump:*"}, TopicPattern(r"apps\.pump\.(?!__)[A-Za-z0-9_-]+")),
        ({"subscribe": "/apps/pump:*,plain"}, TopicPattern(r"apps\.pump\.(?!__)[A-Za-z0-9_-]+|plain")),
        ({"assign": '{"/apps/pump:a": [0]}'}, Assigned((TopicPartition("apps.pump.a", 0),))),
    ],
)
def test_the_source_reads_topics_by_their_names_in_streams(given: dict[str, str], chosen: Selection) -> None:
    assert selection_of(given) == chosen


@pytest.mark.parametrize("name", ["/apps/pump", "/apps/../pump:x", "/apps/pump:a.b"])
def test_a_bad_name_is_refused_before_anything_runs(name: str) -> None:
    with pytest.raises(BadStreamName):
        selection_of({"subscribe": name})


def test_a_pipeline_goes_from_topics_of_a_stream_to_another_topic_of_it(
    spark: SparkSession, pump: Stream, embedded_log: Log, tmp_path: Path
) -> None:
    def marked(rows: DataFrame) -> DataFrame:
        return rows.selectExpr("cast(value as string) || '!' as value")

    source = f"{pump.path}:warning,{pump.path}:alarm"
    pipeline = once.pipeline(source=source, sink=f"{pump.path}:out", name=new_name())(marked)
    pipeline.run(spark, bootstrap_servers=embedded_log.bootstrap, checkpoint=tmp_path, trigger="once")
    assert texts(embedded_log.bootstrap, pump.path.topic("out")) == ["alarm!", "warning!"]
    assert pump.topics() == ["alarm", "out", "out-dead", "warning"]
    assert len(pump.topic_info("out").partitions) == 2
    assert pump.topic_info("out-dead").strays == {}


def test_a_whole_stream_is_read_and_offsets_are_given_by_stream_names(
    spark: SparkSession, pump: Stream, embedded_log: Log
) -> None:
    embedded_log.write(pump.path.topic("warning"), ["second"])
    reader = spark.read.format("oncestream").option("kafka.bootstrap.servers", embedded_log.bootstrap)
    starts = f'{{"{pump.path}:warning": {{"0": 1, "1": 0}}, "{pump.path}:alarm": {{"0": -2, "1": -2}}}}'
    df = reader.options(subscribe=f"{pump.path}:*", startingOffsets=starts).load()
    found = {(row.topic, row.value.decode()) for row in df.select("topic", "value").collect()}
    assert found == {(pump.path.topic("warning"), "second"), (pump.path.topic("alarm"), "alarm")}


def test_rows_go_to_the_topics_that_their_column_names_and_bad_names_become_dead_letters(
    spark: SparkSession, pump: Stream, embedded_log: Log
) -> None:
    content = [
        (f"{pump.path}:warning", "by stream"),
        (pump.path.topic("warning"), "by kafka"),
        ("/bad path:x", "nowhere"),
    ]
    name = new_name()
    done = load(
        rows(spark, content, "topic string, value string"), embedded_log.bootstrap, None, pipeline=name
    )
    assert done.dead == 1
    assert texts(embedded_log.bootstrap, pump.path.topic("warning")) == ["by kafka", "by stream", "warning"]
    (dead,) = committed(embedded_log.bootstrap, f"{name}.dead")
    assert "/bad path" in dead.header("error")


def test_a_pipeline_of_a_user_needs_the_rights_that_the_documentation_lists(
    spark: SparkSession, secured_embedded: Secured, tmp_path: Path
) -> None:
    bootstrap, alice = secured_embedded.bootstrap_servers, secured_embedded.settings_of("alice")
    pump = Stream(f"/spark/{new_name('secured')}", bootstrap, secured_embedded.settings_of("admin"))
    pump.create(produce="u:alice", consume="u:alice")
    pump.create_topic("warning")
    produce(bootstrap, pump.path.topic("warning"), ["a"], alice)
    cluster = Cluster(ClientSettings.of(bootstrap, secured_embedded.settings_of("admin")))
    create_topics(cluster, [PROGRESS_TOPIC], exist_ok=True)
    rights = [
        Acl(ResourceType.TOPIC, PROGRESS_TOPIC.name, PatternType.LITERAL, "User:alice", operation)
        for operation in (Operation.READ, Operation.WRITE, Operation.DESCRIBE)
    ]
    create_acls(cluster, rights)
    name = f"{pump.path.prefix}copy"
    pipeline = once.pipeline(source=f"{pump.path}:warning", sink=f"{pump.path}:out", name=name)(
        lambda rows: rows.select("value")
    )
    pipeline.run(spark, bootstrap_servers=bootstrap, settings=alice, checkpoint=tmp_path, trigger="once")
    assert consume(bootstrap, pump.path.topic("out"), f"{pump.path.prefix}reader", 1, alice) == ["a"]
    assert [(cursor.group, cursor.lag) for cursor in pump.cursors(name)] == [(name, 0)]
    delete_acls(cluster, [AclFilter(ResourceType.TOPIC, PROGRESS_TOPIC.name)])
    cluster.close()


def test_a_sink_in_a_stream_that_is_not_there_is_a_clear_error(
    spark: SparkSession, embedded_log: Log
) -> None:
    content = rows(spark, [("a",)], "value string")
    with pytest.raises(NoSuchStream, match="/spark/ghost"):
        load(content, embedded_log.bootstrap, "/spark/ghost:x")
