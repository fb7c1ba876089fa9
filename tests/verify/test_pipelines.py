"""What a pipeline's output must be: exactly what its inputs below the committed offsets make."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from hypothesis import given
from hypothesis import strategies as st

from oncestream.verify.anomalies import Anomaly
from oncestream.verify.pipelines import Row, check_pipeline
from tests.verify.kit import A, B


def rows(values: Iterable[Hashable], at: object = A) -> list[Row]:
    return [Row(A if at is A else B, offset, value) for offset, value in enumerate(values)]


def counts(inputs: Iterable[Hashable], outputs: Iterable[Hashable], committed: int) -> dict[Anomaly, int]:
    return dict(check_pipeline(rows(inputs), rows(outputs, B), {A: committed}).counts)


@given(st.lists(st.integers(0, 9)), st.data())
def test_outputs_of_exactly_the_committed_inputs_in_any_order_are_right(
    inputs: list[int], data: st.DataObject
) -> None:
    committed = data.draw(st.integers(0, len(inputs)))
    outputs = [out for value in inputs[:committed] for out in (value, str(value))]
    found = check_pipeline(
        rows(inputs),
        rows(data.draw(st.permutations(outputs)), B),
        {A: committed},
        lambda value: (value, str(value)),
    )
    assert not found.counts


def test_an_input_without_output_before_others_with_theirs_is_missing() -> None:
    assert counts([1, 2, 3], [1, 3], committed=3) == {Anomaly.MISSING_OUTPUT: 1}


def test_the_last_committed_inputs_without_outputs_are_progress_ahead() -> None:
    assert counts([1, 2, 3, 4], [1, 2], committed=4) == {Anomaly.PROGRESS_AHEAD: 2}


def test_outputs_of_inputs_that_are_not_committed_are_progress_behind() -> None:
    assert counts([1, 2, 3], [1, 2, 3], committed=2) == {Anomaly.PROGRESS_BEHIND: 1}


def test_an_output_that_came_twice_is_a_duplicate_output() -> None:
    found = check_pipeline(rows([1, 2]), rows([1, 2, 1], B), {A: 2})
    assert found.counts == {Anomaly.DUPLICATE_OUTPUT: 1}
    assert "b-0: duplicate output at offset 2" in found.kept[0].text


def test_an_output_that_nothing_explains_is_extra() -> None:
    assert counts([1, 2], [1, 2, 7], committed=2) == {Anomaly.EXTRA_OUTPUT: 1}


def test_without_progress_nothing_may_be_in_the_output() -> None:
    found = check_pipeline(rows([1]), rows([1], B), {})
    assert found.counts == {Anomaly.PROGRESS_BEHIND: 1}


def test_inputs_that_filter_need_no_output() -> None:
    assert not check_pipeline(
        rows([1, 2, 3]), rows([2], B), {A: 3}, lambda value: (value,) if value == 2 else ()
    ).counts
