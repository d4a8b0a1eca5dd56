"""The key that signs lies where only its owner can read it, and changing it survives a crash at any point."""

import asyncio
import base64
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from amends.addresses import digest_key, open_journal
from amends.bootstrap import Coordinator
from amends.clock import SystemClock
from amends.errors import EvidenceError, EvidenceKeyError
from amends.evidence.sign import keys
from amends.evidence.sign.keys import (
    KEY,
    KEY_COMMAND,
    KEY_FILE,
    GivenKey,
    KeyFile,
    SigningKey,
    key_source,
    read_private,
    spell_private,
)
from amends.evidence.sign.notary import KeyNotary
from amends.evidence.sign.note import read_key, read_note, spell_note
from amends.evidence.verify.verify import verify_journal
from amends.testing.journal_suite.fixture import PlainNotary, begin
from tests.evidence.given import COMPLETED, notary

ORIGIN = "amends/x"


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY, raising=False)
    monkeypatch.delenv(KEY_FILE, raising=False)
    monkeypatch.delenv(KEY_COMMAND, raising=False)


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def seed(key: SigningKey | None) -> bytes:
    assert isinstance(key, Ed25519PrivateKey)
    return key.private_bytes_raw()


# -- where it lies ------------------------------------------------------------------------------------------------


def test_a_new_key_is_for_its_owner_alone_whatever_the_umask(path: Path) -> None:
    before = os.umask(0)
    try:
        made = KeyFile(keys.beside(path)).make()
    finally:
        os.umask(before)
    file = path.with_name("journal.db.key")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert seed(KeyFile(file).load()) == seed(made)
    assert sorted(one.name for one in path.parent.iterdir()) == ["journal.db.key"]


def test_a_key_that_is_there_is_not_made_again(path: Path) -> None:
    first = KeyFile(path).make()
    assert seed(KeyFile(path).make()) == seed(first)


def test_those_who_make_it_at_once_get_the_same(path: Path) -> None:
    for turn in range(20):
        source = KeyFile(path.with_name(str(turn)))
        with ThreadPoolExecutor(8) as pool:
            made = [pool.submit(source.make) for _ in range(8)]
            assert len({seed(one.result()) for one in made}) == 1


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o666, 0o644])
def test_a_key_that_others_may_read_is_refused(path: Path, mode: int) -> None:
    KeyFile(path).make()
    path.chmod(mode)
    with pytest.raises(EvidenceKeyError, match=rf"open to other users \(mode {mode:o}\).*chmod 600"):
        KeyFile(path).load()


def test_a_key_of_another_user_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    KeyFile(path).make()
    os.chown(path, 65534, 65534) if os.geteuid() == 0 else monkeypatch.setattr(os, "geteuid", lambda: 65534)
    with pytest.raises(EvidenceKeyError, match=r"belongs to .*uid \d+.*whoever reads it can sign"):
        KeyFile(path).load()


def test_a_link_is_followed_only_where_somebody_chose_the_path(tmp_path: Path, path: Path) -> None:
    secret = tmp_path / "secret"
    KeyFile(secret).make()
    beside = keys.beside(path)
    beside.symlink_to(secret)
    with pytest.raises(EvidenceKeyError, match="is a symbolic link"):
        key_source(path, None, {}).load()
    assert key_source(path, None, {KEY_FILE: str(beside)}).load() is not None


def test_a_link_is_not_followed_to_write_a_key_either(tmp_path: Path, path: Path) -> None:
    target = tmp_path / "elsewhere"
    keys.beside(path).symlink_to(target)
    with pytest.raises(EvidenceKeyError, match="is a symbolic link"):
        key_source(path, None, {}).make()
    assert not target.exists()


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\xff\xfe", base64.b64encode(bytes(31)), b"-----BEGIN X-----"])
def test_what_holds_no_key_is_refused_and_not_repeated(path: Path, content: bytes) -> None:
    path.touch(0o600)
    path.write_bytes(content)
    with pytest.raises(EvidenceKeyError, match="holds no Ed25519 private key") as told:
        KeyFile(path).load()
    assert b"nonsense" not in str(told.value).encode()


