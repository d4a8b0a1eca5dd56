"""Annotations at work: what a function declares is what it gets, from the first attempt to the last compensation."""

import asyncio
import datetime as dt
import enum
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, Optional, TypedDict, TypeVar
from uuid import UUID

import jsonschema
import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from amends import (
    Asked,
    Done,
    Ended,
    Happened,
    Registry,
    SagaDefinition,
    SagaStatus,
    Secret,
    Step,
    Work,
    action,
    child,
    given,
    result_of,
    saga,
)
from amends.errors import DivergedError, InputError, NotJsonError
from amends.journal.memory import Memory
from amends.runtime.values.signature import Typed
from tests.parts import sampled
from tests.runtime.support import QuickClock, World, coordinator

F = TypeVar("F", bound=Callable[..., object])


def run(definition: SagaDefinition, *args: Any, **given: Any) -> Ended:
    async def whole() -> Ended:
        async with coordinator() as opened:
            return await opened.run(definition, *args, **given)

    return asyncio.run(whole())


class Size(enum.Enum):
    BIG = "big"
    SMALL = "small"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Corner(enum.Enum):
    """Values that JSON has no one way for: known by their names."""

    NEAR = (0, 0)
    FAR = (9, 9)


class Point(NamedTuple):
    x: int
    y: float = 0.0


class Contact(TypedDict):
    mail: str
    since: NotRequired[dt.date]


Cents = NewType("Cents", int)


@dataclass(frozen=True)
class Trip:
    """Somewhere to go."""

    city: str
    nights: int = 1
    size: Size = Size.SMALL

    def __post_init__(self) -> None:
        if self.nights < 1:
            raise ValueError("a trip has at least one night")


@dataclass
class Tree:
    name: str
    below: "list[Tree]" = field(default_factory=list["Tree"])


class Order(BaseModel):
    """An order, as a shop has it."""

    item: str
    count: int = Field(ge=1)
    due: dt.date | None = None


class Basket(BaseModel):
    model_config = ConfigDict(extra="forbid")

    orders: list[Order] = []
    owner: str = Field(alias="ownerName")


class Login(BaseModel):
    user: str
    password: SecretStr


@dataclass
class Cat:
    name: str


@dataclass
class Dog:
    name: str


@dataclass
class Account:
    user: str
    password: Secret


