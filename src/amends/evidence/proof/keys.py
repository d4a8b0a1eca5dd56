"""People's keys and their signatures, as OpenSSH and browsers make them. Verifying only: no private key comes here.

    ssh-ed25519, ecdsa-sha2-nistp256          as `ssh-keygen -Y sign` signs, by a file or by the agent
    sk-ssh-ed25519@…, sk-ecdsa-sha2-nistp256@…  likewise, by a key in hardware that somebody has to touch
    webauthn-es256                            a passkey: `webauthn-es256 BASE64 RP-ID`, its point, uncompressed

An SSH signature is an SSHSIG blob: it covers the namespace `amends`, so none that was made for git or for a login
counts here. A passkey's is `WEBAUTHN` and four strings: its key, the authenticator's data, the client's, the signature;
its challenge is the SHA-256 of the text.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from typing import Final, NamedTuple, cast

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from amends.errors import EvidenceError, InputError

NAMESPACE: Final = "amends"
ED25519: Final = "ssh-ed25519"
P256: Final = "ecdsa-sha2-nistp256"
SK_ED25519: Final = "sk-ssh-ed25519@openssh.com"
SK_P256: Final = "sk-ecdsa-sha2-nistp256@openssh.com"
PASSKEY: Final = "webauthn-es256"
KINDS: Final = (ED25519, P256, SK_ED25519, SK_P256, PASSKEY)
_REFUSED: Final = {
    "ssh-rsa": "RSA signatures are long, and easily made too weak",
    "ssh-dss": "DSA is broken",
    "ecdsa-sha2-nistp384": "of the curves of NIST only P-256 is verified here",
    "ecdsa-sha2-nistp521": "of the curves of NIST only P-256 is verified here",
}
_CURVE: Final = b"nistp256"
_MAGIC: Final = b"SSHSIG"
_PASSKEY_MAGIC: Final = b"WEBAUTHN"
_HASHES: Final = {b"sha256": hashlib.sha256, b"sha512": hashlib.sha512}
_PRESENT: Final = 1
_POINT_BYTES: Final = 65
_RAW_BYTES: Final = 32
_SIGNATURE_BYTES: Final = 64
_LEAST_AUTHENTICATOR_BYTES: Final = 37
LONGEST: Final = 8192


class PersonKey(NamedTuple):
    """A key that proves a name. `line` is its one spelling; `blob` what SSH sends of it."""

    kind: str
    blob: bytes
    line: str

    @property
    def fingerprint(self) -> str:
        """As `ssh-keygen -l` shows it."""
        return f"SHA256:{base64.b64encode(hashlib.sha256(self.blob).digest()).decode().rstrip('=')}"


def read_key(text: str) -> PersonKey:
    """The key of a line, as it stands in a `.pub` file. Raises InputError with the reason why it cannot be enrolled."""
    words = text.strip().split()
    if not words or len(text) > LONGEST or "\n" in text.strip():
        raise InputError("that is no public key: give the line of a .pub file, such as ~/.ssh/id_ed25519.pub")
    kind = words[0]
    if kind not in KINDS:
        why = _REFUSED.get(kind, "it is of a kind that is not verified here")
        raise InputError(f"a key of kind {kind!r} cannot be enrolled: {why}; use one of {', '.join(KINDS)}")
    try:
        raw = _decoded(words[1])
        if kind == PASSKEY:
            relying = words[2].encode()
            blob = _string(kind.encode()) + _string(raw) + _string(relying)
            line = f"{kind} {words[1]} {words[2]}"
        else:
            blob, line = raw, f"{kind} {words[1]}"
        found = PersonKey(kind, blob, line)
        _parts(found)
    except (IndexError, ValueError, UnicodeError):
        raise InputError(f"the key of kind {kind!r} is damaged, or cut off; copy its line again") from None
    return found


class _Key(NamedTuple):
    """Parts of a key that verify: an Ed25519 key, or a point of P-256; and what a hardware key is for."""

    ed25519: Ed25519PublicKey | None
    point: ec.EllipticCurvePublicKey | None
    application: bytes


def _parts(key: PersonKey) -> _Key:
    """Raises ValueError where its blob is not one of its kind."""
    reader = _Reader(key.blob)
    if reader.string() != key.kind.encode():
        raise ValueError("it says that it is of another kind")
    if key.kind in {P256, SK_P256} and reader.string() != _CURVE:
        raise ValueError("it is of another curve")
    raw = reader.string()
    application = b"" if key.kind in {ED25519, P256} else reader.string()
    reader.end()
    if key.kind in {ED25519, SK_ED25519}:
        if len(raw) != _RAW_BYTES:
            raise ValueError("it is too short")
        return _Key(Ed25519PublicKey.from_public_bytes(raw), None, application)
    if len(raw) != _POINT_BYTES or raw[0] != 4:  # noqa: PLR2004 - an uncompressed point, as SSH and browsers send it
        raise ValueError("it is no point")
    return _Key(None, ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), raw), application)


def signing_key(signature: bytes) -> bytes:
    """The blob of the key that a signature says it is by. Raises EvidenceError."""
    try:
        reader = _Reader(signature)
        if signature[: len(_PASSKEY_MAGIC)] == _PASSKEY_MAGIC:
            reader.take(len(_PASSKEY_MAGIC))
        else:
            reader.take(len(_MAGIC) + 4)
        return reader.string()
    except ValueError:
        raise EvidenceError("it is no signature") from None


def is_signature(key: PersonKey, signature: bytes, text: str) -> bool:
    """Whether this key has signed this text. Never raises: what cannot be read is no signature."""
    try:
        if signature[: len(_PASSKEY_MAGIC)] == _PASSKEY_MAGIC:
            return key.kind == PASSKEY and _is_passkey_signature(key, signature, text)
        return key.kind != PASSKEY and _is_ssh_signature(key, signature, text)
    except (ValueError, InvalidSignature, KeyError, RecursionError, TypeError):
        return False


def _is_ssh_signature(key: PersonKey, signature: bytes, text: str) -> bool:
    reader = _Reader(signature)
    opening, version = reader.take(len(_MAGIC)), reader.number()
    blob, namespace, reserved, hashed, inner = (reader.string() for _ in range(5))
    reader.end()
    if (opening, version, blob, namespace, reserved) != (_MAGIC, 1, key.blob, NAMESPACE.encode(), b""):
        return False
    covered = _string(namespace) + _string(reserved) + _string(hashed)
    message = _MAGIC + covered + _string(_HASHES[hashed](text.encode()).digest())
    reader = _Reader(inner)
    kind, raw = reader.string(), reader.string()
    if kind != key.kind.encode():
        return False
    parts = _parts(key)
    if parts.application:
        flags, counter = reader.take(1), reader.take(4)
        if not flags[0] & _PRESENT:
            return False
        message = hashlib.sha256(parts.application).digest() + flags + counter + hashlib.sha256(message).digest()
    reader.end()
    if parts.ed25519 is not None:
        if len(raw) != _SIGNATURE_BYTES:
            return False
        parts.ed25519.verify(raw, message)
        return True
    reader = _Reader(raw)
    r, s = reader.integer(), reader.integer()
    reader.end()
    return _is_of_point(parts, encode_dss_signature(r, s), message)


def _is_of_point(parts: _Key, signature: bytes, message: bytes) -> bool:
    if parts.point is None:
        return False
    parts.point.verify(signature, message, ec.ECDSA(SHA256()))
    return True


def _is_passkey_signature(key: PersonKey, signature: bytes, text: str) -> bool:
    reader = _Reader(signature)
    reader.take(len(_PASSKEY_MAGIC))
    blob, authenticator, client, raw = (reader.string() for _ in range(4))
    reader.end()
    parts = _parts(key)
    said: object = json.loads(client)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
    is_ours = blob == key.blob and len(authenticator) >= _LEAST_AUTHENTICATOR_BYTES
    fields = cast("dict[str, object]", said) if type(said) is dict else {}
    if not is_ours or (fields.get("type"), fields.get("challenge")) != ("webauthn.get", challenge):
        return False
    if authenticator[:32] != hashlib.sha256(parts.application).digest() or not authenticator[32] & _PRESENT:
        return False
    return _is_of_point(parts, raw, authenticator + hashlib.sha256(client).digest())


def read_signature(text: str) -> bytes:
    """A signature as `ssh-keygen -Y sign` writes it, with its armour or as base64 alone. Raises InputError."""
    lines = [line.strip() for line in text.strip().split("\n") if line.strip() and not line.startswith("-----")]
    try:
        if len(text) > LONGEST:
            raise ValueError("it is too long")
        return _decoded("".join(lines))
    except (ValueError, UnicodeError):
        raise InputError("that is no signature: give what ssh-keygen -Y sign has written") from None


def _decoded(text: str) -> bytes:
    """Base64 in its one proper spelling. Raises ValueError."""
    try:
        raw = base64.b64decode(text.encode("ascii"), validate=True)
    except binascii.Error as exc:
        raise ValueError(str(exc)) from None
    if not raw or base64.b64encode(raw).decode() != text:
        raise ValueError("it is not proper base64")
    return raw


def _string(raw: bytes) -> bytes:
    return len(raw).to_bytes(4, "big") + raw


class _Reader:
    """The strings and numbers of SSH's wire format. Raises ValueError."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._place = 0

    def take(self, count: int) -> bytes:
        taken = self._raw[self._place : self._place + count]
        if len(taken) != count:
            raise ValueError("it is cut off")
        self._place += count
        return taken

    def number(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def string(self) -> bytes:
        return self.take(self.number())

    def integer(self) -> int:
        """A number in its one proper spelling."""
        raw = self.string()
        number = int.from_bytes(raw, "big", signed=True)
        if number <= 0 or raw != number.to_bytes(number.bit_length() // 8 + 1, "big"):
            raise ValueError("it is no number of a signature")
        return number

    def end(self) -> None:
        if self._place != len(self._raw):
            raise ValueError("something comes after its end")
