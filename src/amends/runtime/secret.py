"""Secrets in arguments and results: the journal gets a salted digest or a reference, never the value."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Collection, Iterable, Iterator
from typing import Final, cast

from amends.core.values import SECRET_MARK as MARK, Json
from amends.errors import NotJsonError, SecretUnavailableError

_CONTAINERS: Final = frozenset({dict, list})


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
            return self._value
        stored = self._stored or ""
        if not stored.startswith("env:"):
            raise SecretUnavailableError(
                "this secret's value was not kept; pass it as Secret.env(NAME) to have it again later"
            )
        name = stored.removeprefix("env:")
        if name not in os.environ:
            raise SecretUnavailableError(f"the environment has no {name}, which this secret refers to; set it")
        return os.environ[name]

    def __repr__(self) -> str:
        return "Secret(…)"

    __str__ = __repr__

    def stored(self, salt: str) -> str:
        """What the journal keeps of it."""
        if self._stored is not None:
            return self._stored
        return "sha256:" + hashlib.sha256(f"{salt}\x1f{self._value}".encode()).hexdigest()


def mask(value: object, salt: str) -> object:
    """The value with each Secret replaced by what may be stored of it; the value itself where it holds none."""
    kind = type(value)
    if kind is Secret:
        return {MARK: cast("Secret", value).stored(salt)}
    if kind is dict:
        items = cast("dict[object, object]", value)
        if MARK in items:
            raise NotJsonError(f"the key {MARK!r} is reserved; pass amends.Secret(...) for a secret")
        return {key: mask(item, salt) for key, item in items.items()}
    if kind is list:
        return [mask(item, salt) for item in cast("list[object]", value)]
    return value


def without_digests(value: Json) -> Json:
    """A masked value without its secrets, of which each saga keeps another digest; the names of variables stay."""
    if isinstance(value, dict):
        stored = value.get(MARK)
        if isinstance(stored, str) and not stored.startswith("env:"):
            return {MARK: ""}
        return {key: without_digests(item) for key, item in value.items()}
    return [without_digests(item) for item in value] if isinstance(value, list) else value


def secrets_in(value: object) -> Iterator[Secret]:
    if isinstance(value, Secret):
        yield value
    elif isinstance(value, dict):
        for item in cast("dict[object, object]", value).values():
            yield from secrets_in(item)
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from secrets_in(item)


def unmask(value: Json, salt: str, known: Collection[Secret] = ()) -> object:
    """A fresh copy with the marks made Secrets again: the given ones where they fit, else ones without a value."""
    if type(value) not in _CONTAINERS:
        return value
    by_stored = {secret.stored(salt): secret for secret in known} if known else {}

    def restored(part: Json) -> object:
        if isinstance(part, dict):
            stored = part.get(MARK)
            if isinstance(stored, str):
                return by_stored.get(stored) or Secret.kept(stored)
            return {key: restored(item) for key, item in part.items()}
        return [restored(item) for item in part] if isinstance(part, list) else part

    return restored(value)


def scrub(text: str, known: Iterable[Secret]) -> str:
    """A text without the values of these secrets; the longest first, because one may begin with another."""
    values: set[str] = set()
    for secret in known:
        with contextlib.suppress(SecretUnavailableError):
            values.add(secret.reveal())
    for value in sorted(values - {""}, key=len, reverse=True):
        text = text.replace(value, "[secret]")
    return text