def test_what_cannot_be_a_key_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EvidenceKeyError, match="not a regular file"):
        KeyFile(tmp_path).load()
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(EvidenceKeyError, match="not a regular file"):
        KeyFile(tmp_path / "pipe").load()
    large = tmp_path / "large"
    large.touch(0o600)
    large.write_bytes(b"x" * 20_000)
    with pytest.raises(EvidenceKeyError, match="too large"):
        KeyFile(large).load()
    for source in (KeyFile(tmp_path / "missing" / "key"), KeyFile(large / "key")):
        with pytest.raises(EvidenceKeyError, match="cannot be read or written there"):
            source.make()
    with pytest.raises(EvidenceKeyError, match="cannot be read or written there: Not a directory"):
        KeyFile(large / "key").load()
    with pytest.raises(EvidenceKeyError, match="cannot be read or written there"):
        KeyFile(large / "key").make_next()
    with pytest.raises(EvidenceKeyError, match="cannot be read or written there"):
        KeyFile(large / "key").settle()


def test_a_key_is_read_as_pem_or_as_base64() -> None:
    key = Ed25519PrivateKey.generate()
    pem = spell_private(key).decode()
    plain = base64.b64encode(key.private_bytes_raw()).decode()
    for text in (pem, plain, f"\n{plain}\n"):
        assert seed(read_private(text, "here")) == seed(key)
    other = ec.generate_private_key(ec.SECP256R1())
    coded = other.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    locked = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
    )
    for wrong in (coded, locked):
        with pytest.raises(EvidenceKeyError, match="holds no Ed25519 private key"):
            read_private(wrong.decode(), "here")


def test_the_first_that_is_given_counts(path: Path, tmp_path: Path) -> None:
    one, two = (Ed25519PrivateKey.from_private_bytes(bytes([number] * 32)) for number in (1, 2))
    text = base64.b64encode(seed(one)).decode()
    file = tmp_path / "chosen"
    made = KeyFile(file).make()
    environment = {KEY: base64.b64encode(seed(two)).decode(), KEY_FILE: str(file)}
    assert seed(key_source(path, text, environment).load()) == seed(one)
    assert seed(key_source(path, str(file), environment).load()) == seed(made)
    assert seed(key_source(path, None, environment).load()) == seed(two)
    assert seed(key_source(path, None, {KEY_FILE: str(file)}).load()) == seed(made)
    assert key_source(path, None, {}).load() is None
    assert seed(key_source(None, None, {}).load()) != seed(key_source(None, None, {}).load())
    assert [key_source(path, text, {}).where, key_source(path, None, {}).where] == [KEY, f"{path}.key"]


# -- with a journal -----------------------------------------------------------------------------------------------


async def signed_by(path: Path, evidence_key: str | None = None) -> str:
    journal = await open_journal(str(path), SystemClock(), evidence_key=evidence_key)
    try:
        return (await journal.signers())[-1].key
    finally:
        await journal.close()


def test_a_journal_gets_its_key_when_it_is_first_opened_and_keeps_it(path: Path) -> None:
    async def look() -> None:
        journal = await open_journal(str(path), SystemClock(), signs=False)
        assert len(await journal.signers()) == 1
        await journal.close()

    key = asyncio.run(signed_by(path))
    assert asyncio.run(signed_by(path)) == key
    asyncio.run(look())
    assert sorted(one.name for one in path.parent.iterdir()) == ["journal.db", "journal.db.key"]


def test_whoever_only_looks_makes_no_key(path: Path) -> None:
    async def look() -> int:
        journal = await open_journal(str(path), SystemClock(), signs=False)
        await begin(journal, "s", summary=COMPLETED)
        count = len(await journal.signers())
        await journal.close()
        return count

    assert asyncio.run(look()) == 0
    assert not keys.beside(path).exists()


def test_a_journal_whose_key_is_gone_says_so_and_no_other_is_made(path: Path) -> None:
    asyncio.run(signed_by(path))
    keys.beside(path).unlink()
    with pytest.raises(
        EvidenceKeyError, match=r"journal\.db\.key: the key .* is not there; put it back.*rotate --lost"
    ):
        asyncio.run(signed_by(path))
    assert not keys.beside(path).exists()
    other = base64.b64encode(bytes(32)).decode()
    with pytest.raises(EvidenceKeyError, match="and the key that was given is another one"):
        asyncio.run(signed_by(path, evidence_key=other))


