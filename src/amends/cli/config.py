"""Configuration of commands, where line and environment say nothing: `amends.toml`, or `[tool.amends]`.

The nearest file counts, from the working directory upwards: `amends.toml`, else a `pyproject.toml` that has the table.
A path in it is seen from the file. One that somebody else owns or can write is refused, not passed by: who goes on
without it would not get what they ask for, and would not know it.

Every command asks this, and most have no file: what reads one is imported where there is one.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from amends.errors import DeclarationError, InputError
from amends.ownership import DOCUMENT, SAFE_KEY, read_own, user_file
from amends.source.marked import duration_s, nearest

if TYPE_CHECKING:
    from amends.runtime.settings import Settings

JOURNAL: Final = "amends.db"
URL: Final = "AMENDS_URL"
TEXTS: Final = ("journal", "policy", "env", "journal_group", "root")
DURATIONS: Final = ("lease", "rollback")
COUNTS: Final = ("attempts", "compensation_attempts")
LIMITS: Final = "limits"
ENVIRONMENTS: Final = "environments"
MODULES: Final = "modules"
KEYS: Final = (*TEXTS, *DURATIONS, *COUNTS, LIMITS, ENVIRONMENTS, MODULES)
_AMOUNTS: Final = ("tokens", "usd", "seconds", "steps", "failures", "retries", "spin")
_MOST_ATTEMPTS: Final = 1000
OWN: Final = "amends.toml"
SHARED: Final = "pyproject.toml"
JOURNAL_GROUP: Final = "AMENDS_JOURNAL_GROUP"
_LARGEST_FILE: Final = 1024 * 1024
ROOT: Final = "AMENDS_ROOT"
_pinned: Final[list[str]] = []
_forgives: Final[list[None]] = []
_TABLE: Final = "[tool.amends]"


class Configured(NamedTuple):
    """`says` are the keys that `file` has; it is '' where there is none. `bounds` are settings, by their names."""

    file: str = ""
    says: tuple[str, ...] = ()
    journal: str = JOURNAL
    policy: str | None = None
    env: str | None = None
    journal_group: str | None = None
    root: str | None = None
    environments: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    bounds: tuple[tuple[str, object], ...] = ()
    modules: tuple[str, ...] = ()


def configured() -> Configured:
    """Settings of the nearest file. Raises InputError where it cannot be read, or says what it cannot say."""
    if _forgives and config_refusal():
        return Configured()
    return _configured(os.getcwd())  # noqa: PTH109 - pathlib is slow to import, and every command asks this


def config_refusal() -> str:
    """Why the nearest file is not gone by; '' where it is, or where there is none."""
    try:
        _configured(os.getcwd())  # noqa: PTH109 - as above
    except InputError as exc:
        return str(exc)
    return ""


@contextmanager
def forgiving() -> Generator[None]:
    """Meanwhile a file that is refused is as good as none: for who looks what is wrong, and changes nothing."""
    _forgives.append(None)
    try:
        yield
    finally:
        _forgives.pop()


def journal() -> str:
    """The journal where the line names none; a server's address, where the environment has one."""
    return os.environ.get(URL) or configured().journal


def policy() -> str | None:
    return configured().policy


def env() -> str | None:
    return configured().env


def journal_group() -> str | None:
    """The group that shares the journal: as the environment says, else as the nearest file does."""
    return os.environ.get(JOURNAL_GROUP) or configured().journal_group


def pin(root: str | None) -> None:
    """Have this command go by a root that its line names."""
    _pinned[:] = [] if root is None else [root]


def root() -> str | None:
    """The root of the roster that is pinned: as the line or the environment says, else as the nearest file does."""
    return _pinned[0] if _pinned else os.environ.get(ROOT) or configured().root


def environments() -> Mapping[str, tuple[str, ...]]:
    return configured().environments


def modules() -> tuple[str, ...]:
    """Modules that declare the sagas here: imported, where a command needs definitions and its line names no module."""
    return configured().modules


