"""Secrets in arguments and results: the journal gets a digest or a reference, never the value.

The digest is salted with the saga's id, and made with a key that lies outside the journal: whoever has only the journal
cannot try values until one fits. It says which key it was made with, so that digests of an older key, and those of an
older amends, which had none, are compared each in its own form. Of one whose key is gone nobody can say what it was
made of: it agrees with any secret in its place.

What others say may quote a secret all the same: errors, diffs, logs. Those texts are searched for the values before
they are kept or shown. Known to the search are the secrets that the asking part of the work was given, and, whoever had
them, the newest values that this process has revealed or stored: a compensation need not have been given what it
quotes. A short value is looked for only where it was given: elsewhere it would be found by chance.

So is an exception of somebody's code, in words as a journal keeps them: without secrets, and not for ever.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import hmac
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Final, NamedTuple, cast

from amends.core.words.values import (
    DEEPEST,
    LARGEST_VALUE,
    SECRET_MARK as MARK,
    Json,
    Weight,
    canonical,
    kind_of,
    name_of,
    shown_key,
)
from amends.errors import ChangedSince, Fatal, NotDone, NotJsonError, SecretUnavailableError, TooLargeError

HIDDEN: Final = "[secret]"
"""What stands in a text in the place of a secret."""
SHORTEST: Final = 6
"""Characters that a value has at least which is looked for in every text, and each line or spelling of a value."""
MOST: Final = 256
"""Values that a process remembers to look for, the newest."""
_CONTAINERS: Final = frozenset({dict, list})
_BARE: Final = frozenset({int, float, bool, type(None)})
_SCALARS: Final = _BARE | {str}
_SMALL: Final = 8
_SHORT: Final = 1024
_KEYED: Final = "hmac-sha256:"
_PLAIN: Final = "sha256:"
_seen: Final[dict[str, None]] = {}


class DigestKey(NamedTuple):
    """The key that digests of secrets are made with, and the name that they have it by."""

    name: str
    key: bytes

    @classmethod
    def of(cls, key: bytes) -> DigestKey:
        """A key, known in this process from now on. Its name does not tell it."""
        made = cls(hmac.digest(key, b"name", "sha256").hex()[:8], key)
        _keys[made.name] = made
        return made


_keys: Final[dict[str, DigestKey]] = {}
digests_by: ContextVar[DigestKey | None] = ContextVar("amends_digests_by")
"""The key of the journal that the asking code writes to; None where it has none."""


def _present_key() -> DigestKey | None:
    """The key of the journal; in a thread that does not know which, the newest."""
    return digests_by.get(next(reversed(_keys.values()), None))


class Secret:
    """A value that never reaches the journal, a log or a page. An action calls `reveal()` where it needs it.

    `Secret("…")` is stored as a digest: a later process that compensates the step gets a Secret whose value is gone.
    `Secret.env("NAME")` is stored as that name and read from the environment each time, so a compensation has it too.
    """

    __slots__ = ("_stored", "_value")

    def __init__(self, value: str) -> None:
        self._value: str | None = value
        self._stored: str | None = None

    @classmethod
    def env(cls, name: str) -> Secret:
        return cls.kept(f"env:{name}")

    @classmethod
    def kept(cls, stored: str) -> Secret:
        """A secret as the journal has it: without its value."""
        secret = cls("")
        secret._value, secret._stored = None, stored
        return secret

    def reveal(self) -> str:
        if self._value is not None:
            _note(self._value)
            return self._value
        stored = self._stored or ""
        if not stored.startswith("env:"):
            raise SecretUnavailableError(
                "this secret's value was not kept; pass it as Secret.env(NAME) to have it again later"
            )
        name = stored.removeprefix("env:")
        if name not in os.environ:
            raise SecretUnavailableError(f"the environment has no {name}, which this secret refers to; set it")
        _note(os.environ[name])
        return os.environ[name]

    def __repr__(self) -> str:
        return "Secret(…)"

    __str__ = __repr__

    def stored(self, salt: str) -> str:
        """The form in which the journal keeps it."""
        if self._stored is not None:
            return self._stored
        _note(self._value or "")
        return self._digest(salt, _present_key())

    def stored_in_all_forms(self, salt: str) -> Iterator[str]:
        """Every form in which a journal may have it, whenever it was written, as far as the keys are known here."""
        yield self.stored(salt)
        if self._stored is None:
            for key in (None, *tuple(_keys.values())):
                yield self._digest(salt, key)

    def _digest(self, salt: str, key: DigestKey | None) -> str:
        said = f"{salt}\x1f{self._value}".encode("utf-8", "surrogatepass")
        if key is None:
            return _PLAIN + hashlib.sha256(said).hexdigest()
        return f"{_KEYED}{key.name}:{hmac.digest(key.key, said, 'sha256').hex()}"


def is_reference(secret: Secret) -> bool:
    """Whether what may be stored of it is fixed: the name of a variable, or what another process has made of it."""
    return secret._stored is not None  # pyright: ignore[reportPrivateUsage] - of this module


def mask(
    value: object, salt: str, *, what: str = "value", most: int = LARGEST_VALUE, found: list[Secret] | None = None
) -> object:
    """A copy with each Secret replaced by what may be stored of it, and those put into `found`.

    Raises NotJsonError where it is too deep, TooLargeError where it holds more than `most` characters of JSON: both
    while walking, so that neither a cycle nor millions of parts are walked to their end.
    """
    kind = type(value)
    if kind is dict:
        small = _small_copy(cast("dict[Any, Any]", value))
        if small is not None:
            return small
    elif kind is not list and kind is not Secret and (kind is not str or len(cast("str", value)) <= most):
        return value
    return _Masking(salt, Weight(most, what), found).masked(value, 0)


def _small_copy(items: dict[Any, Any]) -> object:
    """The copy of a small flat object, as most arguments and results are; None for any other."""
    if len(items) > _SMALL:
        return None
    item: Any
    for key, item in items.items():
        kind = kind_of(item)
        if kind is str:
            if len(item) > _SHORT:
                return None
        elif kind not in _BARE:
            return None
        if type(key) is not str or key == MARK:
            return None
    return items.copy()


def _is_flat(items: dict[str, Json]) -> bool:
    """Whether an object on record is small and holds plain values: then no secret is in it, for a secret's mark is an
    object.
    """
    return len(items) <= _SMALL and MARK not in items and _SCALARS.issuperset(map(type, items.values()))


class _Masking:
    """One walk. Only exact types are looked into: no code of whoever made the value is called."""

    __slots__ = ("_found", "_salt", "_weight")

    def __init__(self, salt: str | None, weight: Weight, found: list[Secret] | None) -> None:
        self._salt, self._weight, self._found = salt, weight, found

    def masked(self, value: object, depth: int) -> object:
        kind = type(value)
        if kind is str:
            self._weight.take(len(cast("str", value)))
            return value
        if kind is Secret:
            secret = cast("Secret", value)
            if self._found is not None:
                self._found.append(secret)
            return value if self._salt is None else {MARK: secret.stored(self._salt)}
        if kind is not dict and kind is not list:
            return value
        if depth >= DEEPEST:
            raise NotJsonError(f"{self._weight.what} is nested deeper than {DEEPEST} levels")
        if kind is list:
            items = cast("list[object]", value)
            self._weight.take(2 * len(items))
            return [item if type(item) in _BARE else self.masked(item, depth + 1) for item in items]
        named = cast("dict[object, object]", value)
        self._weight.take(5 * len(named))
        return {self._key(key): self.masked(item, depth + 1) for key, item in named.items()}

    def _key(self, key: object) -> str:
        if type(key) is not str:  # before anything asks it for its hash
            raise NotJsonError(
                f"{self._weight.what} has the key {shown_key(key)}, a {name_of(type(key))}; keys must be strings"
            )
        if key == MARK:
            raise NotJsonError(f"the key {MARK!r} is reserved; pass amends.Secret(...) for a secret")
        self._weight.take(len(key))
        return key


def without_digests(value: Json) -> Json:
    """A masked value without its secrets, of which each saga keeps another digest; the names of variables stay."""
    if isinstance(value, dict):
        stored = value.get(MARK)
        if isinstance(stored, str) and not stored.startswith("env:"):
            return {MARK: ""}
        return {key: without_digests(item) for key, item in value.items()}
    return [without_digests(item) for item in value] if isinstance(value, list) else value


def is_alike(asked: Json, recorded: Json, secrets: Collection[Secret], salt: str) -> bool:
    """Whether two masked values are the same, but for the form that the digests of these secrets have in each."""
    forms = {text: set(secret.stored_in_all_forms(salt)) for secret in secrets for text in [secret.stored(salt)]}

    def alike(one: Json, other: Json) -> bool:
        if isinstance(one, dict) and isinstance(other, dict):
            wanted, stored = one.get(MARK), other.get(MARK)
            if isinstance(wanted, str) and isinstance(stored, str) and wanted in forms:
                return stored in forms[wanted] or _has_lost_its_key(stored)
            return one.keys() == other.keys() and all(alike(one[name], other[name]) for name in one)
        if isinstance(one, list) and isinstance(other, list):
            return len(one) == len(other) and all(map(alike, one, other))
        return canonical(one) == canonical(other)

    return alike(asked, recorded)


def _has_lost_its_key(stored: str) -> bool:
    return stored.startswith(_KEYED) and stored.removeprefix(_KEYED).partition(":")[0] not in _keys


def secrets_in(value: object) -> Iterator[Secret]:
    """The secrets of a value that can be kept; what is too deep or too large for that is not walked to its end."""
    found: list[Secret] = []
    with contextlib.suppress(NotJsonError, TooLargeError):
        _Masking(None, Weight(), found).masked(value, 0)
    yield from found


def secrets_on_record(salt: str, *values: Json) -> Iterator[Secret]:
    """The secrets of values on record, of which a process that was never given them has what it can have."""
    for value in values:
        if type(value) in _CONTAINERS and not (type(value) is dict and _is_flat(value)):
            yield from secrets_in(unmask(value, salt))


def unmask(
    value: Json,
    salt: str,
    known: Collection[Secret] = (),
    *,
    most: int = 4 * LARGEST_VALUE,
    stored_as: Mapping[str, Secret] = MappingProxyType({}),
) -> object:
    """A fresh copy with the marks made Secrets again: the given ones where they fit, else ones without a value.

    `stored_as`: secrets by what is stored of them, whatever salt that was made with. Raises TooLargeError where it
    holds more than `most` characters.
    """
    if type(value) not in _CONTAINERS:
        return value
    if type(value) is dict and _is_flat(value):
        return value.copy()
    by_stored: dict[str, Secret] = {}
    weight = Weight(most)

    def found(stored: str) -> Secret:
        if known and not by_stored:
            by_stored.update({text: secret for secret in known for text in secret.stored_in_all_forms(salt)})
        return by_stored.get(stored) or stored_as.get(stored) or Secret.kept(stored)

    def restored(part: Json) -> object:
        if isinstance(part, dict):
            stored = part.get(MARK)
            if isinstance(stored, str):
                return found(stored)
            weight.take(5 * len(part))
            return {key: restored(item) for key, item in part.items()}
        if isinstance(part, list):
            weight.take(2 * len(part))
            return [item if type(item) in _SCALARS else restored(item) for item in part]
        return part

    return restored(value)


# -- in the words of others -------------------------------------------------------------------------------------------


def scrub(text: str, known: Iterable[Secret] = ()) -> str:
    """A text without the values of these secrets, and of those that this process has used; the longest first, because
    one may begin with another.
    """
    values = {value for value in tuple(_seen) if len(value) >= SHORTEST}
    for secret in known:
        with contextlib.suppress(SecretUnavailableError):
            values.add(secret.reveal())
    searched = {each for value in values for each in _spellings(value)}
    for each in sorted(searched, key=len, reverse=True):
        if each in text:
            text = text.replace(each, HIDDEN)
    return text


def _note(value: str) -> None:
    """Remember a value to look for. Those that were used last stay."""
    if len(value) >= SHORTEST:
        _seen.pop(value, None)
        _seen[value] = None
        while len(_seen) > MOST:
            with contextlib.suppress(KeyError, StopIteration, RuntimeError):  # another thread was faster
                del _seen[next(iter(_seen))]


@functools.lru_cache(maxsize=MOST)
def _spellings(value: str) -> tuple[str, ...]:
    """A value, and the ways in which it is usually spelled in errors and files; a long text line by line, too."""
    return tuple(dict.fromkeys(_spelled(value)))


def _spelled(value: str) -> Iterator[str]:
    bare = value.strip()
    if not bare:
        return
    yield value
    yield bare
    if len(bare) < SHORTEST:
        return
    yield from (line for each in bare.split("\n") if len(line := each.strip()) >= SHORTEST)
    raw = bare.encode("utf-8", "surrogatepass")
    for encoded in (base64.b64encode(raw), base64.urlsafe_b64encode(raw)):
        yield encoded.decode().rstrip("=")
    yield json.dumps(bare)[1:-1]
    yield json.dumps(bare, ensure_ascii=False)[1:-1]
    yield repr(bare)[1:-1]
    yield raw.hex()
    from urllib.parse import quote, quote_plus  # it brings a good deal with it; only who has secrets needs it

    for quoted in (quote, quote_plus):
        yield quoted(raw)
        yield quoted(raw, safe="")


LONGEST_ERROR: Final = 4096
_MOST_LEAVES: Final = 16


def is_certified(exc: BaseException) -> bool:
    """Whether its author speaks of the world, in words."""
    return isinstance(exc, (Fatal, NotDone, ChangedSince)) and bool(str(exc))


def told(exc: BaseException, known: Iterable[Secret] = ()) -> str:
    """Words of an exception, as the journal keeps them."""
    return kept_words(str(exc), known) if is_certified(exc) else told_by_name(exc, known)


def told_by_name(exc: BaseException, known: Iterable[Secret] = ()) -> str:
    """Words of an exception with its type in front, whatever it is; a group's own say nothing of what it holds."""
    every = (exc, *(one for one in leaves(exc) if one is not exc))
    return kept_words("; ".join(f"{name_of(type(one))}: {one}".rstrip(": ") for one in every), known)


def kept_words(text: str, known: Iterable[Secret] = ()) -> str:
    """A reason as the journal keeps it: without secrets and the letters that no journal can hold, and not for ever.

    It is searched first, and cut then: half a secret is not found any more.
    """
    said = scrub(text, known).encode("utf-8", "backslashreplace").decode()
    return said if len(said) <= LONGEST_ERROR else said[: LONGEST_ERROR - 1] + "…"


def leaves(exc: BaseException) -> Iterator[BaseException]:
    """The exceptions that a group holds, however deep; of any other, itself."""
    if isinstance(exc, BaseExceptionGroup):
        for one in cast("BaseExceptionGroup[BaseException]", exc).exceptions[:_MOST_LEAVES]:
            yield from leaves(one)
    else:
        yield exc