def test_a_coordinator_takes_the_key_that_it_is_given(tmp_path: Path) -> None:
    text = base64.b64encode(bytes([7] * 32)).decode()
    public = Ed25519PrivateKey.from_private_bytes(bytes([7] * 32)).public_key().public_bytes_raw()

    async def live(journal: str) -> bytes:
        async with Coordinator.open(journal, evidence_key=text, signals=False) as coordinator:
            return read_key((await coordinator.journal.signers())[-1].key).raw

    assert asyncio.run(live(str(tmp_path / "j.db"))) == asyncio.run(live(":memory:")) == public
    assert not (tmp_path / "j.db.key").exists()


# -- the notary ---------------------------------------------------------------------------------------------------


def test_a_notary_reads_only_what_its_key_has_signed_for_its_journal() -> None:
    ann, bob = notary(1), notary(2)
    key, other = ann.public(ORIGIN), bob.public(ORIGIN)
    note = ann.sign(key, 5, bytes(32), 0)
    assert ann.read(key, note) == bob.read(key, note) == (5, bytes(32))
    with pytest.raises(EvidenceError, match="has not signed it"):
        ann.read(other, note)
    elsewhere = ann.sign(ann.public("amends/y"), 5, bytes(32), 0).replace("amends/y\n", "amends/x\n", 1)
    with pytest.raises(EvidenceError, match="has not signed it"):
        ann.read(key, elsewhere)
    text = "amends/y\n5\n" + note.split("\n")[2] + "\n"
    signature = ann._signature(ORIGIN, text)
    with pytest.raises(EvidenceError, match="another journal"):
        ann.read(key, spell_note(text, [signature]))


def test_a_notary_takes_over_only_from_its_like() -> None:
    ann = notary(1)
    with pytest.raises(EvidenceKeyError, match="signs in the same way"):
        ann.succeed(PlainNotary(), ann.public(ORIGIN), 5, bytes(32), 0)
    with pytest.raises(EvidenceKeyError, match="is not there"):
        KeyNotary(KeyFile(Path("missing"))).sign("amends/x+0+0", 5, bytes(32), 0)


def test_a_given_key_cannot_be_changed_in_its_place() -> None:
    ann = notary(1)
    with pytest.raises(EvidenceKeyError, match="rotate --to FILE"):
        ann.heir()
    ann.settle()
    assert GivenKey(Ed25519PrivateKey.generate()).make() is not None
    assert not ann.holds(notary(2).public(ORIGIN))


# -- changing it --------------------------------------------------------------------------------------------------


async def change(path: Path, *, settles: bool = True) -> str:
    journal = await open_journal(str(path), SystemClock())
    heir = KeyNotary(key_source(path, None, {})).heir()
    checkpoint = await journal.hand_over(heir)
    if settles:
        heir.settle()
    old, new = (read_key(signer.key) for signer in (await journal.signers())[-2:])
    note = read_note(checkpoint.note)
    assert old.has_signed(note)
    assert new.has_signed(note)
    await journal.close()
    return new.text


def test_a_new_key_takes_the_old_ones_place(path: Path) -> None:
    old = asyncio.run(signed_by(path))
    new = asyncio.run(change(path))
    assert asyncio.run(signed_by(path)) == new != old
    assert sorted(one.name for one in path.parent.iterdir()) == ["journal.db", "journal.db.key"]


def test_a_change_that_broke_off_after_the_journal_named_the_new_key_is_completed(path: Path) -> None:
    asyncio.run(signed_by(path))
    new = asyncio.run(change(path, settles=False))
    assert path.with_name("journal.db.key.next").exists()
    assert asyncio.run(signed_by(path)) == new
    assert not path.with_name("journal.db.key.next").exists()


def test_a_change_that_broke_off_before_that_is_forgotten(path: Path) -> None:
    old = asyncio.run(signed_by(path))
    KeyNotary(key_source(path, None, {})).heir()
    assert asyncio.run(signed_by(path)) == old
    assert asyncio.run(change(path)) != old


