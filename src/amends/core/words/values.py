"""The values that a journal can hold: strict JSON, in one canonical spelling (RFC 8785).

Most values are spelled by msgspec, after a look at each part has shown that it spells this one in the same way. Others,
and what is to be refused, go the exact way.

What does not survive a round trip is refused here with the path of the culprit, before anything is stored: integers
past 2**53, NaN, lone surrogates, keys that are not strings, tuples, sets, bytes, and objects of any other kind. So is
what is nested deeper than 64 levels, or takes more than 16 MB; both are found while walking, however much is left.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import json
import math
from collections.abc import Callable, Iterable
from json.encoder import encode_basestring as _quote
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NewType, TypeAlias, cast

from msgspec.json import Encoder

from amends.core.words.parts import Cut, cut
from amends.errors import NotJsonError, TooLargeError

if TYPE_CHECKING:
    Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
else:
    Json = Any  # what a value holds is checked where it is spelled; an alias of itself is for type checkers only
SagaId = NewType("SagaId", str)
StepId = NewType("StepId", str)
_Way: TypeAlias = "tuple[_Way, str | int] | None"
"""Where a part of a value is: in what, and under which name or number there."""

SECRET_MARK: Final = "$secret"  # noqa: S105 - a mark, not a password
"""The key under which a stored value says that a secret stood there."""
_MARKED: Final = f'"{SECRET_MARK}"'.encode()
RESOLVE: Final = "resolve "
"""How the signals begin by which people resolve the conflicts of a changeset."""
BUILT_IN: Final = "amends."
"""How the names begin that are ours: topics, definitions, labels."""
RUNTIME: Final = "system:runtime"
"""Who acts where nobody asked: the runtime itself."""
PERSON: Final = "person:"
"""How the name of a person begins."""
POLICIES: Final = "amends.policy"
"""The saga that keeps the policies, and its definition; no other saga may have either name."""
CONTROL: Final = "amends.control"
"""The saga that keeps pauses and holds, and its definition; no other saga may have either name."""
PEOPLE: Final = "amends.people"
"""The saga that keeps the people who are enrolled, and its definition; no other saga may have either name."""
DRILLS: Final = "amends.drill"
"""The definition of the sagas that keep how drills came out; no other saga may have it."""
OWN: Final = (POLICIES, CONTROL, PEOPLE, DRILLS)
"""The definitions of the sagas that amends keeps for itself: nobody started them, and nothing of them is driven."""
PARENT: Final = "amends.parent"
"""The label that says of which saga another is a child."""
SESSION: Final = "amends.session"
"""The label that says of a saga that it is open: driven from outside, step by step."""
OPEN: Final = "*/0"
"""All open sagas, for whoever claims some by definition: theirs has no code, and so no version but 0."""
CALL: Final = "amends.call"
"""The topic of the built-in action that runs a child."""
HOLDS: Final = "holds"
"""What the result of a call says where the child has done its work, and holds something until nothing can fail."""
MITIGATED: Final = "mitigated"
"""What taking a call back says where something of the child stands that could only be mitigated."""
LARGEST_INT: Final = 2**53 - 1
LARGEST_VALUE: Final = 16 * 1024 * 1024
DEEPEST: Final = 64
_PLAIN_UP_TO: Final = 21
_PLAIN_FROM: Final = -6
_CONTAINERS: Final = frozenset({dict, list})
kind_of: Final = cast("Callable[[object], type[object]]", type)
_FLAGS: Final = frozenset({bool, type(None)})
PLAIN: Final = frozenset[type]({bool, type(None), int, float, str})
"""Types of JSON's values that hold no others: nobody can change one, so nobody needs a copy."""
_SMALLEST_FLOAT, _LARGEST_FLOAT = 1e-4, 1e15
"""Between these, a float that is not whole is spelled by everybody in the same way."""
_AT_ONCE: Final = 256 * 1024
"""How many characters are spelled by one call that no other thread can interrupt."""
_PIECES: Final = 8192
_REMEMBERED: Final = 4 * LARGEST_VALUE
_LONGEST_NAME: Final = 80
_LONGEST_WAY: Final = 400
_TYPE_NAME: Final = type.__dict__["__name__"]

quick_spelling: Final = Encoder(order="sorted").encode
"""The spelling in UTF-8 of what `room_left` has looked at, or of a fact that holds nothing else."""
_encode = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


