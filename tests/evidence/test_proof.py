"""Keys and their signatures: both verifiers find the same of each kind, and a changed byte is seen by both."""

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from amends.errors import InputError
from amends.evidence.proof.keys import is_signature, read_key, read_signature
from amends.evidence.proof.limits import Allowance
from amends.evidence.standalone_names import NameKey
from tests.security.proved import new_key, public, signer

TEXT = "amends decision 1\njournal: 00\n"
Made = tuple[str, bytes]


def wired(*raws: bytes) -> bytes:
    return b"".join(len(raw).to_bytes(4, "big") + raw for raw in raws)


def point_of(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PublicFormat.UncompressedPoint
    return key.public_key().public_bytes(serialization.Encoding.X962, form)


def numbers(signature: bytes) -> bytes:
    return wired(*(one.to_bytes(one.bit_length() // 8 + 1, "big") for one in decode_dss_signature(signature)))


def by_ssh(place: Path, kind: str) -> Made:
    key = new_key(place, kind, kind)
    return public(key), read_signature(signer(key)(TEXT))


def in_hardware(kind: str, flags: int = 1) -> Made:
    """A signature as a key in hardware makes it: over what it is for, whether somebody touched it, and a counter."""
    name = f"sk-{kind}@openssh.com".encode()
    covered = wired(b"amends", b"", b"sha512")
    message = b"SSHSIG" + covered + wired(hashlib.sha512(TEXT.encode()).digest())
    tail = bytes([flags]) + (7).to_bytes(4, "big")
    signed = hashlib.sha256(b"ssh:").digest() + tail + hashlib.sha256(message).digest()
    if kind == "ssh-ed25519":
        small = Ed25519PrivateKey.generate()
        blob = wired(name, small.public_key().public_bytes_raw(), b"ssh:")
        raw = small.sign(signed)
    else:
        curve = ec.generate_private_key(ec.SECP256R1())
        blob = wired(name, b"nistp256", point_of(curve), b"ssh:")
        raw = numbers(curve.sign(signed, ec.ECDSA(SHA256())))
    whole = b"SSHSIG\0\0\0\1" + wired(blob) + covered + wired(wired(name, raw) + tail)
    return f"{name.decode()} {base64.b64encode(blob).decode()}", whole


def passkey(text: str = TEXT, flags: int = 1, kind: str = "webauthn.get", relying: str = "amends.test") -> Made:
    """A signature as a browser has an authenticator make it."""
    key = ec.generate_private_key(ec.SECP256R1())
    line = f"webauthn-es256 {base64.b64encode(point_of(key)).decode()} amends.test"
    challenge = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
    client = json.dumps({"type": kind, "challenge": challenge, "origin": "https://amends.test"}).encode()
    authenticator = hashlib.sha256(relying.encode()).digest() + bytes([flags]) + bytes(4)
    signature = key.sign(authenticator + hashlib.sha256(client).digest(), ec.ECDSA(SHA256()))
    return line, b"WEBAUTHN" + wired(read_key(line).blob, authenticator, client, signature)


def verdicts(line: str, signature: bytes, text: str = TEXT) -> set[bool]:
    key = read_key(line)
    return {is_signature(key, signature, text), NameKey(key.line).has_signed_text(signature, text)}


MAKERS: dict[str, Callable[[Path], Made]] = {
    "ssh-ed25519": lambda place: by_ssh(place, "ed25519"),
    "ecdsa": lambda place: by_ssh(place, "ecdsa"),
    "sk-ssh-ed25519": lambda _: in_hardware("ssh-ed25519"),
    "sk-ecdsa": lambda _: in_hardware("ecdsa-sha2-nistp256"),
    "passkey": lambda _: passkey(),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_both_verifiers_take_a_signature_and_no_other_text_and_no_changed_byte(tmp_path: Path, kind: str) -> None:
    line, signature = MAKERS[kind](tmp_path)
    assert verdicts(line, signature) == {True}
    assert verdicts(line, signature, TEXT + " ") == {False}
    for place in range(0, len(signature), 7):  # the second verifier takes its time for each
        changed = signature[:place] + bytes([signature[place] ^ 1]) + signature[place + 1 :]
        assert verdicts(line, changed) == {False}, place
    assert verdicts(line, signature[:-1]) == {False}
    assert verdicts(line, signature + b"\0") == {False}


@pytest.mark.parametrize(
    ("line", "signature"),
    [
        in_hardware("ssh-ed25519", flags=0),
        in_hardware("ecdsa-sha2-nistp256", flags=0),
        passkey(flags=0),
        passkey("another text"),
        passkey(kind="webauthn.create"),
        passkey(relying="evil.test"),
    ],
    ids=["nobody touched it", "nor that", "nor the passkey", "another text", "a registration", "another site"],
)
def test_what_is_signed_for_something_else_or_by_nobody_is_no_proof(line: str, signature: bytes) -> None:
    assert verdicts(line, signature) == {False}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("ssh-rsa AAAAB3NzaC1yc2E=", "RSA"),
        ("ssh-dss AAAAB3NzaC1kc3M=", "DSA is broken"),
        ("ecdsa-sha2-nistp384 AAAA", "only P-256"),
        ("ssh-ed25519 AAAA", "damaged"),
        ("ssh-ed25519", "damaged"),
        ("", "no public key"),
    ],
)
def test_a_key_of_another_kind_is_refused_with_the_reason(line: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        read_key(line)


@pytest.mark.parametrize(
    "limits",
    [
        "[]",
        '{"steps":5}',
        '{"steps":{"most":"x","then":"to_checkpoint"}}',
        '{"steps":{"most":1,"then":"to_checkpoint","times":"x"}}',
    ],
)
def test_limits_and_amounts_that_are_none_allow_nothing(limits: str) -> None:
    """Whoever forges entries may write anything there: it is no amount, and no end of the verifier."""
    allowance = Allowance()
    for name, fields in (
        ("saga.started/1", {"limits": limits}),
        ("attempt.started/1", {"attempt": '"x"'}),
        ("budget.spent/1", {"tokens": "9" * 5000}),
        ("limit.raised/1", {"limit": '"steps"', "most": '"y"'}),
    ):
        allowance.note(name, fields)
    assert not allowance.allow({"limit": '"steps"', "most": "3"}, at=5)
