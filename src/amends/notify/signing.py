"""Signatures of webhooks, as Standard Webhooks 1.0 has them: HMAC-SHA256 over id, time of sending and body.

A secret is `whsec_` and 24 to 64 bytes in base64. Where several are given, separated by white space, each signs, and a
receiver that knows one of them is content: so a secret can be changed without a gap.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import os
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Final, cast

from amends.clock import SystemClock
from amends.errors import InputError, SecretUnavailableError, WebhookRefusedError
from amends.ownership import SECRET, read_own

ID: Final = "webhook-id"
TIMESTAMP: Final = "webhook-timestamp"
SIGNATURE: Final = "webhook-signature"
PREFIX: Final = "whsec_"
FEWEST_BYTES: Final = 24
MOST_BYTES: Final = 64
MOST_SIGNATURES: Final = 20
_LARGEST_FILE: Final = 4096


def sign(secrets: Sequence[bytes], id: str, timestamp: int, body: bytes) -> str:
    """The header's value: one signature for each secret."""
    content = b"%b.%d.%b" % (id.encode(), timestamp, body)
    made = (base64.b64encode(hmac.digest(secret, content, "sha256")).decode() for secret in secrets)
    return " ".join(f"v1,{one}" for one in made)


def verify_webhook(
    headers: Mapping[str, str], body: bytes, secret: str, now: int | None = None, *, tolerance_s: float = 300.0
) -> dict[str, Any]:
    """For whoever receives webhooks: what one says, once it is certain who sent it and when.

    body: as it came, to the byte.
    secret: `whsec_…`; several, separated by white space, while it is being changed.
    now: milliseconds of UTC, if not those of the machine's clock; one that was sent longer ago than `tolerance_s`, or
        so much later, is refused, because somebody may send it again.

    Raises WebhookRefusedError; InputError for a secret that is none. An `id` that was seen before was delivered twice.
    """
    given = {name.lower(): value for name, value in headers.items()}
    lacking = [name for name in (ID, TIMESTAMP, SIGNATURE) if not given.get(name)]
    if lacking:
        raise WebhookRefusedError(f"it has no {' and no '.join(lacking)}")
    sent = given[TIMESTAMP]
    if not (sent.isascii() and sent.isdecimal() and len(sent) <= len("253402300799")):
        raise WebhookRefusedError(f"its {TIMESTAMP} is not a number of seconds")
    moment = SystemClock().now() if now is None else now
    if abs(moment - int(sent) * 1000) > tolerance_s * 1000:
        raise WebhookRefusedError(f"it was sent more than {tolerance_s:g} s ago, or ahead of this clock")
    wanted = sign(parse_secrets(secret), given[ID], int(sent), body).split(" ")
    found = given[SIGNATURE].split(" ")[:MOST_SIGNATURES]
    fits = [hmac.compare_digest(one.encode(), other.encode()) for one in wanted for other in found]
    if not any(fits):
        raise WebhookRefusedError("none of its signatures is by a secret that is known here")
    return _parsed(body)


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        said: object = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise WebhookRefusedError("its body is not a JSON object")
    return cast("dict[str, Any]", said)


# -- secrets ----------------------------------------------------------------------------------------------------------


def parse_secrets(text: str) -> tuple[bytes, ...]:
    """Raises InputError, which never holds what was given."""
    found = tuple(map(_secret, text.split()))
    if not found:
        raise InputError(f"there is no webhook secret; one is {PREFIX} and {FEWEST_BYTES} or more bytes in base64")
    return found


def _secret(text: str) -> bytes:
    try:
        secret = base64.b64decode(text.removeprefix(PREFIX), validate=True) if text.startswith(PREFIX) else b""
    except (binascii.Error, ValueError):
        secret = b""
    if not FEWEST_BYTES <= len(secret) <= MOST_BYTES:
        raise InputError(
            f"a webhook secret is {PREFIX} and {FEWEST_BYTES} to {MOST_BYTES} bytes in base64; this one is not"
        )
    return secret


def secrets_from(env: str, file: str | PathLike[str] | None) -> tuple[bytes, ...]:
    """The secrets of a file that is its owner's alone, else of the environment. Raises SecretUnavailableError."""
    if file is not None:
        text, where = _kept(Path(file)), f"the file {file}"
    elif env in os.environ:
        text, where = os.environ[env], f"the environment's {env}"
    else:
        raise SecretUnavailableError(
            f"the environment has no {env}, which signs the webhooks; set it, or name a file of mode 600"
        )
    try:
        return parse_secrets(text)
    except InputError as exc:
        raise SecretUnavailableError(f"{where} has no secret to sign webhooks by: {exc}") from None


def _kept(path: Path) -> str:
    try:
        kept = read_own(path, SECRET, most=_LARGEST_FILE, error=SecretUnavailableError)
        return kept.decode("ascii")
    except OSError as exc:
        raise SecretUnavailableError(f"the webhook secret in {path} cannot be read: {exc.strerror}") from None
    except UnicodeDecodeError:
        raise SecretUnavailableError(f"{path} does not hold a webhook secret: it is not text") from None
