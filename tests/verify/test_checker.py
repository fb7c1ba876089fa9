"""Each anomaly in a hand-made history, and the nearest history that has none."""

from __future__ import annotations

import pytest

from oncestream.errors import ValueSentTwice
from oncestream.verify.anomalies import Anomaly
from oncestream.verify.checker import check
from oncestream.verify.history import Phase
from tests.verify.kit import A, B, Story


@pytest.fixture
def story() -> Story:
    return Story()


def test_committed_and_aborted_transactions_and_plain_sends_that_all_went_well_have_no_anomaly(
    story: Story,
) -> None:
    story.send("p", 0, 1, offset=0)
    story.commit("p", 0)
    story.send("p", 1, 2, offset=2)
    story.abort("p", 1)
    story.send("q", -1, 3, offset=4)
    story.assign("c", (A, 0))
    story.poll("c", (0, 1))
    story.poll("c", (4, 3))
    report = story.check(a=[(0, 1), (4, 3)])
    assert report.ok
    assert not report.counts
    assert (report.figures.sent, report.figures.polled, report.figures.in_logs) == (3, 2, 2)
    assert (report.figures.transactions, report.figures.committed, report.figures.aborted) == (2, 1, 1)


def test_a_committed_record_that_is_not_in_the_log_is_a_lost_write(story: Story) -> None:
    story.committed("p", 0, 1)
    story.committed("p", 1, 2)
    report = story.check(a=[(0, 1)])
    assert report.counts == {Anomaly.LOST_WRITE: 1}
    assert "value 2" in report.found[0].text
    assert "transaction 1 of p (committed)" in report.found[0].witnesses[0].told_by


def test_an_acknowledged_record_outside_of_transactions_can_be_lost_too(story: Story) -> None:
    story.send("p", -1, 1)
    assert story.counts() == {Anomaly.LOST_WRITE: 1}


def test_a_record_that_was_read_and_then_vanished_is_a_lost_write(story: Story) -> None:
    story.send("p", 0, 1)
    story.commit("p", 0, Phase.UNKNOWN)
    story.poll("c", (0, 1))
    assert story.counts() == {Anomaly.LOST_WRITE: 1}


@pytest.mark.parametrize("phase", [Phase.UNKNOWN, Phase.INVOKE])
def test_records_of_unknown_outcome_may_be_missing_or_be_there(story: Story, phase: Phase) -> None:
    story.send("p", -1, 1, phase=phase)
    story.send("p", -1, 2, phase=phase)
    story.send("q", 0, 3)
    story.commit("q", 0, phase)
    story.send("r", 0, 4)
    story.commit("r", 0, phase)
    assert story.counts(a=[(0, 2), (1, 4)]) == {}


def test_what_retention_deleted_is_not_lost(story: Story) -> None:
    story.send("p", -1, 1, offset=0)
    story.send("p", -1, 2, offset=1)
    story.poll("c", (0, 1))
    assert story.check(a=[(1, 2)], start=1).ok


def test_a_value_at_two_offsets_of_the_log_is_a_duplicate(story: Story) -> None:
    story.committed("p", 0, 1, 2)
    report = story.check(a=[(0, 1), (1, 2), (3, 1)])
    assert report.counts == {Anomaly.DUPLICATE: 1}
    assert "value 1 at offsets 0 and 3" in report.found[0].text


def test_a_reader_that_sees_an_aborted_record_is_an_aborted_read(story: Story) -> None:
    story.send("p", 0, 1)
    story.abort("p", 0)
    story.poll("c", (0, 1))
    assert story.counts() == {Anomaly.ABORTED_READ: 1}


def test_an_aborted_or_refused_record_in_the_log_is_an_aborted_read(story: Story) -> None:
    story.send("p", 0, 1)
    story.abort("p", 0)
    story.send("q", -1, 2, phase=Phase.FAILED)
    story.send("q", 1, 3)
    story.commit("q", 1, Phase.FAILED)
    assert story.counts(a=[(0, 1), (1, 2), (2, 3)]) == {Anomaly.ABORTED_READ: 3}


def test_an_abort_that_succeeds_settles_a_commit_of_unknown_outcome(story: Story) -> None:
    story.send("p", 0, 1)
    story.commit("p", 0, Phase.UNKNOWN)
    story.abort("p", 0)
    assert story.counts(a=[(0, 1)]) == {Anomaly.ABORTED_READ: 1}


