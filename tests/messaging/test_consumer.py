"""Consumer: positions, commits, rebalances and errors."""

from __future__ import annotations

import itertools
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from oncestream import Broker
from oncestream.client.topic_partition import TopicPartition
from oncestream.errors import (
    BadParameter,
    BadRecord,
    BadSetting,
    BadStreamName,
    BrokerUnreachable,
    ClientMisused,
    NoPosition,
    RequestTimedOut,
    UnknownTopic,
)
from oncestream.messaging.consumer import Consumer
from oncestream.messaging.producer import Producer
from oncestream.messaging.record import Record
from oncestream.messaging.serializers import from_json, from_text
from oncestream.testing.ports import free_address
from tests.client.kit import new_name
from tests.messaging.kit import new_topic, take, until_deadline, values


def test_a_loop_reads_every_record_in_order(bootstrap: str) -> None:
    topic = _topic_with(bootstrap, 1_500)
    with Consumer(
        topic, group=new_name("group"), bootstrap_servers=bootstrap, deserializer=from_text
    ) as consumer:
        read = list(itertools.islice(consumer, 1_500))
    assert [record.value for record in read] == [str(number) for number in range(1_500)]
    assert [record.offset for record in read] == list(range(1_500))


def test_poll_returns_what_is_there_but_never_more_than_asked(embedded: Any) -> None:
    topic = _topic_with(embedded.bootstrap_servers, 25)
    with _consumer(embedded.bootstrap_servers, topic, poll_records_max=10) as consumer:
        sizes: list[int] = []
        for _ in until_deadline(lambda: str(sizes)):
            sizes.append(len(consumer.poll(1.0)))
            if sum(sizes) == 25:
                break
        assert max(sizes) == 10
        assert consumer.poll(0) == []


def test_a_record_whose_processing_raised_is_not_committed_and_comes_again(bootstrap: str) -> None:
    topic, group = _topic_with(bootstrap, 10), new_name("group")

    def program() -> None:
        with Consumer(topic, group=group, bootstrap_servers=bootstrap) as consumer:
            for record in consumer:
                if record.offset == 4:
                    raise SystemExit

    with pytest.raises(SystemExit):
        program()
    with Consumer(topic, group=group, bootstrap_servers=bootstrap) as again:
        assert next(again).offset == 4


def test_a_block_that_is_left_in_good_order_is_through_with_its_records(bootstrap: str) -> None:
    topic, group = _topic_with(bootstrap, 10), new_name("group")
    for expected in range(3):
        with Consumer(topic, group=group, bootstrap_servers=bootstrap) as consumer:
            for record in consumer:
                assert record.offset == expected
                break


def test_close_alone_does_not_say_that_the_last_record_is_finished(embedded: Any) -> None:
    topic, group = _topic_with(embedded.bootstrap_servers, 10), new_name("group")
    for is_finished, expected in ((False, 0), (True, 0), (True, 1)):
        consumer = Consumer(topic, group=group, bootstrap_servers=embedded.bootstrap_servers)
        assert next(consumer).offset == expected
        if is_finished:
            consumer.finish()
        consumer.close()


@pytest.mark.parametrize(("fails", "expected"), [(True, 4), (False, 8)])
def test_auto_commit_of_poll_covers_its_last_records_only_if_nothing_was_raised(
    embedded: Any, fails: bool, expected: int
) -> None:
    topic, group = _topic_with(embedded.bootstrap_servers, 10), new_name("group")
    options: dict[str, Any] = {"group": group, "bootstrap_servers": embedded.bootstrap_servers}
    with (
        suppress(KeyError),
        Consumer(topic, poll_records_max=4, **options) as consumer,
    ):
        assert len(take(consumer, 4)) == 4
        assert len(take(consumer, 4)) == 4
        if fails:
            raise KeyError("mine")
    with Consumer(topic, **options) as again:
        assert next(again).offset == expected