NOON = dt.datetime(2026, 3, 31, 12, tzinfo=dt.UTC)
VALUES: list[tuple[Any, object, object]] = [
    (Trip, Trip("Rome", 2, Size.BIG), {"city": "Rome", "nights": 2, "size": "big"}),
    (Trip | None, None, None),
    (Optional[Trip], Trip("Rome"), {"city": "Rome", "nights": 1, "size": "small"}),  # noqa: UP045 - both spellings
    (list[Trip], [Trip("Rome")], [{"city": "Rome", "nights": 1, "size": "small"}]),
    (dict[str, Trip], {"a": Trip("Rome")}, {"a": {"city": "Rome", "nights": 1, "size": "small"}}),
    (Mapping[str, Size], {"a": Size.BIG}, {"a": "big"}),
    (Tree, Tree("a", [Tree("b")]), {"name": "a", "below": [{"name": "b", "below": []}]}),
    (Order, Order(item="tea", count=2, due=dt.date(2026, 3, 31)), {"item": "tea", "count": 2, "due": "2026-03-31"}),
    (
        Basket,
        Basket(orders=[Order(item="tea", count=1)], ownerName="kim"),
        {"orders": [{"item": "tea", "count": 1, "due": None}], "ownerName": "kim"},
    ),
    (Order | Trip, Trip("Rome"), {"city": "Rome", "nights": 1, "size": "small"}),
    (Size, Size.BIG, "big"),
    (Level, Level.HIGH, 2),
    (Corner, Corner.FAR, "FAR"),
    (Literal["a", 1, Size.BIG], Size.BIG, "big"),
    (Point, Point(1, 2.5), {"x": 1, "y": 2.5}),
    (Contact, {"mail": "k@x", "since": dt.date(2026, 3, 31)}, {"mail": "k@x", "since": "2026-03-31"}),
    (UUID, UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    (dt.datetime, NOON, "2026-03-31T12:00:00+00:00"),
    (dt.date, dt.date(2026, 3, 31), "2026-03-31"),
    (dt.time, dt.time(13, 40), "13:40:00"),
    (dt.timedelta, dt.timedelta(minutes=1), 60),
    (dt.timedelta, dt.timedelta(milliseconds=1500), 1.5),
    (Decimal, Decimal("1.10"), "1.10"),
    (Path, Path("/a/b"), "/a/b"),
    (bytes, b"\x00\xff", "AP8="),
    (tuple[int, ...], (1, 2), [1, 2]),
    (tuple[str, Size], ("a", Size.BIG), ["a", "big"]),
    (set[str], {"b", "a"}, ["a", "b"]),
    (frozenset[Size], frozenset({Size.SMALL, Size.BIG}), ["big", "small"]),
    (float, 3.0, 3),
    (list[float], [3.0, 0.5], [3, 0.5]),
    (Cents, 5, 5),
    (Annotated[Size, "how big"], Size.BIG, "big"),
    (Path | str, Path("/a"), "/a"),
    (int | str, "a", "a"),
    (Any, {"a": [1]}, {"a": [1]}),
    (object, {"a": [1]}, {"a": [1]}),
]


def typed(annotation: Any, result: Any = None) -> Typed:
    def function(value: object) -> None: ...

    function.__annotations__ = {"value": annotation, "return": result}
    return Typed("t.it", function)


@pytest.mark.parametrize(("annotation", "value", "stored"), VALUES)
def test_a_value_is_json_on_record_and_itself_again(annotation: Any, value: object, stored: object) -> None:
    kinds = typed(annotation, annotation)
    found = kinds.store({"value": value})["value"]
    assert found == stored
    kinds.check({"value": found})
    again = kinds.restore({"value": stored})["value"]
    assert (again, type(again)) == (value, type(value))
    kept = kinds.store_result(value)
    assert kept == stored
    assert (kinds.restore_result(stored), type(kinds.restore_result(stored))) == (value, type(value))


@pytest.mark.parametrize(("annotation", "value", "stored"), VALUES)
def test_what_is_json_already_is_taken_and_stays_as_it_is(annotation: Any, value: object, stored: object) -> None:
    """A model gives JSON; and a step of an older journal has to be asked for with the same words as then."""
    kinds = typed(annotation)
    assert kinds.store({"value": stored})["value"] == stored
    kinds.check({"value": stored})


@pytest.mark.parametrize(("annotation", "value", "stored"), VALUES)
def test_the_schema_takes_what_is_stored(annotation: Any, value: object, stored: object) -> None:
    described = typed(annotation).schema()
    jsonschema.Draft202012Validator.check_schema(described)
    jsonschema.validate({"value": stored}, described)


@pytest.mark.parametrize(
    ("annotation", "value", "told"),
    [
        (int, "ten", "value has to be a whole number, not 'ten'"),
        (int, True, "value has to be a whole number, not true"),
        (int, 1.5, "value has to be a whole number, not 1.5"),
        (str, None, "value has to be text, not null"),
        (float, "1", "value has to be a number, not '1'"),
        (bool, 1, "value has to be true or false, not 1"),
        (dict, [1], "value has to be an object, not a list"),
        (list, {"a": 1}, "value has to be a list, not an object of a"),
        (list[int], [1, "x"], "value[1] has to be a whole number, not 'x'"),
        (dict[str, int], {"a": "x"}, "value.a has to be a whole number, not 'x'"),
        (int | None, "x", "value has to be a whole number or null, not 'x'"),
        (Size, "huge", "value has to be one of 'big', 'small', not 'huge'"),
        (Literal["a", "b"], "c", "value has to be one of 'a', 'b', not 'c'"),
        (Trip, "Rome", "value has to be a Trip, or an object of its fields, not 'Rome'"),
        (Trip, {}, "value has to be a Trip with city, not an object of nothing"),
        (Trip, {"city": 5}, "value.city has to be text, not 5"),
        (
            Trip,
            {"citty": "x"},
            "value has to be a Trip of city, nights, size, not one with 'citty'; did you mean city?",
        ),
        (
            Trip,
            {"city": "x", "nights": 0},
            "value has to be a Trip, not what it refuses: a trip has at least one night",
        ),
        (list[Trip], [{"city": "x", "size": "no"}], "value[0].size has to be one of 'big', 'small', not 'no'"),
        (Contact, {"mail": "k", "since": "soon"}, "value.since has to be a date, such as 2026-03-31, not 'soon'"),
        (
            Order,
            {"item": "tea", "count": 0},
            "value.count has to be as Order says (Input should be greater than or equal to 1), not 0",
        ),
        (UUID, "7", "value has to be a UUID, not '7'"),
        (dt.datetime, "soon", "value has to be a time, such as 2026-03-31T13:40:18+00:00, not 'soon'"),
        (Decimal, "NaN", "value has to be a decimal number, as text, not 'NaN'"),
        (Decimal, 1.5, "value has to be a decimal number, as text, not 1.5"),
        (bytes, "?", "value has to be bytes, in base64, not '?'"),
        (tuple[int, int], [1], "value has to be a list of 2, not a list"),
        (set[int], [1, 1], "value has to be a list without anything twice, not a list"),
        (
            Secret,
            "hunter2",
            "value has to be a Secret, as amends.Secret(…) or Secret.env(NAME), not what the journal would show",
        ),
        (str, {"$secret": "sha256:00"}, "value has to be text, not a Secret"),
        (dict, {"$secret": "sha256:00"}, ""),
    ],
)
def test_what_does_not_fit_is_refused_with_what_was_expected_and_what_came(
    annotation: Any, value: object, told: str
) -> None:
    kinds = typed(annotation)
    if not told:
        kinds.check({"value": value})
        return
    with pytest.raises(InputError) as caught:
        kinds.check({"value": value})
    assert str(caught.value) == f"t.it: {told}"


@pytest.mark.parametrize(
    ("annotation", "value", "told"),
    [
        (Cat | Dog, Dog("rex"), "a Dog; JSON would make a Cat of it"),
        (str | Path, Path("/a"), "a PosixPath; JSON would make a str of it"),
        (Login, Login(user="kim", password=SecretStr("hunter2")), "a Login that is not (a secret"),
        (Decimal, Decimal("Infinity"), "has to be a decimal number, not Infinity"),
    ],
)
def test_what_would_come_back_as_something_else_is_refused_when_it_is_given(
    annotation: Any, value: object, told: str
) -> None:
    with pytest.raises(InputError) as caught:
        typed(annotation).store({"value": value})
    assert told in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_an_annotation_that_says_nothing_here_asks_nothing() -> None:
    class Theirs: ...

    def function(a: Any, b: Theirs, c: "int", *rest: "int", d: int = None, **more: str) -> None: ...  # type: ignore[assignment] # noqa: RUF013 # pyright: ignore[reportArgumentType] - as people write it

    function.__annotations__["a"] = "Nowhere"
    kinds = Typed("t.it", function)
    kinds.check({"a": 1, "b": 2, "c": 3, "d": None, "rest": [4], "more": {"e": "x"}})
    with pytest.raises(InputError, match=r"t.it: c has to be a whole number"):
        kinds.check({"c": "3"})
    with pytest.raises(InputError, match=r"t.it: rest\[0\] has to be a whole number"):
        kinds.check({"rest": ["3"]})
    with pytest.raises(InputError, match=r"t.it: more.e has to be text"):
        kinds.check({"more": {"e": 3}})


# -- in sagas ---------------------------------------------------------------------------------------------------------


@action("types.book", idempotent=True)
def book(trip: Trip, price: float, tags: set[str], order: Order | None = None) -> Trip:
    """Book a trip.

    For the nights that it says.
    """
    assert type(price) is float
    BOOKED.append((trip, price, tags, order))
    return trip


BOOKED: list[object] = []
TAKEN_BACK: list[Any] = []
ROME = Trip("Rome", 2, Size.BIG)


@book.before
def look(trip: Trip) -> Trip:
    assert type(trip) is Trip
    return Trip(f"before {trip.city}")


@book.compensation
def unbook(done: Done[Trip]) -> None:
    TAKEN_BACK.append((done.args["trip"], done.result, done.before, done.args["order"]))


@saga("types.tour")
async def tour(s: Work, trip: Trip, order: Order, fail: bool = False) -> list[Trip]:
    assert (type(trip), type(order)) == (Trip, Order)
    booked = await s.do(book, trip, 3.0, {"b", "a"}, order)
    assert type(booked) is Trip
    if fail:
        raise ValueError("no")
    return [booked]


def test_action_compensation_and_saga_get_what_they_declared() -> None:
    BOOKED.clear()
    TAKEN_BACK.clear()
    order = Order(item="tea", count=1)
    ended = run(tour, ROME, order)
    assert (ended.status, ended.result) == (SagaStatus.COMPLETED, [ROME])
    assert ended.recorded == [{"city": "Rome", "nights": 2, "size": "big"}]
    assert [(ROME, 3.0, {"a", "b"}, order)] == BOOKED
    assert run(tour, {"city": "Rome", "nights": 2, "size": "big"}, order, fail=True).status == "rolled_back"
    assert [(ROME, ROME, Trip("before Rome"), order)] == TAKEN_BACK


def test_a_saga_that_is_taken_up_again_has_its_types_back() -> None:
    async def whole() -> None:
        memory, seen = Memory(), list[object]()

        @action("types.once", read_only=True)
        def once(trip: Trip, at: dt.datetime) -> Order:
            seen.append((trip, at))
            return Order(item=trip.city, count=trip.nights)

        @saga("types.again")
        async def again(s: Work, trip: Trip) -> Order:
            order = await s.do(once, trip, NOON)
            seen.append(order)
            await s.wait_for("go")
            return order

        registry = Registry()
        async with coordinator(memory, registry=registry) as first:
            await (await first.start(again, ROME, id="a")).halt()
        async with coordinator(memory, registry=registry) as second:
            await second.signal("a", "go")
            ended = await second.run(again, ROME, id="a")
        assert ended.result == Order(item="Rome", count=2)
        assert seen == [(ROME, NOON), Order(item="Rome", count=2), Order(item="Rome", count=2)]

    asyncio.run(whole())


def test_what_was_accepted_once_is_not_looked_at_again() -> None:
    """The journal remembers the step: an annotation that asks for more by now has no say in it."""

    async def whole() -> None:
        memory, registry = Memory(), Registry()

        def declare(kind: Any) -> SagaDefinition:
            def pay(cents: object) -> str:
                return f"paid {cents}"

            pay.__annotations__["cents"] = kind
            paying = action("types.pay", read_only=True)(pay)
            registry.add_action(paying)

            @saga("types.strict")
            async def strict(s: Work) -> list[str]:
                paid = [await s.do(paying, "ten")]
                await s.wait_for("go")
                try:
                    await s.do(paying, "eleven")
                except InputError as exc:
                    paid.append(str(exc))
                return [*paid, await s.do(paying, 12)]

            return strict

        async with coordinator(memory, registry=registry) as first:
            await (await first.start(declare(object), id="a")).halt()
        registry.add_definition(declare(int))
        async with coordinator(memory, registry=registry) as second:
            await second.signal("a", "go")
            ended = await second.run(registry.definition("types.strict", 1), id="a")
        assert ended.result == ["paid ten", "types.pay: cents has to be a whole number, not 'eleven'", "paid 12"]

    asyncio.run(whole())


@pytest.mark.parametrize("goes_back", [False, True])
def test_a_record_that_does_not_fit_any_more_is_an_incident_and_not_a_guess(goes_back: bool) -> None:
    async def whole() -> None:
        memory, world = Memory(), World()

        def declare(kind: Any) -> Registry:
            registry = Registry()

            def make(n: int) -> object:
                return {"city": "Rome"} if kind is dict else kind("Rome")

            make.__annotations__["return"] = kind
            making = action("types.make")(make)

            @making.compensation
            def unmake(done: Done) -> None:
                world.note(f"unmade {done.result}")

            @saga("types.changing")
            async def changing(s: Work) -> None:
                await s.do(making, 1)
                await s.wait_for("go")

            registry.add_action(making)
            registry.add_definition(changing)
            return registry

        @dataclass
        class Grown:
            city: str
            country: str

        old = declare(dict)
        async with coordinator(memory, registry=old, clock=QuickClock()) as first:
            await (await first.start(old.definition("types.changing", 1), id="a")).halt()
        async with coordinator(memory, registry=declare(Grown), clock=QuickClock()) as second:
            if goes_back:
                ended = await second.cancel("a")
            else:
                await second.signal("a", "go")
                ended = await second.run(second.registry.definition("types.changing", 1), id="a")
        assert ended.status is SagaStatus.INCIDENT
        assert "the result on record has to be a Grown with country, not an object of city" in ended.why
        assert world.seen == []

    asyncio.run(whole())


def test_a_probe_answers_with_what_the_action_would_have_returned() -> None:
    @action("types.lost", timeout=5)
    async def lose(trip: Trip) -> Trip:
        raise OSError("no answer")

    @lose.probe
    def found(asked: Asked) -> Happened:
        assert type(asked.args["trip"]) is Trip
        return Happened(asked.args["trip"])

    @lose.compensation
    def unlose(done: Done) -> None: ...

    @saga("types.probed")
    async def probed(s: Work) -> str:
        return (await s.do(lose, ROME)).city

    assert run(probed).result == "Rome"


def test_a_result_that_is_not_what_it_was_declared_to_be_took_effect_and_is_taken_back() -> None:
    undone = list[object]()

    @action("types.liar")
    def lie() -> Trip:
        return None  # type: ignore[return-value] # pyright: ignore[reportReturnType] - the lie

    @lie.compensation
    def unlie(done: Done) -> None:
        undone.append(done.result)

    @saga("types.lied")
    async def lied(s: Work) -> None:
        await s.do(lie)

    ended = run(lied)
    assert (ended.status, undone) == (SagaStatus.ROLLED_BACK, [None])
    assert "the result has to be a Trip, or an object of its fields, not null" in ended.why


def test_a_result_that_json_has_by_itself_is_kept_as_it_is() -> None:
    @action("types.loose", read_only=True)
    def loose() -> int:
        return "five"  # type: ignore[return-value] # pyright: ignore[reportReturnType] - the lie

    @saga("types.loosely")
    async def loosely(s: Work) -> object:
        return await s.do(loose)

    assert run(loosely).result == "five"


def test_a_validation_looks_at_what_was_declared() -> None:
    @action("types.model", read_only=True)
    def model(trip: Trip) -> Order:
        return Order(item=trip.city, count=1)

    @model.validate
    def fine(result: Order, trip: Trip) -> str | None:
        return None if result.item == trip.city else "another city"

    @saga("types.validated", verify=[lambda_free])
    async def validated(s: Work, trip: Trip) -> Order:
        return await s.do(model, trip)

    assert run(validated, ROME).result == Order(item="Rome", count=1)


def lambda_free(result: Order, trip: Trip) -> bool:
    return result.item == trip.city


def test_a_list_of_steps_passes_values_on_and_is_checked_before_it_begins() -> None:
    @action("types.first", read_only=True)
    def first(trip: Trip) -> Order:
        return Order(item=trip.city, count=3)

    @action("types.second", read_only=True)
    def second(order: Order, plain: Any, count: int) -> str:
        return f"{type(order).__name__} {plain} {count}"

    listed = SagaDefinition(
        "types.listed",
        [
            Step(first),
            Step(
                second,
                {"order": result_of("first"), "plain": result_of("first", "item"), "count": given("many")},
            ),
        ],
    )
    assert run(listed, trip=ROME, many=2).result == {
        "first": {"item": "Rome", "count": 3, "due": None},
        "second": "Order Rome 2",
    }
    with pytest.raises(InputError, match=r"types.second: many of the input has to be a whole number, not 'two'"):
        run(listed, trip={"city": "Rome"}, many="two")


def test_a_child_is_checked_and_its_result_is_what_it_declared() -> None:
    @saga("types.child")
    async def small(s: Work, trip: Trip) -> Trip:
        return Trip(trip.city, trip.nights + 1)

    @saga("types.parent")
    async def parent(s: Work) -> list[object]:
        found: list[object] = [await s.call(small, ROME), *await s.call_all([child(small, ROME)])]
        assert [type(each) for each in found] == [Trip, Trip]
        try:
            await s.call(small, {"city": 5})  # type: ignore[call-overload] # pyright: ignore[reportArgumentType] - no Trip
        except InputError as exc:
            found.append(str(exc))
        return [str(each) for each in found]

    assert run(parent).result == [
        "Trip(city='Rome', nights=3, size=<Size.SMALL: 'small'>)",
        "Trip(city='Rome', nights=3, size=<Size.SMALL: 'small'>)",
        "saga types.child: trip.city has to be text, not 5",
    ]


def test_a_secret_inside_of_a_dataclass_stays_one() -> None:
    seen = list[str]()

    @action("types.login", read_only=True)
    def login(account: Account) -> None:
        seen.append(f"{account.user} {account.password.reveal()} {account}")

    @saga("types.login")
    async def logged_in(s: Work) -> None:
        await s.do(login, Account("kim", Secret("hunter2")))

    assert run(logged_in).status == "completed"
    assert seen == ["kim hunter2 Account(user='kim', password=Secret(…))"]


def test_the_input_of_a_saga_is_checked_before_it_begins() -> None:
    with pytest.raises(InputError, match=r"saga types.tour: trip.nights has to be a whole number, not 'two'"):
        run(tour, {"city": "Rome", "nights": "two"}, Order(item="a", count=1))
    with pytest.raises(NotJsonError, match=r"saga types.tour: trip has to be a Trip, or an object of its fields"):
        run(tour, object(), Order(item="a", count=1))


def test_a_class_that_nobody_can_find_is_named() -> None:
    def function(trip: Any) -> None: ...

    function.__annotations__["trip"] = "Elsewhere"
    hidden = action("types.hidden", read_only=True)(function)

    @saga("types.hiding")
    async def hiding(s: Work) -> None:
        await s.do(hidden, ROME)

    assert "its annotation Elsewhere is not found where the function is" in run(hiding).why


def test_restoring_says_what_has_changed() -> None:
    with pytest.raises(DivergedError, match=r"t.it: the argument value.city on record has to be text, not 5"):
        typed(Trip).restore({"value": {"city": 5}})
    assert typed(Trip).restore({"value": {"city": "Rome", "gone": 1}}) == {"value": Trip("Rome")}


# -- as a tool of a model ---------------------------------------------------------------------------------------------


def test_an_action_is_a_tool_with_its_words_and_its_parameters() -> None:
    schema = book.schema()
    assert (schema["name"], schema["description"]) == ("types_book", "Book a trip.\n\nFor the nights that it says.")
    parameters = schema["parameters"]
    jsonschema.Draft202012Validator.check_schema(parameters)
    assert parameters["required"] == ["trip", "price", "tags"]
    assert parameters["additionalProperties"] is False
    assert parameters["properties"]["price"] == {"type": "number"}
    assert parameters["$defs"]["Trip"] == {
        "type": "object",
        "description": "Somewhere to go.",
        "properties": {
            "city": {"type": "string"},
            "nights": {"type": "integer"},
            "size": {"enum": ["big", "small"]},
        },
        "required": ["city"],
        "additionalProperties": False,
    }
    assert parameters["$defs"]["Order"]["properties"]["count"]["minimum"] == 1
    given = {"trip": {"city": "Rome"}, "price": 3, "tags": ["a"], "order": {"item": "tea", "count": 1}}
    jsonschema.validate(given, parameters)
    book.parts.typed.check(given)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"trip": {"city": 5}, "price": 3, "tags": []}, parameters)