def test_half_of_a_transaction_of_unknown_outcome_is_torn(story: Story) -> None:
    story.send("p", 0, 1, A)
    story.send("p", 0, 2, B)
    story.commit("p", 0, Phase.UNKNOWN)
    report = story.check(a=[(0, 1)])
    assert report.counts == {Anomaly.TORN_TRANSACTION: 1}
    assert [str(witness).endswith("NOT in the log)") for witness in report.found[0].witnesses] == [
        False,
        True,
    ]
    assert story.counts(a=[(0, 1)], b=[(0, 2)]) == {}
    assert story.counts() == {}


def test_half_of_a_committed_transaction_is_torn_and_its_other_half_lost(story: Story) -> None:
    story.send("p", 0, 1, A)
    story.send("p", 0, 2, B)
    story.commit("p", 0)
    assert story.counts(b=[(0, 2)]) == {Anomaly.LOST_WRITE: 1, Anomaly.TORN_TRANSACTION: 1}


def test_a_record_read_before_its_commit_was_asked_for_is_a_precommitted_read(story: Story) -> None:
    story.send("p", 0, 1)
    story.poll("c", (0, 1))
    story.commit("p", 0)
    assert story.counts(a=[(0, 1)]) == {Anomaly.PRECOMMITTED_READ: 1}


def test_a_record_whose_commit_nobody_asked_for_is_read_too_early_at_any_time(story: Story) -> None:
    story.send("p", 0, 1)
    story.poll("c", (0, 1))
    assert story.counts(a=[(0, 1)]) == {Anomaly.PRECOMMITTED_READ: 2}


def test_a_value_that_nobody_sent_is_a_phantom(story: Story) -> None:
    story.committed("p", 0, 1)
    story.poll("c", (0, 1), (1, 7))
    assert story.counts(a=[(0, 1), (1, 8)]) == {Anomaly.PHANTOM: 2}


def test_another_offset_than_the_sender_was_told_is_inconsistent(story: Story) -> None:
    story.send("p", 0, 1, offset=5)
    story.commit("p", 0)
    report = story.check(a=[(6, 1)])
    assert report.counts == {Anomaly.INCONSISTENT_OFFSET: 1}
    assert "was told offset 5, the log has it at 6" in report.found[0].text


def test_an_offset_with_two_values_is_inconsistent(story: Story) -> None:
    story.committed("p", 0, 1, 2)
    story.poll("c", (0, 2))
    assert story.counts(a=[(0, 1), (1, 2)]) == {Anomaly.INCONSISTENT_OFFSET: 1}


def test_a_value_read_at_an_offset_that_its_sender_was_not_told_is_inconsistent(story: Story) -> None:
    story.send("p", -1, 1, offset=0)
    story.poll("c", (4, 1))
    assert story.counts(a=[(0, 1)]) == {Anomaly.INCONSISTENT_OFFSET: 1}


def test_records_of_one_producer_in_another_order_are_a_non_monotonic_send(story: Story) -> None:
    story.committed("p", 0, 1)
    story.committed("p", 1, 2)
    story.committed("q", 0, 3)
    assert story.counts(a=[(0, 2), (1, 1), (2, 3)]) == {Anomaly.NON_MONOTONIC_SEND: 1}
    assert story.counts(a=[(0, 3), (1, 1), (2, 2)]) == {}


def test_a_consumer_that_goes_back_is_a_non_monotonic_poll(story: Story) -> None:
    story.committed("p", 0, 1, 2)
    story.poll("c", (0, 1), (1, 2))
    story.poll("c", (0, 1))
    assert story.counts(a=[(0, 1), (1, 2)]) == {Anomaly.NON_MONOTONIC_POLL: 1}


def test_a_consumer_that_is_sent_back_may_go_back(story: Story) -> None:
    story.committed("p", 0, 1, 2)
    story.poll("c", (0, 1), (1, 2))
    story.seek("c", 0)
    story.poll("c", (0, 1))
    story.assign("c", (A, 0))
    story.poll("c", (0, 1))
    assert story.counts(a=[(0, 1), (1, 2)]) == {}


def test_a_consumer_that_goes_past_committed_records_is_a_poll_skip(story: Story) -> None:
    story.committed("p", 0, 1, 2, 3)
    story.poll("c", (0, 1))
    story.poll("c", (2, 3))
    report = story.check(a=[(0, 1), (1, 2), (2, 3)])
    assert report.counts == {Anomaly.POLL_SKIP: 1}
    assert "from offset 1 to 2, past 1 committed records" in report.found[0].text
    assert (1, 2) in [(witness.offset, witness.value) for witness in report.found[0].witnesses]