def test_manual_commit_covers_what_was_handed_out(bootstrap: str) -> None:
    topic, group = _topic_with(bootstrap, 10), new_name("group")
    with _consumer(bootstrap, topic, group=group) as consumer:
        for record in consumer:
            if record.offset == 6:
                break
        place = TopicPartition(topic, 0)
        assert consumer.position() == {place: 7}
        assert consumer.committed() == {place: None}
        consumer.commit()
        assert consumer.committed() == {place: 7}
        assert next(consumer).offset == 7  # read, not committed
        assert consumer.committed() == {place: 7}
    with _consumer(bootstrap, topic, group=group) as again:
        assert next(again).offset == 7


def test_latest_reads_only_what_comes_after_it(bootstrap: str) -> None:
    topic = _topic_with(bootstrap, 5)
    with _consumer(bootstrap, topic, start="latest") as consumer:
        _join(consumer)
        assert consumer.poll(0.5) == []
        _send(bootstrap, topic, ["new"])
        assert values(take(consumer, 1)) == ["new"]


def test_none_is_an_error_without_a_position_until_one_is_sought(bootstrap: str) -> None:
    topic, group = _topic_with(bootstrap, 5), new_name("group")
    with _consumer(bootstrap, topic, group=group, start="none") as consumer:
        for _ in range(2):  # it does not go away by itself
            with pytest.raises(NoPosition, match=f"group '{group}' has no position in {topic}-0"):
                take(consumer, 1)
        consumer.seek(topic, 0, 3)
        assert next(consumer).offset == 3
        consumer.commit()
    with _consumer(bootstrap, topic, group=group, start="none") as again:
        assert next(again).offset == 4


def test_seek_goes_forth_and_back_and_forgets_what_was_read_ahead(bootstrap: str) -> None:
    topic = _topic_with(bootstrap, 20)
    with _consumer(bootstrap, topic) as consumer:
        assert next(consumer).offset == 0
        consumer.seek(topic, 0, 15)
        assert next(consumer).offset == 15
        consumer.seek(topic, 0, 2)
        assert [next(consumer).offset for _ in range(3)] == [2, 3, 4]
        assert consumer.position() == {TopicPartition(topic, 0): 5}


def test_seek_in_on_assigned_chooses_the_start(bootstrap: str) -> None:
    topic = _topic_with(bootstrap, 20)
    with _consumer(bootstrap, topic, on_assigned=lambda me, places: me.seek(*places[0], 12)) as consumer:
        assert next(consumer).offset == 12


def test_rewind_reads_again_what_was_not_committed(embedded: Any) -> None:
    topic = _topic_with(embedded.bootstrap_servers, 20)
    with _consumer(embedded.bootstrap_servers, topic) as consumer:
        assert [next(consumer).offset for _ in range(3)] == [0, 1, 2]
        consumer.rewind()
        assert next(consumer).offset == 0
        consumer.commit()
        assert next(consumer).offset == 1
        consumer.rewind()
        assert next(consumer).offset == 1


def test_a_paused_partition_gives_nothing_and_loses_nothing(bootstrap: str) -> None:
    topic = _topic_with(bootstrap, 40, partitions=2)
    with _consumer(bootstrap, topic) as consumer:
        first = next(consumer)
        consumer.pause(topic, first.partition)
        other: list[Record] = []
        for _ in until_deadline(lambda: f"{len(other)} records"):
            other.extend(consumer.poll(0.2))
            if len(other) == 20:
                break
        assert {record.partition for record in other} == {1 - first.partition}
        assert consumer.poll(0.5) == []
        consumer.resume(topic, first.partition)
        rest = take(consumer, 19)
        assert [record.offset for record in rest] == list(range(1, 20))


