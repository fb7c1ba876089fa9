"""Assignment: whatever is read, committed, sought, taken away: never more is committed than was handed out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncestream.client.topic_partition import TopicPartition
from oncestream.messaging.assignment import Assignment

PLACES = [TopicPartition("t", number) for number in range(3)]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["read", "finish", "commit", "commit finished", "rewind", "revoke", "assign", "seek"]
        ),
        st.sampled_from(PLACES),
        st.integers(0, 5),
    ),
    max_size=60,
)


@given(STEPS)
def test_no_record_is_passed_over(steps: list[tuple[str, TopicPartition, int]]) -> None:
    """A log of which every record is handed out in order, unless the program itself seeks."""
    held = Assignment()
    group: dict[TopicPartition, int] = {}
    log: dict[TopicPartition, int] = {}  # where reading goes on
    handed_out: dict[TopicPartition, set[int]] = {place: set() for place in PLACES}
    finished: dict[TopicPartition, set[int]] = {place: set() for place in PLACES}
    skipped: dict[TopicPartition, int] = dict.fromkeys(PLACES, 0)

    def commit(offsets: dict[TopicPartition, int], known: dict[TopicPartition, set[int]]) -> None:
        for place, offset in offsets.items():
            assert place in held.owned
            assert set(range(offset)) - set(range(skipped[place])) <= known[place]
        group.update(offsets)
        held.committed(offsets)

    for step, place, number in steps:
        if step == "assign" and place not in held.owned:
            held.assigned([place])
            log[place] = group.get(place, 0)
        if place not in held.owned:
            continue
        if step == "read":
            held.handed_out(place, log[place])
            handed_out[place].add(log[place])
            log[place] += 1
        elif step == "finish":
            held.finish()
            for each in PLACES:
                finished[each] |= handed_out[each]
        elif step == "commit":
            commit(held.uncommitted(), handed_out)
            assert held.uncommitted() == {}
        elif step == "commit finished":
            commit(held.uncommitted_finished(), finished)
        elif step == "rewind":
            log.update(held.rewind())
            assert held.taken_away == set()
        elif step == "revoke":
            had_more = place in held.uncommitted()
            held.revoked([place])
            assert (place in held.taken_away) >= had_more
            assert place not in {**held.positions, **held.bases, **held.finished}
        elif step == "seek":
            held.sought(place, number)
            log[place] = number
            skipped[place] = max(skipped[place], number)


def test_what_was_read_and_committed_is_not_missed_when_it_is_taken_away() -> None:
    held = Assignment()
    held.assigned(PLACES)
    held.handed_out(PLACES[0], 0)
    held.handed_out(PLACES[1], 0)
    held.committed({PLACES[0]: 1})
    held.revoked(PLACES)
    assert held.taken_away == {PLACES[1]}
