"""JSON as people and programs give it: no name twice in one object, nothing that JSON does not have, not too deep."""

from __future__ import annotations

import json
from collections import Counter
from typing import Final, NoReturn

from amends.core.words.values import DEEPEST, is_too_deep
from amends.errors import InputError

_TOO_DEEP: Final = f"{{}} is nested too deeply: more than {DEEPEST} levels cannot be kept; give it flatter"


def parse_json(text: bytes, where: str) -> object:
    """The value of a text that comes from `where`. Raises InputError."""
    try:
        found: object = json.loads(text.decode("utf-8-sig"), object_pairs_hook=_object, parse_constant=_refuse)
    except json.JSONDecodeError as exc:
        raise InputError(f"{where} is not JSON: line {exc.lineno}, column {exc.colno}: {exc.msg}") from None
    except UnicodeDecodeError as exc:
        raise InputError(f"{where} is not UTF-8 text: byte {exc.start} is {text[exc.start]:#04x}") from None
    except RecursionError:
        raise InputError(_TOO_DEEP.format(where)) from None
    except ValueError as exc:
        raise InputError(f"{where} cannot be read: {exc}") from None
    if is_too_deep(found):
        raise InputError(_TOO_DEEP.format(where))
    return found


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise InputError(f"the input has the key {twice!r} twice in one object; which one counts is not clear")
    return made


def _refuse(constant: str) -> NoReturn:
    raise InputError(f"the input holds {constant}, which is not JSON")
