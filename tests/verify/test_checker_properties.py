"""Histories of a right log have no anomaly; one thing made wrong in them is found."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncestream.client.topic_partition import TopicPartition
from oncestream.verify.anomalies import Anomaly
from oncestream.verify.checker import check
from oncestream.verify.final_log import FinalLog
from oncestream.verify.history import Event, Kind, Phase
from tests.verify.kit import A
from tests.verify.model import PARTITIONS, PROCESSES, Model, acknowledged

ACTIONS = ["send", "send", "send", "send_alone", "commit", "commit", "abort", "poll", "poll", "seek"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(ACTIONS), st.sampled_from(PROCESSES), st.sampled_from(PARTITIONS), st.integers(0, 12)
    ),
    min_size=5,
    max_size=80,
)


# So that every history has something to make wrong: a commit, an abort, and a poll of several records.
ENDING = [
    *(("abort", process, A, 9) for process in PROCESSES),
    *(("send", "p0", A, 9) for _ in range(4)),
    ("commit", "p0", A, 9),
    ("send", "p1", A, 9),
    ("abort", "p1", A, 9),
    ("seek", "p2", A, 0),
    *(("poll", "p2", A, 9) for _ in range(40)),
]


def played(steps: list[tuple[str, str, TopicPartition, int]]) -> Model:
    model = Model()
    for step in (*steps, *ENDING):
        model.step(*step)
    return model


def found_in(events: list[Event], logs: dict[TopicPartition, FinalLog]) -> set[Anomaly]:
    return set(check(events, final_logs=logs).failures)


@given(STEPS)
def test_a_right_log_has_no_anomaly(steps: list[tuple[str, str, TopicPartition, int]]) -> None:
    model = played(steps)
    report = check(model.story.events, final_logs=model.final_logs())
    assert report.ok, report.text()


@given(STEPS, st.data())
def test_a_committed_record_taken_out_of_the_log_is_lost(
    steps: list[tuple[str, str, TopicPartition, int]], data: st.DataObject
) -> None:
    model = played(steps)
    sure = sorted(acknowledged(model.story.events))
    at, value = data.draw(st.sampled_from(sure))
    logs = model.final_logs()
    logs[at] = FinalLog.of(at, [each for each in logs[at] if each[1] != value])
    assert Anomaly.LOST_WRITE in found_in(model.story.events, logs)


@given(STEPS, st.data())
def test_a_record_written_again_is_a_duplicate(
    steps: list[tuple[str, str, TopicPartition, int]], data: st.DataObject
) -> None:
    model = played(steps)
    logs = model.final_logs()
    everything = [(at, value) for at in PARTITIONS for value in logs[at].values]
    at, value = data.draw(st.sampled_from(everything))
    logs[at] = FinalLog.of(at, [*logs[at], (len(model.logs[at]), value)])
    assert found_in(model.story.events, logs) == {Anomaly.DUPLICATE}


@given(STEPS, st.data())
def test_an_aborted_record_that_is_shown_is_an_aborted_read(
    steps: list[tuple[str, str, TopicPartition, int]], data: st.DataObject
) -> None:
    model = played(steps)
    aborted = {
        (event.process, event.transaction)
        for event in model.story.events
        if event.kind is Kind.ABORT and event.phase is Phase.OK
    }
    hidden = [
        (at, offset, entry.value)
        for at in PARTITIONS
        for offset, entry in enumerate(model.logs[at])
        if entry is not None
        and entry.attempt is not None
        and (entry.attempt.process, entry.attempt.number) in aborted
    ]
    at, offset, value = data.draw(st.sampled_from(hidden))
    logs = model.final_logs()
    logs[at] = FinalLog.of(at, sorted([*logs[at], (offset, value)]))
    assert Anomaly.ABORTED_READ in found_in(model.story.events, logs)


@given(STEPS, st.data())
def test_a_record_that_a_poll_left_out_is_a_skip(
    steps: list[tuple[str, str, TopicPartition, int]], data: st.DataObject
) -> None:
    model = played(steps)
    events = model.story.events
    polls = [
        place for place, event in enumerate(events) if event.kind is Kind.POLL and len(event.records) > 2
    ]
    place = data.draw(st.sampled_from(polls))
    first, *_, last = events[place].records
    events[place] = events[place]._replace(records=(first, last))
    assert found_in(events, model.final_logs()) == {Anomaly.POLL_SKIP}


@given(STEPS, st.data())
def test_a_poll_that_comes_again_is_non_monotonic(
    steps: list[tuple[str, str, TopicPartition, int]], data: st.DataObject
) -> None:
    model = played(steps)
    events = model.story.events
    polls = [place for place, event in enumerate(events) if event.kind is Kind.POLL]
    place = data.draw(st.sampled_from(polls))
    events.insert(place, events[place])
    assert found_in(events, model.final_logs()) == {Anomaly.NON_MONOTONIC_POLL}
