"""Evidence of a journal: bundles and their check, keys and tree heads, removals."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from amends.addresses import (
    evidence_notary,
    has_another_key,
    is_database,
    is_server,
    journal_file,
    key_place,
    open_journal,
    sharing_group,
)
from amends.clock import SystemClock
from amends.core.words.values import Json, SagaId
from amends.errors import EvidenceError, EvidenceKeyError, InputError, JournalDamagedError
from amends.evidence import record
from amends.evidence.bundle import Read, export
from amends.evidence.drills import last_drills
from amends.evidence.proof.roster import Roster
from amends.evidence.sign.keys import KeyFile, beside
from amends.evidence.sign.notary import KeyNotary
from amends.evidence.sign.note import held_notes
from amends.evidence.verify.examine import VerificationReport
from amends.evidence.verify.verify import verify_bundle, verify_journal
from amends.journal.port.evidence import Removal, Signer, TreeHead
from amends.journal.port.journal import Entry, Journal, SagaQuery
from amends.operate.reading import opened_to_read, require_journal
from amends.ownership import user
from amends.runtime.coordinator.retention import Pruned, deciding_remover, remove, signed_by, spared_by
from amends.runtime.drive.pauses import Pauses
from amends.runtime.drive.policies import Policies
from amends.runtime.drive.roster import Proof

if TYPE_CHECKING:
    from amends.remote.journal import ServerJournal  # of an extra


class SharedJournal(NamedTuple):
    """Where a journal is, and the group that shares it."""

    address: str
    group: str | None


def text_of(given: str, option: str) -> str:
    """A text as it was given, or of the file that was named after an @."""
    if not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise InputError(f"{option} {given}: {exc.strerror if isinstance(exc, OSError) else 'it is no text'}") from None


def tree_head_of(given: str) -> str:
    """A tree head that somebody kept, or a file of several. Raises EvidenceError for a file without any."""
    text = text_of(given, "--tree-head")
    held_notes(text)
    return text


# -- making it --------------------------------------------------------------------------------------------------------


async def record_of(place: SharedJournal, saga_id: str) -> dict[str, Json]:
    async with opened_to_read(place.address, group=place.group) as journal:
        if is_server(place.address):
            return await cast("ServerJournal", journal).record(saga_id)
        return await record.record_of(journal, SagaId(saga_id), last_drills)


async def write_bundle(place: SharedJournal, sagas: Sequence[str] | None, target: str, checkpoint: str | None) -> int:
    """How many lines were written."""
    async with opened_to_read(place.address, group=place.group) as journal:
        lines: AsyncIterator[str] = export(journal, sagas, checkpoint=checkpoint)
        if is_server(place.address):
            lines = cast("ServerJournal", journal).bundle(sagas, checkpoint)
        if target == "-":
            with contextlib.suppress(BrokenPipeError):  # whoever read it has seen enough
                return await _write_lines(lines, sys.stdout.fileno())
            return 0
        with whole_file(target) as file:
            return await _write_lines(lines, file)


@contextlib.contextmanager
def whole_file(target: str) -> Generator[int]:
    """A file that appears with everything in it, for its owner alone, or not at all."""
    begun = Path(f"{target}.{os.getpid()}")
    try:
        file = os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            yield file
            os.fsync(file)
            begun.replace(target)
        finally:
            os.close(file)
            begun.unlink(missing_ok=True)
    except OSError as exc:
        raise InputError(f"{target} cannot be written: {exc.strerror}") from None


async def _write_lines(lines: AsyncIterator[str], file: int) -> int:
    count = 0
    with os.fdopen(file, "w", encoding="utf-8", newline="\n", closefd=False) as stream:
        async for line in lines:
            stream.write(line)
            count += 1
    return count


async def left_out(place: SharedJournal) -> int:
    """How many entries have no position in the log yet, and so are in no bundle and under no tree head."""
    if not is_database(place.address):
        return 0
    async with opened_to_read(place.address, group=place.group) as journal:
        return (await journal.unnumbered()).entries


# -- checking it ------------------------------------------------------------------------------------------------------


def checked_bundle(
    bundle: str, key: str | None, checkpoint: str | None, *, may_be_gone: bool, root: str | None = None
) -> VerificationReport:
    """A bundle, held against a key. Raises InputError without one, and EvidenceError for what cannot be read."""
    if key is None:
        raise InputError("give the public key that you hold, with --key; one that comes with the bundle proves nothing")
    try:
        with Path(bundle).open("rb") as file:
            return verify_bundle(file, key, checkpoint=checkpoint, may_be_gone=may_be_gone, root=root)
    except OSError as exc:
        raise InputError(f"{bundle}: {exc.strerror}") from None


async def checked_journal(
    place: SharedJournal, key: str | None, checkpoint: str | None, *, may_be_gone: bool, root: str | None = None
) -> VerificationReport:
    """A journal, held against a key; without one, against the key that it names itself."""
    require_journal(place.address)
    journal = await open_journal(place.address, SystemClock(), journal_group=place.group, signs=False, checked=False)
    try:
        return await verify_journal(journal, key, checkpoint=checkpoint, may_be_gone=may_be_gone, root=root)
    except JournalDamagedError as exc:  # so much that not even its rows can be read
        return VerificationReport(troubles=[str(exc)])
    finally:
        await journal.close()


async def read_journal(place: SharedJournal) -> Read:
    """All sagas of a journal, to be judged again."""
    sagas: dict[SagaId, list[Entry]] = {}
    async with opened_to_read(place.address, group=place.group) as journal:
        query: SagaQuery | None = SagaQuery(limit=500)
        while query is not None:
            page = await journal.sagas(query)
            for row in page.rows:
                sagas[row.id] = [entry async for entry in journal.read(row.id)]
            query = None if page.cursor is None else replace(query, before=page.cursor)
    return Read(sagas, {}, is_whole=True)


# -- keys and tree heads ----------------------------------------------------------------------------------------------


async def newest_tree_head(place: SharedJournal, *, is_new: bool) -> TreeHead:
    async with _opened_to_sign(place) if is_new else opened_to_read(place.address, group=place.group) as journal:
        found = await journal.seal() if is_new else await journal.tree_head()
    if found is None:
        raise EvidenceError("nothing of this journal is signed yet; `amends evidence tree-head --new` signs it")
    return found


async def keys_of(place: SharedJournal) -> tuple[Signer, ...]:
    async with opened_to_read(place.address, group=place.group) as journal:
        signers = await journal.signers()
    if not signers:
        raise EvidenceKeyError("this journal has no key yet; it gets one when a coordinator opens it")
    return signers


async def change_keys(place: SharedJournal, target: str | None, *, is_lost: bool) -> Signer:
    async with opened_to_read(place.address, group=place.group) if is_lost else _opened_to_sign(place) as journal:
        group = sharing_group(place.group)
        heir = evidence_notary(key_place(place.address), group=group).heir() if target is None else _kept_at(target)
        await journal.hand_over(heir)
        heir.settle()
        return (await journal.signers())[-1]


def _kept_at(target: str) -> KeyNotary:
    if Path(target).exists():
        raise InputError(f"{target} exists; name a file for the new key that does not")
    made = KeyNotary(KeyFile(Path(target)))
    made.public("")
    return made


@contextlib.asynccontextmanager
async def _opened_to_sign(place: SharedJournal) -> AsyncGenerator[Journal]:
    require_journal(place.address)
    group, path = place.group, journal_file(place.address)
    if path is not None and has_another_key(path, None, sharing_group(group)):
        owner = user(beside(path).lstat().st_uid)
        raise EvidenceKeyError(f"{beside(path)} is the key of {owner}, who alone signs this journal; ask them to")
    journal = await open_journal(place.address, SystemClock(), journal_group=group)
    try:
        yield journal
    finally:
        await journal.close()


# -- retention --------------------------------------------------------------------------------------------------------


def spelled_moment(milliseconds: int) -> str:
    """A time in UTC, as evidence has it."""
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


async def roster_of(place: SharedJournal, root: str | None = None) -> Roster:
    """Whose keys prove which names. Raises ProofError where the journal has another root."""
    async with opened_to_read(place.address, group=place.group) as journal:
        return await Policies(journal, SystemClock(), 0.0, root=root).proofs.refresh()


async def forget(
    place: SharedJournal,
    ended_before: int,
    by: str,
    why: str,
    *,
    proof: Proof | None = None,
    root: str | None = None,
) -> Pruned:
    """Remove what sagas held. What is held is left alone, and outside development also what `by` had asked for."""
    remover = deciding_remover(by, why)
    async with _opened_to_sign(place) as journal:
        policies = Policies(journal, SystemClock(), 0.0, root=root)
        remover = await signed_by(policies, remover, proof, before=ended_before)
        pauses = Pauses(journal, SystemClock(), 0.0)
        await pauses.refresh()
        spared = spared_by(pauses.holds)
        sagas = entries = refused = 0
        while True:
            removed, found = await remove(journal, remover, ended_before=ended_before, spared=spared, limit=1_000)
            spared, refused = found.spared, refused + len(found.refused)
            sagas, entries = sagas + removed.sagas, entries + removed.entries
            if not removed.sagas:
                return Pruned(sagas=sagas, entries=entries, left=0, refused=refused)


async def vouch(
    place: SharedJournal, by: str, why: str, *, proof: Proof | None = None, root: str | None = None
) -> Removal:
    """Put on record who vouches for what is gone already; how much that is."""
    remover = deciding_remover(by, why)
    async with _opened_to_sign(place) as journal:
        policies = Policies(journal, SystemClock(), 0.0, root=root)
        remover = await signed_by(policies, remover, proof, was_gone=True)
        return await journal.vouch_for_removals(by=remover.by, why=remover.why, signed=remover.signed)
