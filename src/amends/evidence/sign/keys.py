"""The key that signs checkpoints: where it lies, who may read it, and how it is changed for another.

It lies outside the journal, since whoever can edit the journal should not be able to sign it. The first of these that
is there counts:

1. what the caller gives: the path of a file, or the key itself;
2. AMENDS_EVIDENCE_KEY: the key itself, as PEM or as the base64 of its 32 bytes;
3. AMENDS_EVIDENCE_KEY_FILE: the path of a file;
4. AMENDS_EVIDENCE_KEY_COMMAND: a command that signs, so that the key itself never comes here (`command.py`);
5. the file beside the journal, `<journal>.key`, made with mode 600 when the journal gets its first key.

A file that somebody else owns, or that others may read, is refused (`amends.ownership`). The one beside the journal
may not be a symbolic link either; a path that somebody chose may, because that is how secrets are mounted.

Where a group shares a journal, the key stays its owner's alone: the others do not sign, and what they write is signed
when its owner is next there.

Changing keys must survive a crash between the journal and the file. The new key is first written beside the old one
(`.next`), then the journal names it, then the file is put in the old one's place. Whoever finds a journal that names
the key in `.next` does the last of these.
"""

from __future__ import annotations

import base64
import binascii
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from amends.errors import EvidenceKeyError
from amends.ownership import KEY as BESIDE_JOURNAL, SECRET, read_own
from amends.private import claim_key

KEY: Final = "AMENDS_EVIDENCE_KEY"
KEY_FILE: Final = "AMENDS_EVIDENCE_KEY_FILE"
KEY_COMMAND: Final = "AMENDS_EVIDENCE_KEY_COMMAND"
LARGEST_FILE: Final = 16_384
_SEED_BYTES: Final = 32


class SigningKey(Protocol):
    """An Ed25519 key that signs, wherever it is kept."""

    def public_key(self) -> Ed25519PublicKey: ...

    def sign(self, data: bytes, /) -> bytes:
        """Raises EvidenceKeyError where whoever keeps the key does not sign."""
        ...


class KeySource(Protocol):
    """Where a notary has its key from. `where` says that in words."""

    @property
    def where(self) -> str: ...

    def load(self) -> SigningKey | None:
        """The key; None where there is none yet. Raises EvidenceKeyError where it cannot be used."""
        ...

    def load_next(self) -> SigningKey | None:
        """The key that is about to follow, where a change of keys has begun."""
        ...

    def make(self) -> SigningKey:
        """A new key, kept where `load` finds it."""
        ...

    def make_next(self) -> SigningKey:
        """A new key, kept where `load_next` finds it."""
        ...

    def settle(self) -> None:
        """The next key is the key from now on."""
        ...


def key_source(
    journal: Path | None, given: str | None, environment: Mapping[str, str], *, group: int | None = None
) -> KeySource:
    """The key of the journal at this path; None for one in memory, whose key is gone with it. `group`: of those who
    share the journal.
    """
    if given:
        return GivenKey(read_private(given, "evidence_key")) if _is_key(given) else KeyFile(Path(given))
    if environment.get(KEY):
        return GivenKey(read_private(environment[KEY], KEY))
    if environment.get(KEY_FILE):
        return KeyFile(Path(environment[KEY_FILE]))
    if environment.get(KEY_COMMAND):
        from amends.evidence.sign.command import KeyCommand

        return KeyCommand(environment[KEY_COMMAND])
    if journal is None:
        return GivenKey(Ed25519PrivateKey.generate())
    return KeyFile(beside(journal), follows_links=False, group=group)


def chosen_by(environment: Mapping[str, str]) -> str:
    """The variable by which somebody chose a key; '' for the key that amends keeps itself."""
    return next((name for name in (KEY, KEY_FILE, KEY_COMMAND) if environment.get(name)), "")


def is_another_members(journal: Path, given: str | None, environment: Mapping[str, str]) -> bool:
    """Whether the key of a shared journal is the file of another one of those who share it."""
    if given or chosen_by(environment):
        return False
    try:
        return beside(journal).lstat().st_uid != os.geteuid()
    except OSError:
        return False


def beside(journal: Path) -> Path:
    return journal.absolute().with_name(f"{journal.name}.key")


