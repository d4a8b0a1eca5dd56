"""Keys and notes are C2SP's, read to the letter; and Ed25519 in plain Python says the same as the library."""

import base64
import random
from collections.abc import Callable

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given, strategies as st

from amends.errors import EvidenceError
from amends.evidence import ed25519, standalone
from amends.evidence.sign.note import (
    NotedHead,
    PublicKey,
    read_checkpoint,
    read_key,
    read_note,
    read_rotation,
    spell_checkpoint,
    spell_note,
    spell_rotation,
)

# The example of golang.org/x/mod/sumdb/note, which C2SP's format comes from.
PETER = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
PETERS = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
    "\n"
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)
ROOT = bytes(range(32))


def pair(seed: int, name: str = "amends/x") -> tuple[Ed25519PrivateKey, PublicKey]:
    private = Ed25519PrivateKey.from_private_bytes(bytes([seed] * 32))
    return private, PublicKey(name, private.public_key().public_bytes_raw())


def signed(text: str, *seeds: int) -> str:
    pairs = [pair(seed) for seed in seeds]
    return spell_note(text, [(public, private.sign(text.encode())) for private, public in pairs])


def is_refused_alone(read: Callable[[str], object], text: str) -> bool:
    """The verifier that stands alone has no errors of its own."""
    try:
        read(text)
    except ValueError:
        return True
    return False


def test_a_note_that_others_have_signed_verifies() -> None:
    assert read_key(PETER).has_signed(read_note(PETERS))
    assert standalone.Key(PETER).has_signed(*standalone.read_note(PETERS))
    assert read_key(PETER).text == PETER


def test_a_key_comes_back_from_its_text() -> None:
    _, public = pair(1)
    assert read_key(public.text + "\n") == public
    assert len({public, read_key(public.text)}) == 1
    assert public != "something else"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "PeterNeumann",
        PETER.replace("c74f20a3", "c74f20a4"),
        PETER.replace("c74f20a3", "C74F20A3"),
        PETER.replace("+AR", "+Ah"),
        PETER[:-4],
        PETER.replace("PeterNeumann", "Peter Neumann"),
        PETER.replace("PeterNeumann", ""),
        PETER + "=",
        "x" * 300 + PETER,
        "\ud800+00000000+AR",
    ],
)
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(EvidenceError, match="is not a public key"):
        read_key(text)
    assert is_refused_alone(standalone.Key, text)


def test_a_checkpoint_comes_back_and_only_its_signers_have_signed_it() -> None:
    note = signed(spell_checkpoint("amends/x", 12, ROOT), 1, 2)
    found = read_note(note)
    assert read_checkpoint(found) == NotedHead("amends/x", 12, ROOT)
    assert [pair(seed)[1].has_signed(found) for seed in (1, 2, 3)] == [True, True, False]
    assert not pair(1, "amends/y")[1].has_signed(found)


def test_of_two_signatures_by_one_key_the_first_counts() -> None:
    text = spell_checkpoint("amends/x", 12, ROOT)
    private, public = pair(1)
    good, bad = private.sign(text.encode()), private.sign(b"something else")
    assert public.has_signed(read_note(spell_note(text, [(public, good), (public, bad)])))
    assert not public.has_signed(read_note(spell_note(text, [(public, bad), (public, good)])))


def test_lines_that_others_may_add_to_a_checkpoint_are_signed_and_left_alone() -> None:
    note = signed(spell_checkpoint("amends/x", 12, ROOT) + "something of theirs\n", 1)
    assert read_checkpoint(read_note(note)).size == 12


@pytest.mark.parametrize(
    "text",
    [
        "amends/x\n12\n",
        "amends/x\n\nAA\n",
        "amends/x\n012\nx\n",
        f"amends/x\n12\n{base64.b64encode(b'short').decode()}\n",
    ],
)
def test_what_is_no_checkpoint_is_refused(text: str) -> None:
    note = read_note(signed(text, 1))
    with pytest.raises(EvidenceError):
        read_checkpoint(note)


