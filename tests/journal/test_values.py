"""The one spelling of a value: RFC 8785, and a refusal with the culprit's path for what lies outside of it."""

import json
import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amends.core.values import DEEPEST, LARGEST_INT, LARGEST_VALUE, Json, canonical, digest
from amends.errors import NotJsonError, TooLargeError
from tests.journal.test_codec import JSON, TEXT


# From RFC 8785, appendix B: IEEE 754 bits, and the text that ECMAScript prints for them.
@pytest.mark.parametrize(
    ("bits", "text"),
    [
        (0x0000000000000000, "0"),
        (0x8000000000000000, "0"),
        (0x0000000000000001, "5e-324"),
        (0x8000000000000001, "-5e-324"),
        (0x7FEFFFFFFFFFFFFF, "1.7976931348623157e+308"),
        (0xFFEFFFFFFFFFFFFF, "-1.7976931348623157e+308"),
        (0x4340000000000000, "9007199254740992"),
        (0xC340000000000000, "-9007199254740992"),
        (0x4430000000000000, "295147905179352830000"),
        (0x44B52D02C7E14AF5, "9.999999999999997e+22"),
        (0x44B52D02C7E14AF6, "1e+23"),
        (0x44B52D02C7E14AF7, "1.0000000000000001e+23"),
        (0x444B1AE4D6E2EF4E, "999999999999999700000"),
        (0x444B1AE4D6E2EF4F, "999999999999999900000"),
        (0x444B1AE4D6E2EF50, "1e+21"),
        (0x3EB0C6F7A0B5ED8C, "9.999999999999997e-7"),
        (0x3EB0C6F7A0B5ED8D, "0.000001"),
        (0x41B3DE4355555553, "333333333.3333332"),
        (0x41B3DE4355555554, "333333333.33333325"),
        (0x41B3DE4355555555, "333333333.3333333"),
        (0x41B3DE4355555556, "333333333.3333334"),
        (0x41B3DE4355555557, "333333333.33333343"),
        (0xBECBF647612F3696, "-0.0000033333333333333333"),
        (0x43143FF3C1CB0959, "1424953923781206.2"),
    ],
)
def test_a_float_is_spelled_as_ecmascript_prints_it(bits: int, text: str) -> None:
    (value,) = struct.unpack(">d", bits.to_bytes(8))
    assert canonical(value) == text
    assert canonical([value]) == f"[{text}]"


@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_comes_back_exactly(value: float) -> None:
    assert float(canonical(value)) == value


SPELLINGS: list[tuple[Json, str | None]] = [
    ({"b": 1, "a": 2}, '{"a":2,"b":1}'),
    # By UTF-16 code units U+1F600 (D83D DE00) comes before U+FB33, by code points after it.
    ({"\ufb33": 1, "\U0001f600": 2, "z": 3}, '{"z":3,"\U0001f600":2,"\ufb33":1}'),
    ({"€": 1, "\r": 2, "1": 3, "ö": 4, "\x80": 5}, '{"\\r":2,"1":3,"\x80":5,"ö":4,"€":1}'),
    ({str(number): 1.5 for number in range(10)}, None),
    ('\u20ac$\u000f\nA\'"\\\\"/', '"€$\\u000f\\nA\'\\"\\\\\\\\\\"/"'),
    ("\u2028", '"\u2028"'),
    ([None, True, False, [], {}], "[null,true,false,[],{}]"),
    (None, "null"),
    (True, "true"),
    (False, "false"),
    (LARGEST_INT, "9007199254740991"),
    ({"a": True, "b": None, "c": False, "d": "e", "f": -1}, '{"a":true,"b":null,"c":false,"d":"e","f":-1}'),
    ({"a": {"b": [1.0, 2.5]}}, '{"a":{"b":[1,2.5]}}'),
]


@pytest.mark.parametrize(("value", "text"), SPELLINGS)
def test_a_value_has_one_spelling(value: Json, text: str | None) -> None:
    plain = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert canonical(value) == (plain if text is None else text)


@given(value=JSON)
def test_a_spelling_is_json_and_spelled_again_the_same(value: Json) -> None:
    text = canonical(value)
    read = cast(Json, json.loads(text, parse_int=float))
    assert canonical(read) == text
    assert read == value


@given(items=st.dictionaries(TEXT, st.integers(0, 9), max_size=12))
def test_the_order_of_keys_does_not_matter(items: dict[str, int]) -> None:
    assert canonical(dict(reversed(items.items()))) == canonical(items)
    keys = list(json.loads(canonical(items)))
    assert keys == sorted(items, key=lambda key: key.encode("utf-16-be"))


class Text(str):
    """Not quite a string: json would take it, but it does not come back as one."""

    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ((1,), "args is a tuple, which JSON cannot hold; pass a list"),
        ({"a": [{1}]}, "args.a[0] is a set, which JSON cannot hold; pass a sorted list"),
        ([b""], "args[0] is a bytes, which JSON cannot hold; pass text or base64"),
        ({"d": Decimal(1)}, "args.d is a Decimal, which JSON cannot hold; pass it as a string"),
        (object(), "args is a object, which JSON cannot hold"),
        (Text("x"), "args is a Text, which JSON cannot hold"),
        ({Text("x"): 1}, "keys must be strings"),
        ({1: 2}, "args has the key 1, a int; keys must be strings"),
        ({"a": {None: 2}}, "args.a has the key None, a NoneType; keys must be strings"),
        ({"a": 1, 2: 3}, "args has the key 2, a int; keys must be strings"),
        (math.nan, "args is nan, which JSON cannot hold"),
        ([-math.inf], "args[0] is -inf, which JSON cannot hold"),
        ({"n": LARGEST_INT + 1}, "args.n is an integer past 2**53"),
        (-LARGEST_INT - 1, "args is an integer past 2**53"),
        ("\ud800", "args holds half a surrogate pair"),
        ({"a\udfff": 1}, "a key of args holds half a surrogate pair"),
    ],
    ids=lambda part: type(part).__name__ if type(part) is object else repr(part),
)
def test_what_json_cannot_hold_is_refused_by_its_path(value: object, says: str) -> None:
    with pytest.raises(NotJsonError) as caught:
        canonical(value, what="args")
    assert says in str(caught.value)


def in_list(value: object) -> object:
    return [value]


def in_object(value: object) -> object:
    return {"a": value}


@pytest.mark.parametrize("wrap", [in_list, in_object])
def test_what_is_nested_too_deep_is_refused(wrap: Callable[[object], object]) -> None:
    value: object = 1
    for _ in range(DEEPEST):
        value = wrap(value)
    canonical(value)
    with pytest.raises(NotJsonError, match=f"nested deeper than {DEEPEST} levels"):
        canonical(wrap(value))


def test_a_value_that_holds_itself_is_refused() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(NotJsonError, match="nested deeper"):
        canonical(value)


def test_16_mb_are_the_limit_in_bytes() -> None:
    canonical("x" * (LARGEST_VALUE - 2))
    with pytest.raises(TooLargeError, match="value takes more than 16 MB"):
        canonical("x" * (LARGEST_VALUE - 1))
    with pytest.raises(TooLargeError):
        canonical("é" * (LARGEST_VALUE // 2))


def test_a_digest_is_of_the_text() -> None:
    assert digest("é") == "4a99557e4033c3539de2eb65472017cad5f9557f7a0625a09f1c3f6e2ba69c4c"
