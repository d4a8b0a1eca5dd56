"""What `amends.dataclass` makes, beside what the standard library makes of the same class."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import KW_ONLY, InitVar, field
from typing import Any, ClassVar, Generic, TypeVar

import msgspec
import pytest
from msgspec import Struct

from amends import dataclass as quick

T = TypeVar("T")


class Place:
    """A place, to be decorated: as most of our classes are."""

    name: str
    x: int = 0
    tags: list[str] = field(default_factory=list[str])
    unit: str = field(default="m")
    count: ClassVar[int] = 7

    def __len__(self) -> int:
        return len(self.name)


def made(by: Any, cls: type = Place, **options: bool) -> Any:
    return by(frozen=True, slots=True, **options)(type(cls.__name__, cls.__bases__, dict(vars(cls))))


Ours = made(quick.dataclass)
Theirs = made(dataclasses.dataclass)
Alone = made(quick.dataclass, type("Alone", (), {"__annotations__": {"x": "float"}}))
Nothing = made(quick.dataclass, type("Nothing", (), {}))


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (("a",), {}),
        (("a", 3), {"tags": ["t"], "unit": "km"}),
        ((), {"name": "b", "x": 2}),
    ],
)
def test_it_holds_shows_compares_and_hashes_the_same(args: tuple[Any, ...], named: dict[str, Any]) -> None:
    ours, theirs = Ours(*args, **named), Theirs(*args, **named)
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert repr(ours) == repr(theirs)
    assert ours == Ours(*args, **named)
    assert ours == dataclasses.replace(ours, x=ours.x)
    assert ours != dataclasses.replace(ours, x=99)
    assert (len(ours), dataclasses.is_dataclass(ours)) == (1, True)
    assert [each.name for each in dataclasses.fields(Ours)] == [each.name for each in dataclasses.fields(Theirs)]
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


@pytest.mark.parametrize("kw_only", [False, True])
def test_it_has_the_same_signature_and_refuses_the_same(kw_only: bool) -> None:
    ours, theirs = made(quick.dataclass, kw_only=kw_only), made(dataclasses.dataclass, kw_only=kw_only)
    said, known = inspect.signature(ours).parameters, inspect.signature(theirs).parameters
    assert [(each.name, each.kind) for each in said.values()] == [(each.name, each.kind) for each in known.values()]
    assert ours.__match_args__ == theirs.__match_args__
    for kind in (ours, theirs):
        for wrong in ({}, {"x": 1}, {"name": "a", "other": 1}):
            with pytest.raises(TypeError):
                kind(**wrong)
        with pytest.raises(TypeError):
            kind("a", 1, [], "m", "one too many")


def test_it_is_frozen() -> None:
    point = Ours("a")
    for name in ("x", "new"):
        with pytest.raises(AttributeError):
            setattr(point, name, 2)
    with pytest.raises(AttributeError):
        del point.x
    assert (point.x, Ours.count, hasattr(point, "__dict__")) == (0, 7, False)


def test_it_can_be_copied_and_pickled() -> None:
    point = Ours("a", tags=["t"])
    assert copy.copy(point) == point
    deep = copy.deepcopy(point)
    assert deep == point
    assert deep.tags is not point.tags
    assert pickle.loads(pickle.dumps(quick_kept)) == quick_kept


@quick.dataclass(frozen=True, slots=True)
class Kept:
    """A class that pickle finds by its name."""

    x: int


quick_kept = Kept(3)


def test_one_with_a_parameter_is_made_the_same_way() -> None:
    class Box(Generic[T]):
        inside: T

    box: Any = made(quick.dataclass, Box)
    assert msgspec.Struct in box.__mro__
    assert (box[int](1), repr(box(1))) == (box(1), "Box(inside=1)")


class Point:
    """What a struct cannot be."""

    name: str
    _: KW_ONLY
    secret: str = field(default="hush", repr=False)
    beside: int = field(default=0, compare=False)
    length: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", len(self.name))


class Own:  # noqa: PLW1641 - frozen, it gets one
    """What has a mind of its own."""

    x: int

    def __repr__(self) -> str:
        return "own"

    def __eq__(self, other: object) -> bool:
        return True


class Given:
    """What is given a thing that it does not keep."""

    name: str
    size: InitVar[int]


class Quiet:
    """What is not shown."""

    x: int = 1


def test_what_cannot_be_a_struct_is_the_standard_librarys() -> None:
    for cls, options in ((Point, {}), (Own, {}), (Given, {}), (Quiet, {"repr": False})):
        assert not issubclass(made(quick.dataclass, cls, **options), msgspec.Struct)
    assert issubclass(Ours, msgspec.Struct)
    point, own = made(quick.dataclass, Point), made(quick.dataclass, Own)
    assert repr(point("a", secret="s")) == "Point(name='a', beside=0, length=1)"
    assert point("a", beside=1) == point("a", beside=2)
    assert own(1) == own(2)
    assert "x=" not in repr(made(quick.dataclass, Quiet, repr=False)())


def test_a_copy_may_be_altered() -> None:
    place = Kept(3)
    altered: Any = quick.altered
    assert (altered(place, x=4), place) == (Kept(4), Kept(3))
    with pytest.raises(TypeError):
        altered(place, y=4)


def test_a_frozen_class_has_slots_though_it_does_not_say_so() -> None:
    @quick.dataclass(frozen=True)
    class Open:
        x: int
        y: int = 2

    thing = Open(3)
    assert (hasattr(thing, "__dict__"), thing, hash(thing), copy.deepcopy(thing)) == (
        False,
        Open(3, 2),
        hash(Open(3)),
        Open(3),
    )


def test_a_class_with_slots_that_is_not_frozen_may_change_and_has_no_hash() -> None:
    @quick.dataclass(slots=True)
    class Changing:
        x: int
        seen: list[str] = field(default_factory=list[str])

    changing = Changing(1)
    changing.x = 2
    changing.seen.append("once")
    assert (changing, changing == Changing(2), isinstance(changing, Struct)) == (Changing(2, ["once"]), False, True)
    with pytest.raises(TypeError):
        hash(changing)
    assert not hasattr(changing, "__dict__")


def test_what_compares_by_identity_has_a_hash_though_it_changes() -> None:
    @quick.dataclass(slots=True, eq=False)
    class Own:
        x: int

    own = Own(1)
    assert (own == own, own == Own(1), {own: 1}[own], isinstance(own, Struct)) == (True, False, 1, True)  # noqa: PLR0124 - that is the question


def test_what_is_neither_frozen_nor_has_slots_is_the_standard_librarys() -> None:
    @quick.dataclass()
    class Changing:
        x: int

    changing = Changing(1)
    changing.x = 2
    assert (changing, isinstance(changing, Struct)) == (Changing(2), False)
