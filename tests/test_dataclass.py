"""What `amends.dataclass` makes, beside what the standard library makes of the same class."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import KW_ONLY, FrozenInstanceError, field
from typing import Any, ClassVar

import pytest

from amends import dataclass as quick


class Point:
    """A place, to be decorated."""

    name: str
    x: int = 0
    _: KW_ONLY
    tags: list[str] = field(default_factory=list[str])
    secret: str = field(default="hush", repr=False)
    beside: int = field(default=0, compare=False)
    length: int = field(init=False)
    born: list[int] = field(init=False, default_factory=list[int])
    unit: str = field(init=False, default="m")
    count: ClassVar[int] = 7

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", len(self.name))


def made(by: Any, cls: type = Point, **options: bool) -> Any:
    return by(frozen=True, slots=True, **options)(type(cls.__name__, (), dict(vars(cls))))


Ours = made(quick.dataclass)
Theirs = made(dataclasses.dataclass)
Alone = made(quick.dataclass, type("Alone", (), {"__annotations__": {"x": "float"}}))
Nothing = made(quick.dataclass, type("Nothing", (), {}))


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (("a",), {}),
        (("a", 3), {"tags": ["t"], "secret": "s", "beside": 4}),
        ((), {"name": "b", "x": 2}),
    ],
)
def test_it_holds_shows_compares_and_hashes_the_same(args: tuple[Any, ...], named: dict[str, Any]) -> None:
    ours, theirs = Ours(*args, **named), Theirs(*args, **named)
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert repr(ours) == repr(theirs)
    assert ours == Ours(*args, **named)
    assert ours == dataclasses.replace(ours, beside=99)
    assert ours != dataclasses.replace(ours, x=99)
    assert ours != theirs
    assert theirs != ours
    with pytest.raises(TypeError, match="unhashable"):
        hash(ours)  # a list is in it, as with theirs


def test_hashes_are_of_what_is_compared() -> None:
    assert hash(Alone(1.0)) == hash(Alone(1.0))
    assert {Alone(1.0): 1}[Alone(1.0)] == 1
    assert Nothing() == Nothing()
    assert hash(Nothing()) == hash(Nothing())
    nan = float("nan")
    assert Alone(nan) == Alone(nan)  # as in a tuple: the same object is equal to itself


def test_defaults_that_are_made_are_made_anew() -> None:
    assert Ours("a").tags is not Ours("a").tags
    assert Ours("a").born is not Ours("a").born


def test_it_has_the_same_signature_and_the_same_complaints() -> None:
    ours, theirs = inspect.signature(Ours), inspect.signature(Theirs)
    assert list(ours.parameters) == list(theirs.parameters)
    assert [each.kind for each in ours.parameters.values()] == [each.kind for each in theirs.parameters.values()]
    assert Ours.__match_args__ == Theirs.__match_args__
    for wrong in ({}, {"name": "a", "length": 3}, {"name": "a", "other": 1}):
        with pytest.raises(TypeError) as ours_says:
            Ours(**wrong)
        with pytest.raises(TypeError) as theirs_says:
            Theirs(**wrong)
        assert str(ours_says.value) == str(theirs_says.value)


def test_it_is_frozen() -> None:
    point = Ours("a")
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'new'"):
        point.new = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x
    assert (point.x, Ours.count, hasattr(point, "__dict__")) == (0, 7, False)


def test_it_can_be_copied_and_pickled() -> None:
    point = Ours("a", tags=["t"])
    assert copy.copy(point) == point
    deep = copy.deepcopy(point)
    assert (deep, deep.length) == (point, 1)
    assert deep.tags is not point.tags
    assert pickle.loads(pickle.dumps(quick_kept)) == quick_kept


@quick.dataclass(frozen=True, slots=True)
class Kept:
    """A class that pickle finds by its name."""

    x: int


quick_kept = Kept(3)


def test_what_a_class_says_itself_stays() -> None:
    class Own:  # noqa: PLW1641 - frozen, it gets one
        x: int

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

    ours, theirs = made(quick.dataclass, Own), made(dataclasses.dataclass, Own)
    assert repr(ours(1)) == repr(theirs(1)) == "own"
    assert ours(1) == ours(2)
    assert hash(ours(1)) == hash(theirs(1))
    quiet = made(quick.dataclass, type("Quiet", (), {"__annotations__": {"x": "int"}}), repr=False)
    assert "x=" not in repr(quiet(1))


def test_without_slots_it_has_a_dict_and_its_class_has_the_defaults() -> None:
    @quick.dataclass(frozen=True)
    class Open:
        x: int
        y: int = 2

    thing = Open(3)
    assert (vars(thing), Open.y, repr(thing).rpartition(".")[2]) == ({"x": 3, "y": 2}, 2, "Open(x=3, y=2)")
    assert (thing, hash(thing), copy.deepcopy(thing)) == (Open(3), hash(Open(3)), Open(3))
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        setattr(thing, "x", 4)  # noqa: B010 - type checkers know that it is frozen


def test_what_is_not_frozen_is_the_standard_librarys() -> None:
    @quick.dataclass(slots=True)
    class Changing:
        x: int

    changing = Changing(1)
    changing.x = 2
    assert changing == Changing(2)
