"""The values that a journal can hold: strict JSON, in one canonical spelling (RFC 8785).

What does not survive a round trip is refused here with the path of the culprit, before anything is stored: integers
past 2**53, NaN, lone surrogates, keys that are not strings, tuples, sets, bytes, and objects of any other kind.
"""

from __future__ import annotations

import hashlib
import json
import math
from json.encoder import encode_basestring as _quote
from typing import Any, Final, NewType, TypeAlias, cast

from amends.errors import NotJsonError, TooLargeError

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
SagaId = NewType("SagaId", str)
StepId = NewType("StepId", str)

SECRET_MARK: Final = "$secret"  # noqa: S105 - a mark, not a password
"""The key under which a stored value says that a secret stood there."""
RESOLVE: Final = "resolve "
"""How the signals begin by which people resolve the conflicts of a changeset."""
POLICIES: Final = "amends.policy"
"""The saga that keeps the policies, and its definition; no other saga may have either name."""
CONTROL: Final = "amends.control"
"""The saga that keeps pauses and holds, and its definition; no other saga may have either name."""
DRILLS: Final = "amends.drill"
"""The definition of the sagas that keep how drills came out; no other saga may have it."""
PARENT: Final = "amends.parent"
"""The label that says of which saga another is a child."""
CALL: Final = "amends.call"
"""The topic of the built-in action that runs a child."""
HOLDS: Final = "holds"
"""What the result of a call says where the child has done its work, and holds something until nothing can fail."""
MITIGATED: Final = "mitigated"
"""What taking a call back says where something of the child stands that could only be mitigated."""
LARGEST_INT: Final = 2**53 - 1
LARGEST_VALUE: Final = 16 * 1024 * 1024
DEEPEST: Final = 64
_SMALL: Final = 8
_SHORT: Final = 1024
_PLAIN_UP_TO: Final = 21
_PLAIN_FROM: Final = -6

_encode = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def canonical(value: object, *, what: str = "value") -> str:
    """Spell a value in the one way that has a stable digest. Raises NotJsonError or TooLargeError."""
    text = _spell_small(value)
    if text is not None:
        return text
    text = _encode(value) if _check(value, what, 0) else _spell(value)
    if len(text) > LARGEST_VALUE // 4 and len(text.encode()) > LARGEST_VALUE:
        raise TooLargeError(
            f"{what} takes more than {LARGEST_VALUE >> 20} MB as JSON; store it elsewhere and pass a reference"
        )
    return text


def _spell_small(value: object) -> str | None:
    """The spelling of a scalar, or of a small flat object, in one pass; None where the long way has to be taken."""
    kind = type(value)
    if kind is not dict:
        return _spell_scalar(value, kind)
    items = cast("dict[object, object]", value)
    if len(items) > _SMALL:
        return None
    parts: list[tuple[str, str]] = []
    for key, item in items.items():
        text = _spell_scalar(item, type(item))
        if text is None or type(key) is not str or not key.isascii():
            return None
        parts.append((key, text))
    return "{" + ",".join([f"{_quote(key)}:{text}" for key, text in sorted(parts)]) + "}"


def _spell_scalar(value: Any, kind: type) -> str | None:  # noqa: ANN401 - told apart by its exact type
    if kind is str:
        return _quote(value) if value.isascii() and len(value) < _SHORT else None
    if kind is int:
        return repr(value) if -LARGEST_INT <= value <= LARGEST_INT else None
    if value is None:
        return "null"
    return None if kind is not bool else "true" if value else "false"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _check(value: object, path: str, depth: int) -> bool:
    """Refuse what is outside the domain; say whether the standard encoder spells it canonically."""
    kind = type(value)
    if kind is str:
        return _check_text(cast("str", value), path)
    if value is None or kind is bool:
        return True
    if kind is int:
        return _check_int(cast("int", value), path)
    if kind is float:
        return _check_float(cast("float", value), path)
    if depth >= DEEPEST:
        raise NotJsonError(f"{path} is nested deeper than {DEEPEST} levels")
    plain = True
    if kind is dict:
        for key, item in cast("dict[object, object]", value).items():
            if type(key) is not str:
                raise NotJsonError(f"{path} has the key {key!r}, a {type(key).__name__}; keys must be strings")
            plain &= _check_text(key, f"a key of {path}") and key.isascii()
            plain &= _check(item, f"{path}.{key}", depth + 1)
        return plain
    if kind is list:
        for index, item in enumerate(cast("list[object]", value)):
            plain &= _check(item, f"{path}[{index}]", depth + 1)
        return plain
    raise NotJsonError(f"{path} is a {kind.__name__}, which JSON cannot hold{_ADVICE.get(kind.__name__, '')}")


def _check_text(text: str, path: str) -> bool:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise NotJsonError(
                f"{path} holds half a surrogate pair, which is not text; decode it properly first"
            ) from None
    return True


def _check_int(number: int, path: str) -> bool:
    if not -LARGEST_INT <= number <= LARGEST_INT:
        raise NotJsonError(f"{path} is an integer past 2**53, which JSON readers round; pass it as a string")
    return True


def _check_float(number: float, path: str) -> bool:
    if not math.isfinite(number):
        raise NotJsonError(f"{path} is {number}, which JSON cannot hold")
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
    """The slow, exact spelling: numbers as ECMAScript prints them, keys by UTF-16 code units."""
    if isinstance(value, float):
        return _spell_float(value)
    if isinstance(value, dict):
        items = cast("dict[str, object]", value)
        keys = sorted(items, key=lambda key: key.encode("utf-16-be"))
        return "{" + ",".join(f"{_encode(key)}:{_spell(items[key])}" for key in keys) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_spell, cast("list[object]", value))) + "]"
    return _encode(value)


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
