"""The values that a journal can hold, and the one spelling that each of them has."""

import json
import math
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Any

import pytest
from hypothesis import given, strategies as st

from amends.core.words import values
from amends.core.words.values import DEEPEST, LARGEST_INT, LARGEST_VALUE, Json, canonical, digest
from amends.errors import NotJsonError, TooLargeError


class Colour(StrEnum):
    RED = "red"


# -- the spelling (RFC 8785) ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (-1.5, "-1.5"),
        (0.1, "0.1"),
        (100.0, "100"),
        (123456789.0, "123456789"),
        (1e20, "100000000000000000000"),
        (123456789012345680000.0, "123456789012345680000"),
        (1e21, "1e+21"),
        (1.5e21, "1.5e+21"),
        (-1.7976931348623157e308, "-1.7976931348623157e+308"),
        (1e-6, "0.000001"),
        (1.5e-6, "0.0000015"),
        (1e-7, "1e-7"),
        (1.25e-7, "1.25e-7"),
        (5e-324, "5e-324"),
        (333333333.3333333, "333333333.3333333"),
        (9007199254740992.0, "9007199254740992"),
    ],
)
def test_floats_are_spelled_as_ecmascript_prints_them(number: float, text: str) -> None:
    assert canonical(number) == text
    assert canonical({"a": [number]}) == f'{{"a":[{text}]}}'


@given(number=st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_is_read_back_as_the_same_number(number: float) -> None:
    assert float(canonical(number)) == number


def test_keys_are_sorted_by_their_utf_16_code_units_not_by_code_points() -> None:
    """U+1F600 is one code point past U+FFFF, but in UTF-16 it begins with D83D, which is less than FB33."""
    value = {"\ufb33": 1, "\U0001f600": 2, "\x7f": 3}
    assert canonical(value) == '{"\x7f":3,"\U0001f600":2,"\ufb33":1}'
    assert json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")) != canonical(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (LARGEST_INT, "9007199254740991"),
        (-LARGEST_INT, "-9007199254740991"),
        ("", '""'),
        ('"\\/\b\f\n\r\t', '"\\"\\\\/\\b\\f\\n\\r\\t"'),
        ("\x00\x1f\x7f", '"\\u0000\\u001f\x7f"'),
        ("é\u2028\U0001f600", '"é\u2028\U0001f600"'),
        ("x" * 2000, '"' + "x" * 2000 + '"'),
        ([], "[]"),
        ({}, "{}"),
        ([1, [2, {"b": None, "a": "é"}]], '[1,[2,{"a":"é","b":null}]]'),
        ({"b": 1, "a": True, "c": None, "d": "x"}, '{"a":true,"b":1,"c":null,"d":"x"}'),
        ({"a": {"b": 1}}, '{"a":{"b":1}}'),
        ({str(number): number for number in range(10)}, "{" + ",".join(f'"{n}":{n}' for n in range(10)) + "}"),
        ({"é": 1.5, "a": [2.0]}, '{"a":[2],"é":1.5}'),
    ],
)
def test_a_value_has_one_spelling(value: Json, text: str) -> None:
    assert canonical(value) == text
    assert canonical([value]) == f"[{text}]"


SCALARS = st.none() | st.booleans() | st.integers(-LARGEST_INT, LARGEST_INT) | st.text()
VALUES: st.SearchStrategy[Json] = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)


@given(value=VALUES)
def test_a_value_survives_and_its_spelling_does_not_depend_on_the_order_of_its_keys(value: Json) -> None:
    text = canonical(value)
    assert json.loads(text) == value
    assert canonical(json.loads(text)) == text
    assert canonical(turned_round(value)) == text


def turned_round(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: turned_round(value[key]) for key in reversed(value)}
    return [turned_round(item) for item in value] if isinstance(value, list) else value


def test_a_digest_is_that_of_the_utf_8_text() -> None:
    assert digest("é") == "4a99557e4033c3539de2eb65472017cad5f9557f7a0625a09f1c3f6e2ba69c4c"


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"a": [1, {"b": (1,)}]}, "args.a[1].b is a tuple, which JSON cannot hold; pass a list"),
        ({1}, "args is a set, which JSON cannot hold; pass a sorted list"),
        ([frozenset[int]()], "args[0] is a frozenset, which JSON cannot hold; pass a sorted list"),
        (b"x", "args is a bytes, which JSON cannot hold; pass text or base64"),
        ({"at": datetime(2026, 1, 1, tzinfo=UTC)}, "args.at is a datetime, which JSON cannot hold; pass .isoformat()"),
        (Decimal(1), "args is a Decimal, which JSON cannot hold; pass it as a string"),
        (Colour.RED, "args is a Colour, which JSON cannot hold"),
        ([object()], "args[0] is a object, which JSON cannot hold"),
        ({1: 2}, "args has the key 1, a int; keys must be strings"),
        ({"a": {None: 2}}, "args.a has the key None, a NoneType; keys must be strings"),
        ({Colour.RED: 2}, "args has the key <Colour.RED: 'red'>, a Colour; keys must be strings"),
        ([2**53], "args[0] is an integer past 2**53, which JSON readers round; pass it as a string"),
        ({"n": -(2**53)}, "args.n is an integer past 2**53, which JSON readers round; pass it as a string"),
        (math.nan, "args is nan, which JSON cannot hold"),
        ({"x": math.inf}, "args.x is inf, which JSON cannot hold"),
        ({"t": "\ud800"}, "args.t holds half a surrogate pair, which is not text; decode it properly first"),
        ({"\udc00": 1}, "a key of args holds half a surrogate pair, which is not text; decode it properly first"),
    ],
)
def test_what_does_not_survive_is_refused_with_the_path_of_the_culprit(value: object, says: str) -> None:
    with pytest.raises(NotJsonError) as caught:
        canonical(value, what="args")
    assert str(caught.value) == says