def test_whoever_has_the_journal_open_meanwhile_signs_by_the_new_key(path: Path) -> None:
    async def live() -> None:
        other = await open_journal(str(path), SystemClock())
        await begin(other, "s")
        new = await change(path)
        await begin(other, "t", summary=COMPLETED)
        newest = await other.tree_head()
        assert newest is not None
        assert newest.size == 2
        assert read_key(new).has_signed(read_note(newest.note))
        await other.close()

    asyncio.run(live())


# -- a command that signs -------------------------------------------------------------------------------------------


def signing_command(folder: Path, change: str = "") -> str:
    """The command of the page, with a key that is there; `change` is done to it first."""
    page = (Path(__file__).parents[2] / "docs/understand/evidence.md").read_text()
    script = "#!" + page.split("```text\n#!", 1)[1].split("```")[0].replace(
        "/var/lib/vault/journal.pem", f"'{folder}/journal.pem'"
    )
    (folder / "journal.pem").write_bytes(spell_private(Ed25519PrivateKey.generate()))
    place = folder / "sign journal"
    place.write_text(script.replace("case", f"{change}\ncase", 1))
    place.chmod(0o755)
    return f"'{place}'"


async def verified(path: Path, key: str) -> str:
    journal = await open_journal(str(path), SystemClock(), signs=False)
    try:
        return str((await verify_journal(journal, key)).conclusion)
    finally:
        await journal.close()


def test_a_command_signs_and_the_key_never_comes_here(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_COMMAND, signing_command(tmp_path))
    key = asyncio.run(signed_by(path))

    async def write() -> None:
        journal = await open_journal(str(path), SystemClock())
        await begin(journal, "one", summary=COMPLETED)
        await journal.close()

    asyncio.run(write())
    assert not keys.beside(path).exists()
    held = read_private((tmp_path / "journal.pem").read_text(), "")
    assert read_key(key).raw == held.public_key().public_bytes_raw()
    assert asyncio.run(verified(path, key)) == "covered"
    monkeypatch.setenv(KEY_COMMAND, signing_command(tmp_path))
    with pytest.raises(EvidenceKeyError, match="another one"):
        asyncio.run(signed_by(path))


def test_digests_of_secrets_follow_from_what_the_command_signs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_COMMAND, signing_command(tmp_path))
    one, again = digest_key(str(path)), digest_key(str(path))
    monkeypatch.setenv(KEY_COMMAND, signing_command(tmp_path))
    other = digest_key(str(path))
    assert one is not None
    assert (one == again, one == other) == (True, False)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("echo no entry >&2; exit 3", "ended with 3: no entry"),
        ("echo AAAA; exit", "has not written the base64 of a public key"),
        ("echo =; exit", "has not written base64"),
        ('[ "$1" = sign ] && set public', "no signature by the key"),
    ],
)
def test_a_command_that_fails_or_lies_signs_nothing(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str, why: str
) -> None:
    monkeypatch.setenv(KEY_COMMAND, signing_command(tmp_path, change))
    with pytest.raises(EvidenceKeyError, match=why):
        KeyNotary(key_source(path, None, os.environ)).derived("tests")
    monkeypatch.setenv(KEY_COMMAND, str(tmp_path / "nowhere"))
    with pytest.raises(EvidenceKeyError, match="No such file"):
        key_source(path, None, os.environ).load()


def test_while_the_command_fails_the_journal_goes_on_and_owes_a_signature(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = tmp_path / "away"
    monkeypatch.setenv(KEY_COMMAND, signing_command(tmp_path, f"[ -e '{away}' ] && exit 1"))
    key = asyncio.run(signed_by(path))

    async def whole() -> tuple[bool, bool]:
        journal = await open_journal(str(path), SystemClock())
        try:
            away.touch()
            await begin(journal, "two", summary=COMPLETED)
            owes = (0 if (head := await journal.tree_head()) is None else head.size) < (await journal.tree()).size
            away.unlink()
            head = await journal.seal()
            return owes, head is not None and head.size == (await journal.tree()).size
        finally:
            await journal.close()

    assert asyncio.run(whole()) == (True, True)
    assert asyncio.run(verified(path, key)) == "covered"