def test_a_consumer_that_misses_the_first_records_of_its_assignment_is_a_poll_skip(story: Story) -> None:
    story.committed("p", 0, 1, 2)
    story.assign("c", (A, 0))
    story.poll("c", (1, 2))
    assert story.counts(a=[(0, 1), (1, 2)]) == {Anomaly.POLL_SKIP: 1}


def test_markers_and_seeks_and_rebalances_are_no_skips(story: Story) -> None:
    story.committed("p", 0, 1, 2, 3)
    story.poll("c", (0, 1))
    story.poll("c", (5, 2))
    story.seek("c", 9)
    story.poll("c", (9, 3))
    story.poll("d", (0, 1))
    story.assign("d", (A, -1))
    story.poll("d", (9, 3))
    assert story.counts(a=[(0, 1), (5, 2), (9, 3)]) == {}


def test_a_consumer_whose_place_is_not_known_may_be_anywhere(story: Story) -> None:
    story.committed("p", 0, 1, 2, 3)
    story.poll("c", (0, 1))
    story.assign("c")
    story.poll("c", (2, 3))
    story.seek("c", -1)
    story.poll("c", (0, 1))
    assert story.counts(a=[(0, 1), (1, 2), (2, 3)]) == {}


def test_transactions_that_read_each_other_are_a_cycle_of_reads(story: Story) -> None:
    story.send("p", 0, 1, A)
    story.send("q", 0, 2, B)
    story.add_commits_asked("p", "q")
    story.poll("p", (0, 2), at=B, transaction=0)
    story.poll("q", (0, 1), at=A, transaction=0)
    story.add_commits_done("p", "q")
    report = story.check(a=[(0, 1)], b=[(0, 2)])
    assert report.counts == {Anomaly.READ_CYCLE: 1}
    assert not report.ok
    assert len(report.found[0].witnesses) == 2


def test_open_transactions_that_write_in_turns_are_told_and_allowed(story: Story) -> None:
    story.send("p", 0, 1, A)
    story.send("q", 0, 2, A)
    story.send("q", 0, 3, B)
    story.send("p", 0, 4, B)
    story.commit("p", 0)
    story.commit("q", 0)
    a, b = [(0, 1), (1, 2)], [(0, 3), (1, 4)]
    report = story.check(a, b)
    assert report.counts == {Anomaly.WRITE_CYCLE: 1}
    assert report.ok
    assert not story.check(a, b, allowed=frozenset()).ok


def test_a_transaction_that_reads_one_that_overtook_it_is_told_and_allowed(story: Story) -> None:
    story.send("p", 0, 1, A)
    story.send("q", 0, 2, A)
    story.send("q", 0, 3, B)
    story.commit("q", 0)
    story.poll("p", (0, 3), at=B, transaction=0)
    story.commit("p", 0)
    report = story.check(a=[(0, 1), (1, 2)], b=[(0, 3)])
    assert report.counts == {Anomaly.WRITE_READ_CYCLE: 1}
    assert report.ok


def test_a_transaction_that_sees_another_in_one_partition_only_is_told_and_allowed(story: Story) -> None:
    story.committed("z", 0, 9, at=B)
    story.send("p", 0, 1, A)
    story.send("p", 0, 2, B)
    story.commit("p", 0)
    story.poll("q", (0, 1), at=A, transaction=0)
    story.poll("q", (0, 9), at=B, transaction=0)
    story.commit("q", 0)
    report = story.check(a=[(0, 1)], b=[(0, 9), (1, 2)])
    assert report.counts == {Anomaly.MISSED_READ_CYCLE: 1}
    assert report.ok


def test_transactions_that_did_not_take_place_are_in_no_cycle(story: Story) -> None:
    story.send("p", 0, 1, A)
    story.send("q", 0, 2, B)
    story.add_commits_asked("p", "q")
    story.poll("p", (0, 2), at=B, transaction=0)
    story.poll("q", (0, 1), at=A, transaction=0)
    report = story.check()
    assert Anomaly.READ_CYCLE not in report.counts


def test_every_anomaly_is_counted_and_a_bounded_number_kept(story: Story) -> None:
    for value in range(250):
        story.committed("p", value, value)
    report = story.check()
    assert report.counts == {Anomaly.LOST_WRITE: 250}
    assert len(report.found) == 100


def test_a_partition_without_its_final_log_is_named(story: Story) -> None:
    story.committed("p", 0, 1)
    report = check(story.events, final_logs={})
    assert report.ok
    assert report.unchecked == (A,)


def test_a_history_that_sends_a_value_twice_is_refused(story: Story) -> None:
    story.send("p", 0, 1)
    story.send("q", 0, 1)
    with pytest.raises(ValueSentTwice, match="q sent value 1 to a-0"):
        story.check()