def test_a_tool_asks_no_model_for_a_secret_and_says_what_a_parameter_is() -> None:
    @action("types." + "long." * 20 + "topic", read_only=True)
    def fetch(url: Annotated[str, "where it is"], token: Secret, deep: Tree | None = None) -> None: ...

    schema = fetch.schema()
    assert len(schema["name"]) == 64
    assert set(schema["parameters"]["properties"]) == {"url", "deep"}
    assert schema["parameters"]["properties"]["url"] == {"type": "string", "description": "where it is"}
    assert schema["parameters"]["required"] == ["url"]
    jsonschema.validate({"url": "x", "deep": {"name": "a", "below": [{"name": "b"}]}}, schema["parameters"])


def test_a_saga_is_a_tool_too() -> None:
    assert tour.schema()["name"] == "types_tour"
    assert tour.schema()["parameters"]["required"] == ["trip", "order"]
    listed = SagaDefinition("types.two", [Step(book, {"price": 1.0, "tags": given("notes")})])
    parameters = listed.schema()["parameters"]
    assert (set(parameters["properties"]), parameters["required"]) == ({"trip", "notes", "order"}, ["notes", "trip"])
    assert parameters["properties"]["notes"]["uniqueItems"] is True


def test_an_unannotated_action_is_a_tool_that_takes_anything() -> None:
    def anything(a: object, b: object = 1) -> None: ...

    anything.__annotations__.clear()
    schema = action("types.anything", read_only=True)(anything).schema()
    assert schema["parameters"]["properties"] == {"a": {}, "b": {}}
    assert schema["parameters"]["required"] == ["a"]