class Weight:
    """How much a value may still take, counted down while it is walked, so that the walk of a huge one ends early.

    A part counts as no more than its spelling has characters: what is used up before the end is too large for sure.
    """

    __slots__ = ("left", "most", "what")

    def __init__(self, most: int = LARGEST_VALUE, what: str = "value") -> None:
        self.left = self.most = most
        self.what = what

    def take(self, characters: int) -> None:
        self.left -= characters
        if self.left < 0:
            raise too_large(self.what, self.most)


class Spelling(NamedTuple):
    """A large value that nobody changes any more, with its text, its size in bytes, and the parts that are stored."""

    value: object
    text: str
    size: int
    cut: Cut


class _Spellings:
    """The newest of them, in all no more than a few of the largest values there can be. What is gone is spelled anew.

    The tuple is replaced, never changed: threads that do so at the same time forget one at worst.
    """

    __slots__ = ("kept",)

    def __init__(self) -> None:
        self.kept: tuple[Spelling, ...] = ()

    def add(self, spelling: Spelling) -> None:
        kept, room = [spelling], _REMEMBERED - spelling.size
        for one in self.kept:
            room -= one.size
            if room >= 0:
                kept.append(one)
        self.kept = tuple(kept)


_spellings: Final = _Spellings()


def canonical(value: object, *, what: str = "value", most: int = LARGEST_VALUE) -> str:
    """Spell a value in the one way that has a stable digest. Raises NotJsonError or TooLargeError.

    What it costs is bounded by `most`, whatever the value is; a large one takes its time, and lets other threads run.
    """
    text = _quick_text(value, most)
    if text is not None:
        if len(text) > most // 4 and size_of(text) > most:
            raise too_large(what, most)
        return text
    return _exactly(value, what, most)


def _exactly(value: object, what: str, most: int) -> str:
    if _spellings.kept and (known := spelling_of(value)) is not None and known.size <= most:
        return known.text
    weight = Weight(most, what)
    plain = _check(value, weight, 0, None)
    text = _encode(value) if plain and most - weight.left <= _AT_ONCE else _spell(value)
    if len(text) > most // 4 and size_of(text) > most:
        raise too_large(what, most)
    return text


def is_too_deep(value: object) -> bool:
    """Whether a tree, as a reader of JSON makes it, is nested deeper than a journal holds."""
    level = [value] if type(value) in _CONTAINERS else []
    for _ in range(DEEPEST):
        below: list[object] = []
        for part in level:
            inner = cast("dict[str, object]", part).values() if type(part) is dict else part
            below += [one for one in cast("Iterable[object]", inner) if type(one) in _CONTAINERS]
        if not below:
            return False
        level = below
    return True


def too_large(what: str, most: int = LARGEST_VALUE) -> TooLargeError:
    size = f"{most >> 20} MB" if most >= 1 << 20 else f"{most >> 10} KB"
    return TooLargeError(f"{what} takes more than {size} as JSON; store it elsewhere and pass a reference")


def spell_once(value: object, *, what: str = "value") -> str:
    """Canonical text of a value that nobody will change any more: a large one is not spelled again by who stores it."""
    text = canonical(value, what=what)
    if len(text) > _AT_ONCE and spelling_of(value) is None:
        _spellings.add(Spelling(value, text, size_of(text), cut(text)))
    return text


def spelling_of(value: object) -> Spelling | None:
    """The spelling of a large value that was spelled a moment ago."""
    for known in _spellings.kept:
        if known.value is value:
            return known
    return None


def size_of(text: str) -> int:
    """In bytes, a piece at a time: a single call over megabytes would keep every other thread waiting."""
    if text.isascii():
        return len(text)
    return sum(len(text[start : start + _AT_ONCE].encode()) for start in range(0, len(text), _AT_ONCE))


newest_plain: Final[list[object]] = [None]
"""The newest copy that `payload` has made: whoever has the same object need not look through it again, for it is
spelled quickly and nobody changes it. Mostly that is who stores it, in the same breath.
"""


def payload(value: Any, most: int = LARGEST_VALUE) -> tuple[Json, bytes] | None:  # noqa: ANN401 - as `room_left`
    """A copy that nobody else holds and its text, of a value that is spelled quickly and holds nothing secret.

    None for any other: it is to be masked, and spelled in the exact way.
    """
    if room_left(value, min(_AT_ONCE, most)) < 0:
        return None
    try:
        text = quick_spelling(value)
    except UnicodeEncodeError:
        return None  # half a character: the exact way says where
    if text.find(_MARKED) >= 0:  # `in` would try it as a number first, and catch what that raises
        return None
    if type(value) not in _CONTAINERS:
        return value, text
    copy = newest_plain[0] = _copied(value)
    return copy, text


