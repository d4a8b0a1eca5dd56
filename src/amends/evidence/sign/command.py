"""A command that signs: for a key in a vault, in hardware, or of another user. The key itself never comes here.

It is run with one more word:

    COMMAND public      writes the base64 of the public key's 32 bytes
    COMMAND sign        reads what is to be signed, and writes the base64 of the signature's 64 bytes (Ed25519)

What it wrote is verified before it counts. Where it fails, or takes too long, nothing is signed now: the journal goes
on, and owes a signature.
"""

from __future__ import annotations

import base64
import binascii
import shlex
import subprocess
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from amends.errors import EvidenceKeyError
from amends.evidence.sign.keys import KEY_COMMAND

PATIENCE_S: Final = 10.0
_LONGEST_WORD: Final = 200


class KeyCommand:
    """The source of a key that a command signs by."""

    where = KEY_COMMAND

    def __init__(self, command: str) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as exc:
            raise EvidenceKeyError(f"{KEY_COMMAND} cannot be read as a command: {exc}") from None

    def load(self) -> CommandKey:
        return CommandKey(self._words)

    def load_next(self) -> None:
        return None

    def make(self) -> CommandKey:
        return self.load()

    def make_next(self) -> CommandKey:
        raise EvidenceKeyError(
            f"the key is kept by the command in {KEY_COMMAND}, so a new one cannot be put in its place; "
            "say where the new one is to be kept: amends evidence rotate --to FILE"
        )

    def settle(self) -> None:
        """Do nothing: whoever keeps the key has to keep the next one."""


class CommandKey:
    """A key by its public half, and the command that signs by it."""

    def __init__(self, words: list[str]) -> None:
        self._words = words
        try:
            self._public = Ed25519PublicKey.from_public_bytes(_ran(words, "public", b""))
        except ValueError:
            raise _failed("public", "it has not written the base64 of a public key's 32 bytes") from None

    def public_key(self) -> Ed25519PublicKey:
        return self._public

    def sign(self, data: bytes, /) -> bytes:
        signature = _ran(self._words, "sign", data)
        try:
            self._public.verify(signature, data)
        except InvalidSignature:
            raise _failed("sign", "it has written no signature by the key that it says it has") from None
        return signature


def _ran(words: list[str], verb: str, given: bytes) -> bytes:
    try:
        ran = subprocess.run([*words, verb], input=given, capture_output=True, timeout=PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        raise _failed(verb, f"it has not answered in {PATIENCE_S:g} s") from None
    except OSError as exc:
        raise _failed(verb, exc.strerror or "it cannot be started") from None
    if ran.returncode:
        said = " ".join(ran.stderr.decode(errors="replace").split())[:_LONGEST_WORD]
        raise _failed(verb, f"it ended with {ran.returncode}{': ' if said else ''}{said}")
    try:
        return base64.b64decode(ran.stdout.strip(), validate=True)
    except binascii.Error:
        raise _failed(verb, "it has not written base64") from None


def _failed(verb: str, why: str) -> EvidenceKeyError:
    return EvidenceKeyError(f"the command in {KEY_COMMAND}, asked to `{verb}`: {why}; see docs/understand/evidence.md")