NOTE = signed(spell_checkpoint("amends/x", 12, ROOT), 1)


@pytest.mark.parametrize(
    "note",
    [
        "",
        "\n",
        NOTE[:-1],
        NOTE.replace("\n\n", "\n"),
        NOTE.replace("— ", "- "),
        NOTE.replace("— ", "—"),
        NOTE.replace("amends/x ", "amends x "),
        NOTE.partition("— ")[0],
        NOTE.replace("12", "1\x002"),
        NOTE.replace("12", "1\ud800"),
        NOTE.rstrip("\n") + "=\n",
        NOTE + "— amends/x AAAA\n",
        NOTE + "\n",
        NOTE + "— amends/x AAAAAAAA\n" * 100,
        "x" * 70_000 + NOTE,
    ],
)
def test_what_is_no_note_is_refused(note: str) -> None:
    with pytest.raises(EvidenceError):
        read_note(note)
    assert is_refused_alone(standalone.read_note, note)


@given(note=st.text() | st.text(alphabet="ab—+ \n=/AZ09").map(lambda text: text + NOTE[-130:]))
def test_any_text_is_a_note_or_refused_by_both(note: str) -> None:
    try:
        ours = read_note(note)
    except EvidenceError:
        assert is_refused_alone(standalone.read_note, note)
    else:
        text, signatures = standalone.read_note(note)
        assert (text, signatures) == (ours.text, [(one.name, one.id + one.raw) for one in ours.signatures])


def test_a_change_of_keys_comes_back() -> None:
    (_, old), (_, new) = pair(1), pair(2)
    found = read_rotation(read_note(signed(spell_rotation(old, new, 7, ROOT), 1, 2)))
    assert found == ("amends/x", old, new, 7, ROOT)


@pytest.mark.parametrize(
    ("part", "other"),
    [("amends key", "amends"), ("amends/x\n", "amends/y\n"), ("\n7\n", "\n-7\n"), ("\n7\n", "\n7\n7\n")],
)
def test_what_is_no_change_of_keys_is_refused(part: str, other: str) -> None:
    text = spell_rotation(pair(1)[1], pair(2)[1], 7, ROOT).replace(part, other, 1)
    note = read_note(signed(text, 1))
    with pytest.raises(EvidenceError):
        read_rotation(note)


# -- Ed25519 in plain Python --------------------------------------------------------------------------------------

# RFC 8032, section 7.1: public key, message, signature.
VECTORS = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        (
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe2"
            "4655141438e7a100b"
        ),
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        (
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aee"
            "b00d291612bb0c00"
        ),
    ),
    (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        (
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28d"
            "c027beceea1ec40a"
        ),
    ),
]


@pytest.mark.parametrize(("public", "message", "signature"), VECTORS)
def test_the_signatures_of_the_rfc_are_good(public: str, message: str, signature: str) -> None:
    assert ed25519.is_signature(bytes.fromhex(public), bytes.fromhex(signature), bytes.fromhex(message))


def by_library(public: bytes, signature: bytes, message: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def test_plain_python_and_the_library_agree_on_good_and_bad_signatures() -> None:
    chance = random.Random(8032)
    for _ in range(40):
        private = Ed25519PrivateKey.from_private_bytes(chance.randbytes(32))
        public, message = private.public_key().public_bytes_raw(), chance.randbytes(chance.randrange(100))
        signature = bytearray(private.sign(message))
        kind = chance.randrange(5)
        if kind == 1:
            signature[chance.randrange(64)] ^= 1 << chance.randrange(8)
        elif kind == 2:
            message += b"!"
        elif kind == 3:  # the same number, spelled past the order: good arithmetic, and refused
            scalar = int.from_bytes(signature[32:], "little") + ed25519.L
            signature[32:] = scalar.to_bytes(32, "little")
        elif kind == 4:
            public = chance.randbytes(32)
        case = (public, bytes(signature), message)
        assert ed25519.is_signature(*case) == by_library(*case) == (kind == 0)
    assert not ed25519.is_signature(bytes.fromhex(VECTORS[0][0]), b"short", b"")
