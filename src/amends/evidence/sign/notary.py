"""The signer of a journal's checkpoints, by an Ed25519 key."""

from __future__ import annotations

import hmac
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from amends.errors import EvidenceError, EvidenceKeyError
from amends.evidence.sign import note as notes
from amends.evidence.sign.keys import KeySource, SigningKey
from amends.evidence.sign.note import PublicKey
from amends.journal.port.evidence import Handover, Notary, origin_of

_DERIVING: Final = b"amends: the secret that other keys follow from\n"
"""It is no tree head and no record of a new key, so a signature over it counts for nothing else."""


class KeyNotary:
    """Signs by the key of a source. The key is looked for when it is first needed, and again when it has changed."""

    def __init__(self, source: KeySource) -> None:
        self._source = source
        self._key: SigningKey | None = None
        self._known: PublicKey | None = None

    def public(self, origin: str) -> str:
        key = self._loaded() or self._take(self._source.make())
        return self._public(key, origin).text

    def holds(self, key: str) -> bool:
        if self._known is not None and self._known.text == key:
            return True
        wanted = notes.read_key(key)
        for load in (self._loaded, self._source.load):
            held = load()
            if held is not None and self._fits(held, wanted):
                return True
        following = self._source.load_next()
        if following is not None and self._fits(following, wanted):
            self._source.settle()
            return True
        if self._loaded() is None:
            raise self._missing()
        return False

    def could_sign(self, key: str) -> bool:
        """Whether it holds this key, or the one that is about to follow is this; nothing is changed by asking.

        Raises EvidenceKeyError where there is no key, or it cannot be used.
        """
        wanted, found = notes.read_key(key), self._source.load()
        if found is None and self._source.load_next() is None:
            raise self._missing()
        held = (one for one in (found, self._source.load_next()) if one is not None)
        return any(one.public_key().public_bytes_raw() == wanted.raw for one in held)

    def sign(self, key: str, size: int, root: bytes, at: int) -> str:
        text = notes.spell_checkpoint(origin_of(key), size, root)
        return notes.spell_note(text, [self._signature(origin_of(key), text)])

    def read(self, key: str, note: str) -> tuple[int, bytes]:
        wanted, signed = notes.read_key(key), notes.read_note(note)
        if not wanted.has_signed(signed):
            raise EvidenceError(f"{key} has not signed it")
        origin, size, root = notes.read_checkpoint(signed)
        if origin != wanted.name:
            raise EvidenceError(f"it is a checkpoint of another journal, {origin}")
        return size, root

    def succeed(self, before: Notary | None, key: str, size: int, root: bytes, at: int) -> Handover:
        old = notes.read_key(key)
        new = self._public(self._required(), old.name)
        checkpoint = notes.spell_checkpoint(old.name, size, root)
        record = notes.spell_rotation(old, new, size, root)
        signing = [self] if before is None else [_ours(before), self]
        return Handover(
            checkpoint=notes.spell_note(checkpoint, [one._signature(old.name, checkpoint) for one in signing]),
            record=notes.spell_note(record, [one._signature(old.name, record) for one in signing]),
        )

    def derived(self, purpose: str) -> bytes:
        """Another key, of 32 bytes, for this purpose alone: it does not tell the one that signs (HKDF, RFC 5869).

        Raises EvidenceKeyError where there is none to derive it from.
        """
        secret = hmac.digest(bytes(32), _secret_of(self._required()), "sha256")
        return hmac.digest(secret, f"amends {purpose}\x01".encode(), "sha256")

    def heir(self) -> KeyNotary:
        """The one that is to follow, with a new key; `settle` puts that in the old one's place."""
        made = KeyNotary(self._source)
        made._take(self._source.make_next())
        return made

    def settle(self) -> None:
        self._source.settle()

    # -- its own ------------------------------------------------------------------------------------------------------

    def _loaded(self) -> SigningKey | None:
        if self._key is None:
            key = self._source.load()
            if key is not None:
                self._take(key)
        return self._key

    def _required(self) -> SigningKey:
        key = self._loaded()
        if key is None:
            raise self._missing()
        return key

    def _missing(self) -> EvidenceKeyError:
        return EvidenceKeyError(
            f"{self._source.where}: the key that signs the journal is not there; put it back, or, if it is lost, go on "
            "with a new one: amends evidence rotate --lost"
        )

    def _take(self, key: SigningKey) -> SigningKey:
        self._key, self._known = key, None
        return key

    def _fits(self, key: SigningKey, wanted: PublicKey) -> bool:
        if key.public_key().public_bytes_raw() != wanted.raw:
            return False
        self._take(key)
        self._known = wanted
        return True

    def _public(self, key: SigningKey, origin: str) -> PublicKey:
        if self._known is None or self._known.name != origin:
            self._known = PublicKey(origin, key.public_key().public_bytes_raw())
        return self._known

    def _signature(self, origin: str, text: str) -> tuple[PublicKey, bytes]:
        key = self._required()
        return self._public(key, origin), key.sign(text.encode())


def _secret_of(key: SigningKey) -> bytes:
    """A secret that takes this key, or whoever signs by it. Ed25519 signs the same text alike each time."""
    if isinstance(key, Ed25519PrivateKey):
        return key.private_bytes_raw()
    found = key.sign(_DERIVING)
    if found != key.sign(_DERIVING):
        raise EvidenceKeyError("whoever keeps the key signs one text in two ways: no other key can follow from it")
    return found


def _ours(notary: Notary) -> KeyNotary:
    if not isinstance(notary, KeyNotary):
        raise EvidenceKeyError("a key can be named only by one that signs in the same way")
    return notary
