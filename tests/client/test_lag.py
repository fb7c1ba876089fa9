"""Lag: committed records only, up to the last stable offset."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import closing

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncestream.client.acls import Acl, create_acls
from oncestream.client.admin import delete_records
from oncestream.client.cluster import Cluster
from oncestream.client.lag import READ_BYTES_MAX, PartitionLag, _Count, group_lags, total_records
from oncestream.client.offsets import LATEST, Committed, commit_offsets, list_offsets
from oncestream.client.reading import read_range
from oncestream.client.retry import Retry
from oncestream.client.settings import ClientSettings
from oncestream.client.topic_partition import TopicPartition
from oncestream.client.writing import Writer
from oncestream.errors import NotAuthorized
from oncestream.records.compression import Codec
from oncestream.records.records import Record, build_batch
from oncestream.wire.acl_codes import Operation, PatternType, ResourceType
from oncestream.wire.messages.fetch import PartitionData
from oncestream.wire.messages.metadata import MetadataResponseTopic
from tests.client.kit import (
    Driver,
    new_name,
    new_topic,
    numbered,
    remove_topic,
    rows_of,
    values_in,
    wait_until,
    write,
)
from tests.conftest import Secured


def lag_from(
    cluster: Cluster, here: TopicPartition, offset: int, read_bytes_max: int = READ_BYTES_MAX
) -> PartitionLag:
    """The lag of a new group that has committed this offset."""
    group = new_name("group")
    commit_offsets(cluster, group, {here: Committed(offset, "note")})
    return group_lags(cluster, group, read_bytes_max=read_bytes_max)[here]


def test_markers_and_aborted_records_are_not_counted(cluster: Cluster) -> None:
    here = TopicPartition(new_topic(cluster), 0)
    driver = Driver(cluster)
    write(cluster, here, numbered(2))  # offsets 0-1
    driver.write(here, numbered(3))  # 2-4, marker 5
    driver.transactions.commit()
    driver.write(here, numbered(5))  # 6-10, marker 11
    driver.transactions.fence_abort()
    driver.write(here, numbered(7))  # 12-18, marker 19
    driver.transactions.commit()
    driver.wait_for_markers()
    assert lag_from(cluster, here, 0)[:4] == (0, 20, 12, True)
    assert lag_from(cluster, here, 3)[:4] == (3, 20, 9, True)
    assert lag_from(cluster, here, 8).records == 7
    assert lag_from(cluster, here, 15).records == 4
    assert lag_from(cluster, here, 19) == PartitionLag(19, 20, 0, exact=True, seconds=0.0, metadata="note")
    assert lag_from(cluster, here, 20) == PartitionLag(20, 20, 0, exact=True, seconds=0.0, metadata="note")


def test_what_an_open_transaction_holds_back_is_not_counted(cluster: Cluster) -> None:
    here = TopicPartition(new_topic(cluster), 0)
    driver = Driver(cluster)
    write(cluster, here, numbered(4))
    driver.write(here, numbered(5))
    write(cluster, here, numbered(6))
    assert lag_from(cluster, here, 1)[:4] == (1, 4, 3, True)
    driver.transactions.commit()
    driver.wait_for_markers()
    assert lag_from(cluster, here, 1)[:4] == (1, 16, 14, True)


def test_offsets_in_a_transaction_count_when_it_is_committed_and_are_not_waited_for(cluster: Cluster) -> None:
    here = TopicPartition(new_topic(cluster), 0)
    driver = Driver(cluster)
    write(cluster, here, numbered(10))
    group = new_name("group")
    commit_offsets(cluster, group, {here: Committed(3)})
    driver.transactions.commit_offsets(group, {here: Committed(8)})
    assert group_lags(cluster, group)[here].records == 7
    driver.transactions.commit()
    driver.wait_for_markers()
    assert group_lags(cluster, group)[here].records == 2


def test_seconds_are_the_age_of_the_oldest_unread_committed_record(cluster: Cluster) -> None:
    here = TopicPartition(new_topic(cluster), 0)
    now_ms = int(time.time() * 1000)
    ages_s = [5000, 4000, 3000, 2000]
    rows = pa.record_batch(
        {"value": [b"x"] * 4, "timestamp": pa.array([now_ms - age * 1000 for age in ages_s], pa.int64())}
    )
    for codec in (Codec.NONE, Codec.ZSTD):
        writer = Writer(cluster, producer=None, codec=codec)
        writer.write(here, rows)
        writer.flush()
    for offset, expected in enumerate([*ages_s, *ages_s]):
        found = lag_from(cluster, here, offset).seconds
        assert found is not None
        assert expected <= found < expected + 900
    assert lag_from(cluster, here, 8).seconds == 0.0


def test_what_retention_removed_is_no_lag(cluster: Cluster) -> None:
    here = TopicPartition(new_topic(cluster), 0)
    write(cluster, here, numbered(10))
    delete_records(cluster, {here: 6})
    assert lag_from(cluster, here, 2)[:4] == (2, 10, 4, True)


def test_a_partition_whose_topic_is_gone_is_left_out(cluster: Cluster) -> None:
    kept, removed = new_topic(cluster), new_topic(cluster)
    group = new_name("group")
    commit_offsets(cluster, group, {TopicPartition(each, 0): Committed(0) for each in (kept, removed)})
    remove_topic(cluster, removed)
    assert list(group_lags(cluster, group)) == [TopicPartition(kept, 0)]


def test_a_topic_deleted_while_the_lag_is_counted_is_left_out(cluster: Cluster) -> None:
    kept, removed = new_topic(cluster), new_topic(cluster)
    group = new_name("group")
    commit_offsets(cluster, group, {TopicPartition(each, 0): Committed(0) for each in (kept, removed)})
    lists: list[set[str | None]] = []

    class DeletesAfterTheFirstList(Cluster):
        def metadata(self, topics: Iterable[str] | None) -> list[MetadataResponseTopic]:
            told = super().metadata(topics)
            if topics is None:
                lists.append({topic.name for topic in told})
                if len(lists) == 1:
                    remove_topic(cluster, removed)
            return told

        def retry(self) -> Retry:
            return Retry(self.settings.api_timeout_ms / 1000, unknown_topic_s=0.2)

    with closing(DeletesAfterTheFirstList(cluster.settings)) as deleting:
        assert list(group_lags(deleting, group)) == [TopicPartition(kept, 0)]
    assert removed in lists[0]


def test_who_may_see_offsets_but_no_records_gets_the_lag_by_offsets(secured: Secured) -> None:
    admin, alice = (
        Cluster(ClientSettings.of(secured.bootstrap_servers, secured.settings_of(user)))
        for user in ("admin", "alice")
    )
    here, group = TopicPartition(new_topic(admin), 0), new_name("group")
    driver = Driver(admin)
    driver.write(here, numbered(3))
    driver.transactions.commit()
    driver.wait_for_markers()
    commit_offsets(admin, group, {here: Committed(1)})
    create_acls(
        admin,
        [
            Acl(kind, name, PatternType.LITERAL, "User:alice", Operation.DESCRIBE)
            for kind, name in ((ResourceType.TOPIC, here.topic), (ResourceType.GROUP, group))
        ],
    )
    wait_until(
        lambda: (
            lags_seen(alice, group) == {here: PartitionLag(1, 4, 3, exact=False, seconds=None, metadata="")}
        )
    )
    assert group_lags(admin, group)[here].records == 2
    admin.close()
    alice.close()


def lags_seen(cluster: Cluster, group: str) -> dict[TopicPartition, PartitionLag]:
    """Nothing while the rules have not come through."""
    try:
        return group_lags(cluster, group)
    except NotAuthorized:
        return {}


def test_a_group_without_offsets_has_no_lag_to_tell(cluster: Cluster) -> None:
    lags = group_lags(cluster, new_name("group"))
    assert lags == {}
    assert total_records(lags) is None


def test_a_lag_too_long_to_read_is_counted_by_offsets_and_says_so(cluster: Cluster) -> None:
    here = TopicPartition(new_topic(cluster), 0)
    driver = Driver(cluster)
    for _ in range(4):
        driver.write(here, ["x" * 50_000, "y" * 50_000])
        driver.transactions.commit()
    driver.wait_for_markers()
    assert lag_from(cluster, here, 0)[:4] == (0, 12, 8, True)
    rough = lag_from(cluster, here, 0, read_bytes_max=1)
    assert (rough.records, rough.exact) == (12, False), "only the first batch was read, no marker is known"
    assert rough.seconds is not None


def test_partitions_are_summed_up(cluster: Cluster) -> None:
    topic, group = new_topic(cluster, 20), new_name("group")
    for partition in range(20):
        write(cluster, TopicPartition(topic, partition), numbered(partition))
    commit_offsets(cluster, group, {TopicPartition(topic, each): Committed(0) for each in range(20)})
    lags = group_lags(cluster, group, read_bytes_max=1000)
    assert [lag.records for lag in lags.values()] == list(range(20))
    assert total_records(lags) == sum(range(20))


def test_batches_that_compaction_thinned_are_counted_by_what_is_left_in_them() -> None:
    first = build_batch([Record(at, at * 10, b"k", b"v") for at in (1, 7, 9)], base_offset=0, last_offset=11)
    second = build_batch([Record(at, 500, b"k", b"v") for at in (13, 19)], base_offset=12, last_offset=19)
    emptied = build_batch([], base_offset=20, last_offset=24)
    count = _Count(position=4, end=25)
    count.take(PartitionData(records=bytes(first + second + emptied)))
    assert (count.records, count.rest, count.oldest_ms) == (4, 0, 70)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["plain", "one", "two", "commit one", "commit two", "abort one", "abort two"]),
        st.integers(1, 4),
    ),
    max_size=12,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, start=st.floats(0, 1))
def test_lag_is_what_a_reader_of_committed_data_would_get(
    embedded_cluster: Cluster, steps: list[tuple[str, int]], start: float
) -> None:
    cluster = embedded_cluster
    here = TopicPartition(new_topic(cluster), 0)
    drivers = {"one": Driver(cluster), "two": Driver(cluster)}
    writers: dict[str, Writer] = {}
    for step, count in steps:
        action, _, name = step.rpartition(" ")
        if step == "plain":
            write(cluster, here, numbered(count))
        elif not action:
            transactions = drivers[name].transactions
            transactions.add_partitions([here])
            if name not in writers:
                writers[name] = Writer(
                    cluster, producer=transactions.producer, transactional_id=transactions.transactional_id
                )
            writers[name].write(here, rows_of(numbered(count)))
            writers[name].flush()
        else:
            transactions = drivers[name].transactions
            if action == "commit":
                transactions.commit()
            else:
                transactions.fence_abort()
            writers.pop(name, None)
            drivers[name].wait_for_markers()
    end = list_offsets(cluster, {here: LATEST})[here] or 0
    offset = round(start * end)
    expected = len(values_in(read_range(cluster, here, offset, end)))
    assert lag_from(cluster, here, offset)[:4] == (offset, end, expected, True)
    for driver in drivers.values():
        driver.transactions.fence_abort()
