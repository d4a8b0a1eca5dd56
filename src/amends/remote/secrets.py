"""Secrets of a client: their values stay in this process, and a server has what may be stored of each.

A digest is made with a key that follows from the client's token, so that a later process with the same token knows a
secret again, and whoever has only the server's journal cannot try values. Where there is no token, at a socket, the key
is this process's alone: a later one takes any secret in the same place for the same.
"""

from __future__ import annotations

import hmac
from typing import Any

from amends.clock import new_secret
from amends.core.words.values import LARGEST_VALUE, Json, StepId
from amends.runtime.values.bounded import Kept, keep
from amends.secrets import DigestKey, Secret, digests_by, unmask


class GivenSecrets:
    """The secrets that this process was given, by the saga that they were given to."""

    def __init__(self, token: str | None) -> None:
        known = new_secret(32) if token is None else token.encode()
        self._key = DigestKey.of(hmac.digest(known, b"amends: digests of secrets", "sha256"))
        self._of: dict[str, dict[str, Secret]] = {}
        """By saga, those that it was given, by what is stored of them."""

    def keep(self, value: object, saga: str, what: str, most: int = LARGEST_VALUE) -> Kept:
        """A value as it may be stored; the secrets in it are known from now on. Raises NotJsonError, TooLargeError."""
        token = digests_by.set(self._key)
        try:
            kept = keep(value, saga, what, most)
            if kept.secrets:
                self._of.setdefault(saga, {}).update({one.stored(saga): one for one in kept.secrets})
        finally:
            digests_by.reset(token)
        return kept

    def of(self, saga: str) -> tuple[Secret, ...]:
        return tuple(self._of.get(saga, {}).values())

    def forget(self, saga: str) -> None:
        """The saga is not driven here any more."""
        self._of.pop(saga, None)

    def restored(self, value: Json, saga: str, most: int = LARGEST_VALUE) -> Any:  # noqa: ANN401 - any value
        """A value with its secrets in it: those with their values that were given here, to this saga or its parents."""
        known = {stored: secret for given in self._of.values() for stored, secret in given.items()}
        return unmask(value, saga, most=most, stored_as=known)

    def enter(self) -> None:
        """The calling task makes calls: a secret that one returns is stored with this key, too."""
        digests_by.set(self._key)


class SecretsOf:
    """The secrets of one saga, as an executor asks for what must not be in a call's words."""

    def __init__(self, given: GivenSecrets, saga: str) -> None:
        self._given, self._saga = given, saga

    def secrets_of(self, step: StepId) -> tuple[Secret, ...]:
        return self._given.of(self._saga)