class GivenKey:
    """A key that somebody else keeps."""

    where = KEY

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    def load(self) -> Ed25519PrivateKey:
        return self._key

    def load_next(self) -> None:
        return None

    def make(self) -> Ed25519PrivateKey:
        return self._key

    def make_next(self) -> Ed25519PrivateKey:
        raise EvidenceKeyError(
            f"the key is given in {KEY} or by the program, so a new one cannot be put in its place; "
            "say where the new one is to be kept: amends evidence rotate --to FILE"
        )

    def settle(self) -> None:
        """Do nothing: whoever gave the key has to give the next one."""


class KeyFile:
    """A key in a file of its own, for its owner alone."""

    def __init__(self, path: Path, *, follows_links: bool = True, group: int | None = None) -> None:
        self.path = path.absolute()
        claim_key(self.path)
        self._next = self.path.with_name(f"{self.path.name}.next")
        self._follows_links = follows_links
        self._group = group

    @property
    def where(self) -> str:
        return str(self.path)

    def load(self) -> Ed25519PrivateKey | None:
        return self._load(self.path, follows_links=self._follows_links)

    def load_next(self) -> Ed25519PrivateKey | None:
        return self._load(self._next, follows_links=False)

    def make(self) -> Ed25519PrivateKey:
        return self._make(self.path)

    def make_next(self) -> Ed25519PrivateKey:
        """One that was begun and never named by the journal is no longer wanted."""
        try:
            self._next.unlink(missing_ok=True)
        except OSError as exc:
            raise _unusable(self._next, exc) from None
        return self._make(self._next)

    def settle(self) -> None:
        try:
            self._next.replace(self.path)
            _sync_folder(self.path)
        except FileNotFoundError:
            pass  # another process was faster
        except OSError as exc:
            raise _unusable(self.path, exc) from None

    def _load(self, path: Path, *, follows_links: bool) -> Ed25519PrivateKey | None:
        kind = SECRET if follows_links else BESIDE_JOURNAL
        try:
            text = read_own(path, kind, most=LARGEST_FILE, error=EvidenceKeyError, group=self._group)
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise _unusable(path, exc) from None
        if len(text) >= LARGEST_FILE:
            raise EvidenceKeyError(f"{path} is too large to be a key")
        return read_private(text.decode(errors="replace"), str(path))

    def _make(self, path: Path) -> Ed25519PrivateKey:
        """The file appears under its name with all of it in it, or not at all; one that is there is left alone."""
        made = Ed25519PrivateKey.generate()
        begun = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}")
        try:
            begun.unlink(missing_ok=True)
            file = os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                os.fchmod(file, 0o600)
                os.write(file, spell_private(made))
                os.fsync(file)
                os.link(begun, path)
            finally:
                os.close(file)
                begun.unlink(missing_ok=True)
            _sync_folder(path)
        except FileExistsError:
            return self._load(path, follows_links=self._follows_links) or self._make(path)
        except OSError as exc:
            raise _unusable(path, exc) from None
        return made


def _sync_folder(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _unusable(path: Path, trouble: OSError) -> EvidenceKeyError:
    return EvidenceKeyError(f"{path}: the key cannot be read or written there: {trouble.strerror}")


# -- as text ----------------------------------------------------------------------------------------------------------


def spell_private(key: Ed25519PrivateKey) -> bytes:
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(pem, pkcs8, serialization.NoEncryption())


def read_private(text: str, where: str) -> Ed25519PrivateKey:
    """PEM, or the base64 of 32 bytes. The message never holds what was read."""
    seed = _seed(text)
    if seed is not None:
        return Ed25519PrivateKey.from_private_bytes(seed)
    try:
        key = serialization.load_pem_private_key(text.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise EvidenceKeyError(f"{where} holds no Ed25519 private key, neither as PEM nor as base64 of 32 bytes")
    return key


def _is_key(given: str) -> bool:
    return "-----BEGIN" in given or _seed(given) is not None


def _seed(text: str) -> bytes | None:
    try:
        raw = base64.b64decode(text.strip().encode("ascii"), validate=True)
    except (binascii.Error, ValueError):
        return None
    return raw if len(raw) == _SEED_BYTES else None