def test_what_has_no_name_is_a_value() -> None:
    with pytest.raises(NotJsonError, match=r"^value\[0\] is a set, which"):
        canonical([{1}])


def in_list(inner: Json) -> Json:
    return [inner]


def in_object(inner: Json) -> Json:
    return {"a": inner}


@pytest.mark.parametrize("wrap", [in_list, in_object])
def test_what_is_nested_too_deep_is_refused(wrap: Callable[[Json], Json]) -> None:
    value: Json = 1
    for _ in range(DEEPEST):
        value = wrap(value)
    assert canonical(value)
    with pytest.raises(NotJsonError, match=f"is nested deeper than {DEEPEST} levels"):
        canonical(wrap(value))


def test_a_value_that_holds_itself_is_refused() -> None:
    value: list[Json] = []
    value.append(value)
    with pytest.raises(NotJsonError, match="is nested deeper"):
        canonical(value)


def test_what_is_too_large_is_refused_by_its_bytes_not_by_its_letters() -> None:
    assert canonical("x" * (LARGEST_VALUE - 2))
    with pytest.raises(TooLargeError, match="args takes more than 16 MB as JSON; store it elsewhere and pass a refer"):
        canonical("x" * (LARGEST_VALUE - 1), what="args")
    with pytest.raises(TooLargeError):
        canonical("é" * (LARGEST_VALUE // 2))


# -- both ways --------------------------------------------------------------------------------------------------------


class Level(IntEnum):
    LOW = 1


class Text(str):
    __slots__ = ()


class Named(dict[str, Any]):
    """A dict of somebody's own."""


class Row(list[Any]):
    """A list of somebody's own."""


AWKWARD: list[Any] = [
    Colour.RED, Level.LOW, Text("a"), Named(a=1), Row([1]), OrderedDict[str, int](a=1), {Colour.RED: 1}, {Text("k"): 1},
    {1: 1}, {None: 1}, (1,), {1}, b"a", Decimal(1), datetime(2026, 1, 1, tzinfo=UTC), object(), 1 + 2j,
    math.nan, math.inf, 2**53, -(2**53), LARGEST_INT, -LARGEST_INT, "\ud800", {"\ud800": 1},
    {"\U0001f600": 1, "\ufb33": 2},
    1.0, -0.0, 1e16, 1e-7, 1e-4, 1e15, 999999999999999.9, True, None, '\x00\x1f\x7f"\\/é\u2028\U0001f600',
]  # fmt: skip


def deep(levels: int, of: object) -> object:
    return of if not levels else deep(levels - 1, {"a": of} if levels % 2 else [of])


def spelled_or_refused(spell: Callable[[], str]) -> str:
    try:
        return spell()
    except (NotJsonError, TooLargeError) as refused:
        return f"{type(refused).__name__}: {refused}"


@pytest.mark.parametrize("value", AWKWARD, ids=[f"{type(one).__name__}-{number}" for number, one in enumerate(AWKWARD)])
@pytest.mark.parametrize("levels", [0, 1, 2, DEEPEST - 1, DEEPEST, DEEPEST + 1])
def test_the_quick_way_spells_and_refuses_what_the_exact_one_does(value: object, levels: int) -> None:
    held = deep(levels, value)
    exact = spelled_or_refused(lambda: values._exactly(held, "args", LARGEST_VALUE))
    assert spelled_or_refused(lambda: canonical(held, what="args")) == exact
    quick = values.payload(held)
    assert quick is None or (quick[1].decode() == exact and repr(quick[0]) == repr(held))


@given(value=VALUES | st.floats() | st.lists(st.floats()))
def test_both_ways_spell_any_value_the_same(value: Json) -> None:
    exact = spelled_or_refused(lambda: values._exactly(value, "value", LARGEST_VALUE))
    assert spelled_or_refused(lambda: canonical(value)) == exact


def test_a_payload_is_a_copy_and_keeps_the_order_of_its_keys() -> None:
    given: dict[str, Any] = {"b": [1, {"z": 1, "a": [2]}], "a": "x"}
    found = values.payload(given)
    assert found is not None
    kept, text = found
    given["b"][1]["a"].append(3)
    given["b"].append(4)
    del given["a"]
    assert repr(kept) == "{'b': [1, {'z': 1, 'a': [2]}], 'a': 'x'}"
    assert text == b'{"a":"x","b":[1,{"a":[2],"z":1}]}'


def test_what_has_the_mark_of_a_secret_or_is_large_is_no_quick_payload() -> None:
    assert values.payload({"a": {values.SECRET_MARK: "env:KEY"}}) is None
    assert values.payload({"a": "x" * 100}, most=50) is None
    assert values.payload(["x" * 1_000_000]) is None


def test_a_huge_value_is_not_walked_to_its_end() -> None:
    """The quick look ends where a value is too large for it; the exact way refuses it, or takes its time in pieces."""
    endless: list[Any] = []
    endless += [endless, endless]
    assert values.room_left(endless, 1024) < 0
    wide: Any = 0
    for _ in range(40):
        wide = [wide] * 40
    assert values.room_left(wide) < 0
