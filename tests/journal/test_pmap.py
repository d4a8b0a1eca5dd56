"""A map whose old versions stay readable: the newest costs what a dict costs, and an old one is still itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends.core.pmap import Pmap

KEYS = st.integers(0, 5)
CHANGES = st.lists(st.tuples(st.booleans(), KEYS, st.integers(0, 9)), max_size=30)


@given(changes=CHANGES)
def test_every_version_stays_what_it_was_whatever_is_read_first(
    changes: list[tuple[bool, int, int]],
) -> None:
    versions: list[tuple[Pmap[int, int], dict[int, int]]] = [(Pmap(), {})]
    for is_set, key, value in changes:
        newest, expected = versions[-1]
        if is_set:
            versions.append((newest.set(key, value), {**expected, key: value}))
        else:
            versions.append((newest.drop(key), {k: v for k, v in expected.items() if k != key}))
    for step in (1, -1, 3):
        for version, expected in versions[::step]:
            assert dict(version) == expected
            assert len(version) == len(expected)
            assert [key in version for key in range(6)] == [key in expected for key in range(6)]
            assert {key: version[key] for key in expected} == expected


@given(changes=CHANGES)
def test_an_old_version_can_be_changed_too(changes: list[tuple[bool, int, int]]) -> None:
    trunk: Pmap[int, int] = Pmap({1: 1, 2: 2})
    branch = trunk
    for is_set, key, value in changes:
        branch = branch.set(key, value) if is_set else branch.drop(key)
    expected = dict(branch)
    other = trunk.set(1, 100)
    assert dict(other) == {1: 100, 2: 2}
    assert dict(trunk) == {1: 1, 2: 2}
    assert dict(branch) == expected


def test_dropping_what_is_not_there_is_no_new_version() -> None:
    here = Pmap({"a": 1})
    assert here.drop("b") is here
    assert dict(here.drop("a")) == {}


def test_it_is_a_mapping_and_shows_what_it_holds() -> None:
    here = Pmap({"a": 1})
    later = here.set("b", 2)
    assert repr(later) == "Pmap({'a': 1, 'b': 2})"
    assert repr(here) == "Pmap({'a': 1})"
    assert (here.get("b"), later.get("b")) == (None, 2)
    assert list(later.items()) == [("a", 1), ("b", 2)]
    with pytest.raises(KeyError):
        here["b"]


def test_a_walk_over_it_is_not_disturbed_by_the_next_version() -> None:
    here = Pmap({number: number for number in range(5)})
    seen: list[int] = []
    for key in here:
        here.set(key + 10, 0)
        seen.append(key)
    assert seen == [0, 1, 2, 3, 4]
