"""What a command goes by where its line and the environment say nothing: `amends.toml`, or `[tool.amends]`.

The nearest file counts, from the working directory upwards: `amends.toml`, else a `pyproject.toml` that has the table.
A path in it is seen from the file.
"""

from __future__ import annotations

import functools
import os
from typing import Final, NamedTuple

JOURNAL: Final = "amends.db"
KEYS: Final = ("journal", "policy", "env")
OWN: Final = "amends.toml"
SHARED: Final = "pyproject.toml"
_TABLE: Final = "[tool.amends]"


class Configured(NamedTuple):
    """`says` are the keys that `file` has; it is '' where there is none."""

    file: str = ""
    says: tuple[str, ...] = ()
    journal: str = JOURNAL
    policy: str | None = None
    env: str = "development"


def configured() -> Configured:
    """What the nearest file says. Raises InputError where it cannot be read, or says what it cannot say."""
    return _configured(os.getcwd())  # noqa: PTH109 - pathlib is slow to import, and every command asks this


def journal() -> str:
    return configured().journal


def policy() -> str | None:
    return configured().policy


def env() -> str:
    return configured().env


@functools.cache
def _configured(place: str) -> Configured:
    while True:
        own, shared = os.path.join(place, OWN), os.path.join(place, SHARED)  # noqa: PTH118 - as above
        if os.path.isfile(own):  # noqa: PTH113 - as above
            return _read(own, is_shared=False)
        if os.path.isfile(shared) and _TABLE in _text(shared):  # noqa: PTH113 - as above
            return _read(shared, is_shared=True)
        above = os.path.dirname(place)  # noqa: PTH120 - as above
        if above == place:
            return Configured()
        place = above


def _text(file: str) -> str:
    from amends.errors import InputError

    try:
        with open(file, encoding="utf-8") as opened:  # noqa: PTH123 - as above
            return opened.read()
    except (OSError, UnicodeDecodeError) as exc:
        raise InputError(f"{file} cannot be read: {getattr(exc, 'strerror', None) or exc}") from None


def _read(file: str, *, is_shared: bool) -> Configured:
    import tomllib

    from amends.errors import InputError

    try:
        whole: dict[str, object] = tomllib.loads(_text(file))
    except tomllib.TOMLDecodeError as exc:
        raise InputError(f"{file} is not TOML: {exc}") from None
    table: object = whole
    for key in ("tool", "amends") if is_shared else ():
        table = table.get(key, {}) if isinstance(table, dict) else {}  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] any TOML
    return _checked(file, table if isinstance(table, dict) else {})  # pyright: ignore[reportUnknownArgumentType] any TOML


def _checked(file: str, table: dict[str, object]) -> Configured:
    from amends.errors import InputError
    from amends.source.words import nearest

    values: dict[str, str] = {}
    for key, value in table.items():
        if key not in KEYS:
            right = nearest(key, KEYS)
            hint = f"did you mean {right}?" if right else f"known: {', '.join(KEYS)}"
            raise InputError(f"{file}: unknown key {key!r}; {hint}")
        if not isinstance(value, str) or not value:
            raise InputError(f"{file}: {key} has to be text, not {value!r}")
        values[key] = value
    here = os.path.dirname(file)  # noqa: PTH120 - as above
    for key in ("journal", "policy"):
        if key in values and "://" not in values[key] and values[key] != ":memory:":
            values[key] = _seen_from(here, values[key])
    return Configured(file=file, says=tuple(values), **values)


def _seen_from(directory: str, path: str) -> str:
    """A path of a file's, from the working directory; short where it lies below that."""
    whole = os.path.join(directory, path)  # noqa: PTH118 - as above
    near = os.path.relpath(whole)
    return whole if near.startswith("..") else near