def directory() -> str:
    """Where the nearest file is, which its modules are looked for in; '' where there is none."""
    return os.path.dirname(configured().file)  # noqa: PTH120 - as below


def settings(**bounds: object) -> Settings:
    """The settings that the nearest file asks for; over them these, where they are not None."""
    from amends.runtime.declare.limits import Limits
    from amends.runtime.settings import Settings

    found = dict(configured().bounds)
    limits = cast("dict[str, Any] | None", found.pop(LIMITS, None))
    said: dict[str, Any] = {**found, **{name: value for name, value in bounds.items() if value is not None}}
    return Settings(
        **said, limits=None if limits is None else Limits(**limits), journal_group=journal_group(), root=root()
    )


@functools.cache
def _configured(place: str) -> Configured:
    while True:
        own, shared = os.path.join(place, OWN), os.path.join(place, SHARED)  # noqa: PTH118 - as above
        if os.path.isfile(own):  # noqa: PTH113 - as above
            return _read(own, is_shared=False)
        if os.path.isfile(shared) and _has_table(shared):  # noqa: PTH113 - as above
            return _read(shared, is_shared=True)
        above = os.path.dirname(place)  # noqa: PTH120 - as above
        if above == place:
            return Configured()
        place = above


def _has_table(file: str) -> bool:
    """Whether a file that is about other things too has something to say to amends; looked at, and not believed."""
    try:
        with open(file, "rb") as opened:  # noqa: PTH123 - as above
            return _TABLE.encode() in opened.read(_LARGEST_FILE)
    except OSError as exc:
        raise InputError(f"{file} cannot be read: {exc.strerror}") from None


def _text(file: str) -> str:
    try:
        return read_own(file, DOCUMENT, most=_LARGEST_FILE, error=InputError).decode("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise InputError(f"{file} cannot be read: {getattr(exc, 'strerror', None) or exc}") from None


def _read(file: str, *, is_shared: bool) -> Configured:
    import tomllib  # most have no file to be read

    try:
        whole: dict[str, object] = tomllib.loads(_text(file))
    except tomllib.TOMLDecodeError as exc:
        raise InputError(f"{file} is not TOML: {exc}") from None
    table: object = whole
    for key in ("tool", "amends") if is_shared else ():
        table = table.get(key, {}) if isinstance(table, dict) else {}  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] any TOML
    inside = "tool.amends" if is_shared else ""
    return _checked(file, inside, table if isinstance(table, dict) else {})  # pyright: ignore[reportUnknownArgumentType] any TOML


def _checked(file: str, inside: str, table: dict[str, object]) -> Configured:
    values: dict[str, str] = {}
    bounds: list[tuple[str, object]] = []
    environments: Mapping[str, tuple[str, ...]] = {}
    modules: tuple[str, ...] = ()
    for key, value in table.items():
        where = _Where(file, inside, key)
        if key == SAFE_KEY:
            raise InputError(f"{where}: {key} is for the user to say, in {user_file()}; a project cannot trust itself")
        if key not in KEYS:
            raise where.unknown(key, KEYS)
        if key in TEXTS and (not isinstance(value, str) or not value):
            raise InputError(f"{where}: {key} has to be text, not {value!r}")
        if key in TEXTS:
            values[key] = cast("str", value)
        elif key in DURATIONS:
            bounds.append((f"{key}_s", _duration(where, key, value)))
        elif key in COUNTS:
            bounds.append((key, _count(where, key, value)))
        elif key == ENVIRONMENTS:
            environments = _environments(where, value)
        elif key == MODULES:
            modules = _modules(where, value)
        else:
            bounds.append((key, _limits(file, inside, value)))
    here = os.path.dirname(file)  # noqa: PTH120 - as above
    for key in ("journal", "policy"):
        if key in values and "://" not in values[key] and values[key] != ":memory:":
            values[key] = _seen_from(here, values[key])
    said: dict[str, Any] = {"bounds": tuple(bounds), "environments": environments, "modules": modules, **values}
    return Configured(file=file, says=tuple(table), **said)


