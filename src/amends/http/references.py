"""Secrets of a client, as a server has them: what may be stored of each, and never a value.

A client that gives an action a `Secret` keeps the value, and sends a digest made with a key of its own, or the name of
a variable of its environment. On record such a name says that it is a client's: no process that has the journal looks
into its own environment for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, cast

from amends.core.words.values import SECRET_MARK, Json
from amends.errors import InputError
from amends.secrets import Secret

_OURS: Final = "env:"
_THEIRS: Final = "client-env:"
_VARIABLE: Final = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]{0,199}")
_DIGEST: Final = re.compile(r"hmac-sha256:[0-9a-f]{8}:[0-9a-f]{64}")


def received(value: Json) -> object:
    """A value that came from a client, with its marks made Secrets. Raises InputError for a mark that is none."""
    if isinstance(value, dict):
        if SECRET_MARK in value:
            return _secret(value)
        return {name: received(item) for name, item in value.items()}
    return [received(item) for item in value] if isinstance(value, list) else value


def received_args(args: Mapping[str, Json]) -> dict[str, object]:
    """Arguments that came from a client. Raises InputError."""
    return {name: received(value) for name, value in args.items()}


def _secret(mark: dict[str, Json]) -> Secret:
    stored = mark[SECRET_MARK]
    if len(mark) == 1 and isinstance(stored, str):
        if _VARIABLE.fullmatch(stored):
            return Secret.kept(_THEIRS + stored.removeprefix(_OURS))
        if _DIGEST.fullmatch(stored):
            return Secret.kept(stored)
    raise InputError(
        f"{SECRET_MARK!r} marks a secret: write env: and the name of a variable of yours, or hmac-sha256: with the "
        "name of your key and the digest, as Coordinator.connect does; the value itself stays with you"
    )


def told(value: object, saga: str) -> object:
    """A value for a client, with its secrets as the client has sent them."""
    if isinstance(value, Secret):
        return {SECRET_MARK: _spelled(value.stored(saga))}
    if isinstance(value, dict):
        named = cast("dict[str, object]", value)
        stored = named.get(SECRET_MARK)
        if isinstance(stored, str):
            return {SECRET_MARK: _spelled(stored)}
        return {name: told(item, saga) for name, item in named.items()}
    return [told(item, saga) for item in cast("list[object]", value)] if isinstance(value, list) else value


def _spelled(stored: str) -> str:
    return _OURS + stored.removeprefix(_THEIRS) if stored.startswith(_THEIRS) else stored
