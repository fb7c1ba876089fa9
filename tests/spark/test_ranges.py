"""Ranges spread over tasks: nothing twice, nothing left out."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from oncestream.client.topic_partition import TopicPartition
from oncestream.spark.ranges import GATHER_RECORDS_MAX, Range, tasks_of, total
from oncestream.spark.stream_offset import StreamOffset
from oncestream.spark.stream_reader import portion

SIZES = st.lists(st.integers(1, 100_000), min_size=1, max_size=20)


def ranges_of(sizes: list[int]) -> list[Range]:
    return [Range(TopicPartition("t", number), 10, 10 + size) for number, size in enumerate(sizes)]


@given(SIZES, st.none() | st.integers(1, 64), st.none() | st.integers(5_000, 100_000))
def test_tasks_cover_the_ranges_once_and_no_task_has_two_pieces_of_a_partition(
    sizes: list[int], tasks_min: int | None, task_records_max: int | None
) -> None:
    ranges = ranges_of(sizes)
    tasks = tasks_of(ranges, tasks_min=tasks_min, task_records_max=task_records_max)
    pieces = [piece for task in tasks for piece in task.ranges]
    for whole in ranges:
        mine = sorted(piece for piece in pieces if piece.partition == whole.partition)
        assert mine[0].start == whole.start
        assert mine[-1].end == whole.end
        assert all(one.end == other.start for one, other in pairwise(mine))
    for task in tasks:
        assert len({piece.partition for piece in task.ranges}) == len(task.ranges)
        assert task_records_max is None or all(piece.records <= task_records_max for piece in task.ranges)
        assert len(task.ranges) == 1 or total(task.ranges) <= GATHER_RECORDS_MAX


def test_a_big_partition_is_split_in_proportion() -> None:
    tasks = tasks_of(ranges_of([90_000, 10_000]), tasks_min=10, task_records_max=None)
    assert [task.ranges[0].records for task in tasks] == [10_000] * 10


@given(SIZES, st.integers(1, 1_000_000))
def test_a_portion_moves_every_partition_and_keeps_to_the_limit_but_for_one_record_each(
    sizes: list[int], records_max: int
) -> None:
    ranges = ranges_of(sizes)
    cut = portion(ranges, records_max)
    assert abs(total(cut) - min(records_max, total(ranges))) <= len(ranges)
    for whole, part in zip(ranges, cut, strict=True):
        assert part.start == whole.start
        assert 1 <= part.records <= whole.records


@given(
    st.dictionaries(
        st.builds(TopicPartition, st.text(min_size=1), st.integers(0, 300)), st.integers(0), max_size=30
    )
)
def test_an_offset_is_logged_in_one_order_and_read_back_the_same(ends: dict[TopicPartition, int]) -> None:
    offset = StreamOffset.initial("c", ends)
    assert StreamOffset.of(offset.logged()) == offset
    turned = StreamOffset.initial("c", dict(reversed(ends.items())))
    assert str(turned.logged()) == str(offset.logged())
    for numbers in offset.logged()["offsets"].values():
        assert list(map(int, numbers)) == sorted(map(int, numbers))