def _copied(value: Any) -> Any:  # noqa: ANN401 - told by its type; a `cast` would be a call more
    """A copy of a value that was looked at, and is neither deep nor large."""
    if type(value) is dict:
        named: dict[str, Any] = value.copy()  # pyright: ignore[reportUnknownVariableType] - its names are checked already
        for name, item in named.items():
            if type(item) in _CONTAINERS:
                named[name] = _copied(item)
        return named
    return [_copied(item) if type(item) in _CONTAINERS else item for item in value]


def _quick_text(value: object, most: int) -> str | None:
    if room_left(value, min(_AT_ONCE, most)) < 0:
        return None
    try:
        return quick_spelling(value).decode()
    except UnicodeEncodeError:
        return None  # half a character: the exact way says where


def room_left(value: Any, room: int = LARGEST_VALUE, levels: int = DEEPEST) -> int:  # noqa: ANN401 - told by its type
    """How many of so many characters a value leaves; below 0 where it has to be spelled in the exact way.

    That is what takes more, is nested deeper, holds what JSON does not, or what msgspec spells in a way of its own: a
    float that is whole or has an exponent, keys that are not ASCII (it sorts them by code points).
    """
    kind = kind_of(value)
    if kind is dict:
        room -= 5 * len(value)
        if room < 0 or not levels:
            return -1
        for key in value:
            if type(key) is not str or not key.isascii():
                return -1
            room -= len(key)
        items = value.values()
    elif kind is list:
        room -= 2 * len(value)
        if room < 0 or not levels:
            return -1
        items = value
    else:
        items = (value,)
    for item in items:
        kind = kind_of(item)
        if kind is str:
            room -= len(item)
        elif kind is int:
            if not -LARGEST_INT <= item <= LARGEST_INT:
                return -1
        elif kind in _CONTAINERS:
            room = room_left(item, room, levels - 1)
            if room < 0:
                return -1
        elif kind is float:
            if not _SMALLEST_FLOAT <= abs(item) < _LARGEST_FLOAT or item.is_integer():
                return -1
        elif kind not in _FLAGS:
            return -1
    return room


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _flaw(weight: Weight, way: _Way, says: str, of: str = "") -> NotJsonError:
    names: list[str] = []
    while way is not None:
        way, name = way
        if isinstance(name, str):
            names.append(f".{name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + '…'}")
        else:
            names.append(f"[{name}]")
    path = "".join(reversed(names))
    return NotJsonError(f"{of}{weight.what}{path if len(path) <= _LONGEST_WAY else path[:_LONGEST_WAY] + '…'} {says}")


def _check(value: object, weight: Weight, depth: int, way: _Way) -> bool:
    """Refuse what is outside the domain; say whether the standard encoder spells it canonically.

    Only exact types are looked into, so that no code of whoever made the value is ever called.
    """
    kind = type(value)
    if kind is str:
        return _check_text(cast("str", value), weight, way)
    if value is None or kind is bool:
        return True
    if kind is int:
        return _check_int(cast("int", value), weight, way)
    if kind is float:
        return _check_float(cast("float", value), weight, way)
    if kind is not dict and kind is not list:
        name = name_of(kind)
        raise _flaw(weight, way, f"is a {name}, which JSON cannot hold{_ADVICE.get(name, '')}")
    if depth >= DEEPEST:
        raise _flaw(weight, way, f"is nested deeper than {DEEPEST} levels")
    if _spellings.kept and (known := spelling_of(value)) is not None:
        weight.take(known.size)
        return False
    if kind is list:
        return _check_list(cast("list[object]", value), weight, depth + 1, way)
    return _check_dict(cast("dict[object, object]", value), weight, depth + 1, way)


def _check_list(items: list[object], weight: Weight, depth: int, way: _Way) -> bool:
    weight.take(2 * len(items))
    plain = True
    for index, item in enumerate(items):
        if type(item) is not int or not -LARGEST_INT <= item <= LARGEST_INT:
            plain &= _check(item, weight, depth, (way, index))
    return plain


def _check_dict(items: dict[object, object], weight: Weight, depth: int, way: _Way) -> bool:
    weight.take(5 * len(items))
    plain = True
    for key, item in items.items():
        if type(key) is not str:
            name = name_of(type(key))
            raise _flaw(weight, way, f"has the key {shown_key(key)}, a {name}; keys must be strings")
        plain &= _check_text(key, weight, way, "a key of ") and key.isascii()
        plain &= _check(item, weight, depth, (way, key))
    return plain


