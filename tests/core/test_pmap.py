"""A map whose old versions stay readable, whatever is made of them."""

from random import Random

import pytest
from hypothesis import given, strategies as st

from amends.core.state.pmap import Pmap

CHANGES = st.lists(st.tuples(st.integers(0, 5), st.none() | st.integers(0, 9)), max_size=30)


@given(changes=CHANGES, order=st.randoms(use_true_random=False))
def test_every_version_stays_as_it_was_in_whatever_order_they_are_read(
    changes: list[tuple[int, int | None]], order: Random
) -> None:
    versions: list[tuple[Pmap[int, int], dict[int, int]]] = [(Pmap(), {})]
    for key, value in changes:
        newest, expected = order.choice(versions)
        if value is None:
            versions.append((newest.drop(key), {k: v for k, v in expected.items() if k != key}))
        else:
            versions.append((newest.set(key, value), {**expected, key: value}))
    order.shuffle(versions)
    for version, expected in versions:
        assert version == expected
        assert len(version) == len(expected)
        assert [version.get(key) for key in range(6)] == [expected.get(key) for key in range(6)]
        assert [key in version for key in range(6)] == [key in expected for key in range(6)]


def test_whether_another_map_has_all_of_its_keys_and_whether_it_holds_a_value() -> None:
    older = Pmap({"a": 1})
    newer = older.set("b", 2)
    assert older.is_within(newer)
    assert newer.is_within(Pmap({"a": 5, "b": 6}))
    assert not newer.is_within(older)
    assert Pmap[str, int]().is_within(older)
    assert [newer.has_value(2), older.has_value(2), older.has_value(1)] == [True, False, True]


def test_dropping_what_is_not_there_changes_nothing() -> None:
    version = Pmap({"a": 1})
    assert version.drop("b") is version


def test_a_version_can_be_changed_while_it_is_read() -> None:
    version = Pmap({"a": 1, "b": 2})
    for key in version:
        version = version.drop(key)
    assert not version


def test_what_is_missing_is_missing_in_old_versions_too() -> None:
    old = Pmap({"a": 1})
    assert old.set("b", 2)["b"] == 2
    with pytest.raises(KeyError):
        old["b"]
    assert repr(old) == "Pmap({'a': 1})"


def test_a_long_past_is_read_and_let_go_without_recursion() -> None:
    oldest = newest = Pmap[int, int]()
    for number in range(50_000):
        newest = newest.set(number, number)
    assert len(oldest) == 0
    assert len(newest) == 50_000
    del newest, oldest


def test_what_is_missing_is_what_was_said_instead() -> None:
    old = Pmap({"a": 1})
    new = old.set("b", 2)
    assert (old.get("b"), old.get("b", 5), new.get("b", 5), new.get("c", 5)) == (None, 5, 2, 5)
