"""Runs of positions are sets of positions."""

from itertools import pairwise

from hypothesis import given, strategies as st

from amends.evidence.verify.positions import PositionRanges

RUNS = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 5)).map(lambda run: (run[0], run[0] + run[1])), max_size=8)


def every(spans: PositionRanges) -> set[int]:
    return {place for first, last in spans for place in range(first, last + 1)}


def plain(runs: list[tuple[int, int]]) -> set[int]:
    return {place for first, last in runs for place in range(first, last + 1)}


@given(runs=RUNS)
def test_what_was_added_is_in_it_as_runs_that_do_not_touch(runs: list[tuple[int, int]]) -> None:
    spans = PositionRanges(runs)
    assert every(spans) == plain(runs)
    assert len(spans) == len(plain(runs))
    found = list(spans)
    assert all(last + 1 < first for (_, last), (first, _) in pairwise(found))


@given(runs=RUNS, others=RUNS, most=st.integers(0, 50))
def test_taking_away_and_cutting_off(runs: list[tuple[int, int]], others: list[tuple[int, int]], most: int) -> None:
    assert every(PositionRanges(runs) - others) == plain(runs) - plain(others)
    assert every(PositionRanges(runs).up_to(most)) == {place for place in plain(runs) if place <= most}


@given(runs=RUNS, first=st.integers(1, 50), more=st.integers(0, 5))
def test_meeting(runs: list[tuple[int, int]], first: int, more: int) -> None:
    assert PositionRanges(runs).meets(first, first + more) == bool(plain(runs) & set(range(first, first + more + 1)))


def test_it_is_told_in_few_words() -> None:
    assert str(PositionRanges([(1, 980), (985, 985), (981, 981)])) == "1-981, 985"
    assert str(PositionRanges([(5, 4)])) == ""