def name_of(kind: type) -> str:
    """The name of a class as it was declared, whatever its own class says; not for ever."""
    name: str = _TYPE_NAME.__get__(kind)
    return name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + "…"


def shown_key(key: object) -> str:
    """A key that is not text, as far as it can be shown: how it looks is decided by its class, which may be broken."""
    try:
        text = str.encode(repr(key), "utf-8", "backslashreplace").decode()
    except BaseException:  # noqa: BLE001 - whatever somebody's __repr__ raises, to end the process too
        return "…"
    return text if len(text) <= _LONGEST_NAME else text[:_LONGEST_NAME] + "…"


def _check_text(text: str, weight: Weight, way: _Way, of: str = "") -> bool:
    weight.take(len(text))
    if not text.isascii():
        try:
            size_of(text)
        except UnicodeEncodeError:
            says = "holds half a surrogate pair, which is not text; decode it properly first"
            raise _flaw(weight, way, says, of) from None
    return True


def _check_int(number: int, weight: Weight, way: _Way) -> bool:
    if not -LARGEST_INT <= number <= LARGEST_INT:
        raise _flaw(weight, way, "is an integer past 2**53, which JSON readers round; pass it as a string")
    return True


def _check_float(number: float, weight: Weight, way: _Way) -> bool:
    if not math.isfinite(number):
        raise _flaw(weight, way, f"is {number}, which JSON cannot hold")
    return False


_ADVICE: Final = {
    "tuple": "; pass a list",
    "set": "; pass a sorted list",
    "frozenset": "; pass a sorted list",
    "bytes": "; pass text or base64",
    "datetime": "; pass .isoformat()",
    "Decimal": "; pass it as a string",
}


def _spell(value: object) -> str:
    """The slow, exact spelling: numbers as ECMAScript prints them, keys by UTF-16 code units.

    In pieces, because a single call of the standard encoder over megabytes keeps every other thread waiting.
    """
    kind = type(value)
    if kind is str:
        return _spell_text(cast("str", value))
    if kind is int:
        return repr(value)
    if kind is float:
        return _spell_float(cast("float", value))
    if kind is not dict and kind is not list:
        return "null" if value is None else "true" if value else "false"
    if _spellings.kept and (known := spelling_of(value)) is not None:
        return known.text
    if kind is list:
        return "[" + _joined(map(_spell, cast("list[object]", value))) + "]"
    items = cast("dict[str, object]", value)
    return "{" + _joined(f"{_spell_text(key)}:{_spell(items[key])}" for key in _sorted_keys(items)) + "}"


def _spell_text(text: str) -> str:
    if len(text) <= _AT_ONCE:
        return _quote(text)
    pieces = (_quote(text[start : start + _AT_ONCE])[1:-1] for start in range(0, len(text), _AT_ONCE))
    return '"' + "".join(pieces) + '"'


def _joined(parts: Iterable[str]) -> str:
    left = iter(parts)
    pieces: list[str] = []
    while piece := list(itertools.islice(left, _PIECES)):
        pieces.append(",".join(piece))
    return ",".join(pieces)


def _sorted_keys(items: dict[str, object]) -> Iterable[str]:
    """By UTF-16 code units; in pieces that are merged where there are many."""
    order = None if all(map(str.isascii, items)) else _utf_16
    if len(items) <= _PIECES:
        return sorted(items, key=order)
    left = iter(items)
    pieces: list[list[str]] = []
    while piece := sorted(itertools.islice(left, _PIECES), key=order):
        pieces.append(piece)
    return heapq.merge(*pieces, key=order)


def _utf_16(key: str) -> bytes:
    return key.encode("utf-16-be")


def _spell_float(value: float) -> str:
    if value == 0:
        return "0"
    sign, digits, exponent = _decimal(value)
    point = len(digits) + exponent
    if 0 < point <= _PLAIN_UP_TO:
        whole = digits[:point].ljust(point, "0")
        text = f"{whole}.{digits[point:]}" if digits[point:] else whole
    elif _PLAIN_FROM < point <= 0:
        text = "0." + "0" * -point + digits
    else:
        mantissa = f"{digits[0]}.{digits[1:]}" if digits[1:] else digits
        text = f"{mantissa}e{point - 1:+d}"
    return sign + text


def _decimal(value: float) -> tuple[str, str, int]:
    """Sign, shortest digits and the power of ten of the last one."""
    text = repr(abs(value))
    mantissa, _, power = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    exponent = int(power or 0) - len(fraction)
    stripped = digits.rstrip("0")
    return ("-" if value < 0 else "", stripped, exponent + len(digits) - len(stripped))