# -- what is large, what has no end, and what defends itself ----------------------------------------------------------

made_in: Counter[int] = Counter()
made: list[int] = []


@dataclass
class Item:
    name: str
    size: int

    def __post_init__(self) -> None:
        made_in[threading.get_ident()] += 1


class Article(BaseModel):
    name: str

    def model_post_init(self, _: object, /) -> None:
        made_in[threading.get_ident()] += 1


def declares(kind: Any) -> Callable[[F], F]:
    """Have a function say this wherever it says Any."""

    def declared(function: F) -> F:
        said = function.__annotations__
        function.__annotations__ = {name: kind if hint is Any else hint for name, hint in said.items()}
        return function

    return declared


def every_way(kind: Any, many: Any) -> None:
    """One value as input, argument, before-image, result, answer of a probe, child's and saga's result, and back."""
    refunded: list[object] = []

    def undone(done: Done) -> None:
        refunded.append(done.result)

    @action("way.loop")
    @declares(kind)
    async def on_loop(many: Any) -> Any:
        return many

    @on_loop.before
    @declares(kind)
    async def before(many: Any) -> Any:
        return many

    @action("way.thread")
    @declares(kind)
    def in_thread(many: Any) -> Any:
        return many

    @action("way.lost")
    @declares(kind)
    async def lost(many: Any) -> Any:
        raise OSError

    @lost.probe
    async def found(_: Asked) -> Happened:
        return Happened(many)

    for one in (on_loop, in_thread, lost):
        one.compensation(undone)

    @saga("way.child")
    @declares(kind)
    async def below(s: Work, many: Any) -> Any:
        return many

    @saga("way.all")
    @declares(kind)
    async def whole(s: Work, many: Any) -> Any:
        for one in (on_loop, in_thread, lost):
            assert await s.do(one, many=many) == many
        assert await s.call(below, many) == many
        return many

    made_in.clear()
    ended = run(whole, many)
    assert ended.status is SagaStatus.COMPLETED, ended.why
    assert ended.result == many

    @saga("way.back")
    @declares(kind)
    async def back(s: Work, many: Any) -> Any:
        await s.do(on_loop, many=many)
        raise ValueError

    assert run(back, many).status is SagaStatus.ROLLED_BACK
    assert refunded == [many]