def test_a_rebalance_tells_both_members_and_may_commit(bootstrap: str) -> None:
    topic, group = _topic_with(bootstrap, 40, partitions=2), new_name("group")
    events: list[tuple[str, int]] = []

    def revoked(me: Consumer, places: list[TopicPartition]) -> None:
        events.append(("revoked", len(places)))
        me.commit()

    first = _consumer(
        bootstrap,
        topic,
        group=group,
        on_assigned=lambda me, places: events.append(("assigned", len(places))),
        on_revoked=revoked,
    )
    seen = [(r.partition, r.offset) for r in take(first, 40)]
    with _consumer(bootstrap, topic, group=group) as second:
        for _ in until_deadline(lambda: f"{first.assignment()} {second.assignment()}"):
            seen += [(r.partition, r.offset) for r in first.poll(0.1) + second.poll(0.1)]
            if len(first.assignment()) == len(second.assignment()) == 1:
                break
    assert events[:2] == [("assigned", 2), ("revoked", 2)]
    assert sorted(seen) == [(partition, offset) for partition in range(2) for offset in range(20)]
    first.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "protocol", [{"partition.assignment.strategy": "cooperative-sticky"}, {"group.protocol": "consumer"}]
)
def test_incremental_rebalances_read_every_record_once(embedded: Any, protocol: dict[str, str]) -> None:
    bootstrap = embedded.bootstrap_servers
    topic, group = _topic_with(bootstrap, 40, partitions=4), new_name("group")
    seen: list[tuple[int, int]] = []

    def member() -> Consumer:
        return _consumer(
            bootstrap,
            topic,
            group=group,
            settings=protocol,
            on_assigned=lambda me, places: None,
            on_revoked=lambda me, places: me.commit(),
        )

    with member() as first:
        seen += [(r.partition, r.offset) for r in take(first, 40)]
        with member() as second:
            for _ in until_deadline(lambda: f"{first.assignment()} {second.assignment()}"):
                seen += [(r.partition, r.offset) for r in first.poll(0.1) + second.poll(0.1)]
                if len(first.assignment()) == len(second.assignment()) == 2:
                    break
    assert sorted(seen) == [(partition, offset) for partition in range(4) for offset in range(10)]


def test_a_record_that_cannot_be_read_is_named_and_can_be_skipped(bootstrap: str) -> None:
    topic = new_topic(bootstrap)
    _send(bootstrap, topic, ['{"n": 0}', "broken", '{"n": 2}'])
    with _consumer(bootstrap, topic, deserializer=from_json) as consumer:
        assert take(consumer, 1)[0].value == {"n": 0}
        for _ in range(2):
            with pytest.raises(
                BadRecord, match=f"value of the record at offset 1 of {topic}-0 cannot be read: JSON"
            ):
                take(consumer, 1)
        consumer.seek(topic, 0, 2)
        assert take(consumer, 1)[0].value == {"n": 2}


def test_a_tombstone_is_none_whatever_the_deserializer(embedded: Any) -> None:
    topic = new_topic(embedded.bootstrap_servers)
    with Producer(embedded.bootstrap_servers) as producer:
        producer.send(topic, None, key="k")
    with _consumer(
        embedded.bootstrap_servers, topic, deserializer=from_json, key_deserializer=from_text
    ) as consumer:
        (record,) = take(consumer, 1)
    assert (record.key, record.value) == ("k", None)


def test_a_regular_expression_and_several_topics(embedded: Any) -> None:
    stem = new_name("many")
    for number in range(3):
        new_topic(embedded.bootstrap_servers, name=f"{stem}.{number}")
        _send(embedded.bootstrap_servers, f"{stem}.{number}", [str(number)])
    with _consumer(embedded.bootstrap_servers, f"^{stem}\\.[01]$") as consumer:
        assert sorted(values(take(consumer, 2))) == ["0", "1"]
    with _consumer(embedded.bootstrap_servers, [f"{stem}.0", f"{stem}.2"]) as consumer:
        assert sorted(values(take(consumer, 2))) == ["0", "2"]


def test_a_topic_that_does_not_exist_is_an_error(embedded: Any) -> None:
    with pytest.raises(UnknownTopic, match="there is no topic or partition no-such-topic"):
        _consumer(embedded.bootstrap_servers, "no-such-topic")


def test_a_topic_that_may_be_made_by_the_broker_is_none(embedded: Any) -> None:
    topic = new_name("auto")
    with _consumer(
        embedded.bootstrap_servers,
        topic,
        settings={"allow.auto.create.topics": True, "topic.metadata.refresh.interval.ms": 500},
    ) as consumer:
        _join(consumer)
        _send(embedded.bootstrap_servers, topic, ["v"])
        assert values(take(consumer, 1)) == ["v"]