def _modules(where: _Where, value: object) -> tuple[str, ...]:
    names = cast("list[object]", value) if isinstance(value, list) else [None]
    for name in names:
        if not isinstance(name, str) or not all(map(str.isidentifier, name.split("."))):
            raise InputError(
                f'{where}: modules has to be a list of what to import, such as ["shop.sagas"], not {value!r}'
            )
    return tuple(dict.fromkeys(cast("list[str]", names)))


def _environments(where: _Where, value: object) -> Mapping[str, tuple[str, ...]]:
    from amends.gate.environments import checked_environments

    try:
        return checked_environments(value)
    except InputError as exc:
        raise InputError(f"{where}: {exc}") from None


def _seen_from(directory: str, path: str) -> str:
    """A path of a file's, from the working directory; short where it lies below that."""
    whole = os.path.join(directory, path)  # noqa: PTH118 - as above
    near = os.path.relpath(whole)
    return whole if near.startswith("..") else near


class _Where(NamedTuple):
    """A key of a file: said as the file's name and its line."""

    file: str
    table: str
    key: str

    def __str__(self) -> str:
        line = _line(_text(self.file), self.table, self.key)
        return f"{self.file}:{line}" if line else self.file

    def unknown(self, word: str, known: tuple[str, ...], what: str = "key") -> Exception:
        right = nearest(word, known)
        hint = f"did you mean {right}?" if right else f"known: {', '.join(known)}"
        return InputError(f"{self}: unknown {what} {word!r}; {hint}")


def _line(text: str, table: str, key: str) -> int:
    """The line of a key, as TOML is usually written; 0 where it is not found. An inline table is on its key's line."""
    around, _, own = table.rpartition(".")
    here, found = "", 0
    for number, line in enumerate(text.split("\n"), start=1):
        bare = line.strip()
        if bare.startswith("["):
            here = bare.strip("[").partition("]")[0].replace(" ", "")
            continue
        name = bare.partition("=")[0].strip(" \"'")
        if here == table and name == key:
            return number
        if own and here == around and name in {own, f"{own}.{key}"}:
            found = number
    return found


def _duration(where: _Where, key: str, value: object) -> float:
    found = duration_s(value) if isinstance(value, str) else None
    if found is None:
        raise InputError(f'{where}: {key} has to be a duration of at most 366d, such as "30s" or "15m", not {value!r}')
    return found


def _count(where: _Where, key: str, value: object) -> int:
    if type(value) is int and 1 <= value <= _MOST_ATTEMPTS:
        return value
    raise InputError(f"{where}: {key} has to be a whole number from 1 to {_MOST_ATTEMPTS}, not {value!r}")


def _limits(file: str, inside: str, value: object) -> dict[str, object]:
    """Arguments of `Limits`. Each is tried alone, so that a mistake is told with its line."""
    from amends.runtime.declare.limits import Limits

    if not isinstance(value, dict):
        raise InputError(
            f"{_Where(file, inside, LIMITS)}: limits has to be a table, such as {{failures = 5}}, not {value!r}"
        )
    table, words = f"{inside}.{LIMITS}".strip("."), (*_AMOUNTS, "then")
    said = cast("dict[str, Any]", value)
    for name, each in said.items():
        where = _Where(file, table, name)
        if name not in words:
            raise where.unknown(name, words, "limit")
        try:
            Limits(**{name: each})
        except DeclarationError as exc:
            right = nearest(each, ("rollback", "pause", "call")) if name == "then" and isinstance(each, str) else None
            told = (
                f"then: {each!r} is no response; did you mean {right}?" if right else str(exc).removeprefix("Limits: ")
            )
            raise InputError(f"{where}: {told}") from None
    return dict(said)