@pytest.mark.parametrize(
    ("kind", "one", "many"),
    sampled([(list[Item], Item("a", 1), 6_000), (list[Article], Article(name="a" * 100), 12_000)], each=2),
    ids=["dataclass", "model"],
)
def test_a_large_value_is_stored_and_made_again_off_the_loop_whichever_way_it_goes(
    kind: Any, one: Any, many: int
) -> None:
    every_way(kind, [one])
    assert made_in[threading.get_ident()] > 0

    every_way(kind, [one] * many)
    assert made_in[threading.get_ident()] < made_in.total() / 5  # so much as is walked before it is known to be large


@dataclass
class Branch:
    kids: list["Branch"] = field(default_factory=list["Branch"])
    other: "Branch | None" = None

    def __post_init__(self) -> None:
        made.append(1)


class Limb(BaseModel):
    kids: list["Limb"] = []


class Ring(TypedDict):
    inside: "list[Ring] | None"
    day: NotRequired[dt.date]


def ring_of(one: Any, names: list[str]) -> Any:
    for name in names:
        setattr(one, name, [one, one] if name == "kids" else one)
    return one


def ring() -> Ring:
    found: Ring = {"inside": None}
    found["inside"] = [found]
    return found


@dataclass
class Trapped:
    """Reading it ends the process, if nobody minds."""

    size: int = 1

    def __getattribute__(self, name: str) -> Any:
        if name == "size":
            raise SystemExit("not even that")
        return super().__getattribute__(name)