def test_a_topic_that_is_deleted_meanwhile_is_an_error(embedded: Any) -> None:
    from contextlib import closing

    from oncestream.client.admin import delete_topics
    from oncestream.client.cluster import Cluster
    from oncestream.client.settings import ClientSettings

    topic = _topic_with(embedded.bootstrap_servers, 1)
    with _consumer(
        embedded.bootstrap_servers, topic, settings={"topic.metadata.refresh.interval.ms": 500}
    ) as consumer:
        take(consumer, 1)
        with closing(Cluster(ClientSettings.of(embedded.bootstrap_servers))) as cluster:
            delete_topics(cluster, [topic])
        with pytest.raises(UnknownTopic, match=topic):
            take(consumer, 1)


def test_a_broker_that_is_not_there_is_an_error() -> None:
    with pytest.raises((BrokerUnreachable, RequestTimedOut)):
        _consumer("127.0.0.1:1", "topic")


@pytest.mark.slow
def test_a_consumer_lives_through_a_restart_of_the_broker(tmp_path: Path) -> None:
    address = free_address()
    broker = Broker(tmp_path, process=True, listen=address).start()
    _send(address, "topic", ["before"])
    with _consumer(address, "topic", commit="auto") as consumer:
        assert values(take(consumer, 1)) == ["before"]
        broker.kill()
        assert consumer.poll(0.5) == []
        with Broker(tmp_path, process=True, listen=address):
            _send(address, "topic", ["after"])
            assert values(take(consumer, 1)) == ["after"]
            consumer.close()


def test_wrong_parameters_are_told() -> None:
    for wrong in (
        {"start": "begin"},
        {"commit": "never"},
        {"isolation": "serializable"},
        {"poll_records_max": 0},
        {"isolaton": "read_committed"},
    ):
        with pytest.raises(BadSetting, match=next(iter(wrong))):
            Consumer("topic", group="g", bootstrap_servers="127.0.0.1:1", **wrong)
    with pytest.raises(BadParameter, match=r"there is no such parameter \(did you mean name\?\)"):
        Producer(nam="x")  # type: ignore[call-arg]
    with pytest.raises(BadSetting, match="group"):
        Consumer("topic", group="", bootstrap_servers="127.0.0.1:1")
    with pytest.raises(BadSetting, match="topics"):
        Consumer([], group="g", bootstrap_servers="127.0.0.1:1")
    with pytest.raises(BadSetting, match="the parameter start says that"):
        Consumer("topic", group="g", settings={"auto.offset.reset": "latest"})


def test_bad_names_are_refused(embedded: Any) -> None:
    for name in ("/apps", "a b", "/apps/../etc:*"):
        with pytest.raises(BadStreamName):
            _consumer(embedded.bootstrap_servers, name)


def test_a_consumer_that_is_closed_or_does_not_own_a_partition_says_so(embedded: Any) -> None:
    topic = _topic_with(embedded.bootstrap_servers, 1)
    consumer = _consumer(embedded.bootstrap_servers, topic)
    with pytest.raises(ClientMisused, match="is not assigned to this consumer"):
        consumer.seek(topic, 5, 0)
    consumer.close()
    consumer.close()
    with pytest.raises(ClientMisused, match="the consumer is closed"):
        consumer.poll()


def _consumer(bootstrap: str, topics: str | list[str], **options: Any) -> Consumer:
    return Consumer(
        topics, **{"group": new_name("group"), "bootstrap_servers": bootstrap, "commit": "manual", **options}
    )


def _topic_with(bootstrap: str, records: int, partitions: int = 1) -> str:
    topic = new_topic(bootstrap, partitions)
    with Producer(bootstrap) as producer:
        for number in range(records):
            producer.send(topic, str(number), partition=number % partitions)
    return topic


def _send(bootstrap: str, topic: str, texts: list[str]) -> None:
    with Producer(bootstrap) as producer:
        for text in texts:
            producer.send(topic, text)


def _join(consumer: Consumer) -> None:
    """Until it has its partitions; nothing is there to be read."""
    for _ in until_deadline(lambda: "nothing was assigned"):
        assert consumer.poll(0.1) == []
        if consumer.assignment():
            return