@pytest.mark.parametrize("waits", [True, False], ids=["on the loop", "in a thread"])
@pytest.mark.parametrize(
    ("kind", "value", "says"),
    [
        (Branch, ring_of(Branch(), ["kids"]), "the result is nested deeper than 64 levels"),
        (Branch, ring_of(Branch(), ["other"]), "the result is nested deeper than 64 levels"),
        (Limb, ring_of(Limb(), ["kids"]), "the result is nested deeper than 64 levels"),
        (Ring, ring(), "the result is nested deeper than 64 levels"),
        (list[tuple[str, ...]], [("ha",) * 100_000] * 1000, "the result takes more than 16 MB as JSON"),
        (set[str], {"x" * 20_000_000}, "the result takes more than 16 MB as JSON"),
        (bytes, b"x" * 20_000_000, "the result takes more than 16 MB as JSON"),
        (Trapped, Trapped(), "what it returned cannot be read: SystemExit"),
    ],
    ids=["ring", "union", "model", "typed dict", "laughs", "set", "bytes", "trap"],
)
def test_what_was_returned_took_effect_however_it_defends_itself_against_being_stored(
    kind: Any, value: object, says: str, waits: bool
) -> None:
    refunded: list[object] = []

    def undo(done: Done) -> None:
        refunded.append(done.result)

    @declares(kind)
    async def on_loop() -> Any:
        return value

    @declares(kind)
    def in_thread() -> Any:
        return value

    returns = action("hostile.returns")(on_loop if waits else in_thread)
    returns.compensation(undo)

    @saga("hostile.returns")
    async def whole(s: Work) -> None:
        await s.do(returns)

    ended = run(whole)
    assert ended.status is SagaStatus.ROLLED_BACK
    assert f"took effect, but {says}" in ended.why
    assert refunded == [None]


def test_an_argument_without_an_end_is_refused_before_anything_begins() -> None:
    called: list[object] = []

    async def take(branch: Branch) -> None:
        called.append(branch)

    takes = action("hostile.takes", read_only=True)(take)

    @saga("hostile.takes")
    async def whole(s: Work) -> None:
        await s.do(takes, branch=ring_of(Branch(), ["kids"]))

    ended = run(whole)
    assert "NotJsonError: hostile.takes: branch is nested deeper than 64 levels" in ended.why
    assert called == []


def test_unions_that_lie_in_each_other_are_made_once_and_not_twice_at_each_level() -> None:
    chain = Branch()
    for _ in range(20):
        chain = Branch(other=chain)

    def give() -> Branch:
        raise NotImplementedError

    typed = Typed("chain", give)
    stored = typed.store_result(chain)
    made.clear()
    assert typed.restore_result(stored) == chain
    assert len(made) == 21
