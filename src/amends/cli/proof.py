"""What the commands of `amends evidence` do: open, read, write a file, tell."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from amends.bootstrap import evidence_notary, has_another_key, journal_file, open_journal, sharing_group
from amends.cli import configured
from amends.cli.output import Output, Part, hint
from amends.cli.session import opened_to_read, require_journal
from amends.clock import SystemClock
from amends.core.values import Json, SagaId
from amends.errors import EvidenceError, EvidenceKeyError, InputError, JournalDamagedError
from amends.evidence import account
from amends.evidence.bundle import export
from amends.evidence.examine import Conclusion, Report
from amends.evidence.heads import held_notes
from amends.evidence.keys import KEY_FILE, KeyFile, beside
from amends.evidence.notary import KeyNotary
from amends.evidence.soundness import DAMAGED
from amends.evidence.texts import counted
from amends.evidence.timeline import visible
from amends.evidence.verify import verify_bundle, verify_journal
from amends.journal.attested import Checkpoint, Removal, Signer
from amends.journal.protocol import Journal
from amends.ownership import user
from amends.runtime.drills import last_drills
from amends.runtime.pauses import Pauses
from amends.runtime.retention import Pruned, deciding_remover, remove, spared_by

UNATTESTED: Final = 7
FAILED: Final = 8
UNREADABLE: Final = 9
_CODES: Final = {Conclusion.COVERED: 0, Conclusion.UNATTESTED: UNATTESTED, Conclusion.FAILED: FAILED}
_AGE: Final = re.compile(r"(\d{1,6})([dhm])")
_UNITS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000}
_LONGEST_RUNS: Final = 60
_MOST_SHOWN: Final = 20
_LONGEST_WHY: Final = 200


def text_of(given: str, option: str) -> str:
    """What was given, or what the file holds that was named after an @."""
    if not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise InputError(f"{option} {given}: {exc.strerror if isinstance(exc, OSError) else 'it is no text'}") from None


def checkpoint_of(given: str) -> str:
    """A checkpoint that somebody kept, or a file of tree heads. Raises EvidenceError for a file without any."""
    text = text_of(given, "--checkpoint")
    held_notes(text)
    return text


# -- making it --------------------------------------------------------------------------------------------------------


async def record_of(address: str, saga_id: str) -> dict[str, Json]:
    async with opened_to_read(address) as journal:
        return await account.record_of(journal, SagaId(saga_id), last_drills)


async def write_bundle(address: str, sagas: Sequence[str] | None, target: str, checkpoint: str | None) -> int:
    """How many lines were written."""
    async with opened_to_read(address) as journal:
        lines = export(journal, sagas, checkpoint=checkpoint)
        if target == "-":
            with contextlib.suppress(BrokenPipeError):  # whoever read it has seen enough
                return await _copied(lines, sys.stdout.fileno())
            return 0
        with whole_file(target) as file:
            return await _copied(lines, file)


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


async def _copied(lines: AsyncIterator[str], file: int) -> int:
    count = 0
    with os.fdopen(file, "w", encoding="utf-8", newline="\n", closefd=False) as stream:
        async for line in lines:
            stream.write(line)
            count += 1
    return count


# -- checking it ------------------------------------------------------------------------------------------------------


def tell_bundle(out: Output, bundle: str, key: str | None, checkpoint: str | None, *, may_be_gone: bool) -> int:
    if key is None:
        raise InputError("give the public key that you hold, with --key; one that comes with the bundle proves nothing")
    try:
        with Path(bundle).open("rb") as file:
            report = verify_bundle(file, key, checkpoint=checkpoint, may_be_gone=may_be_gone)
    except OSError as exc:
        raise InputError(f"{bundle}: {exc.strerror}") from None
    except EvidenceError as exc:
        hint(visible(f"{bundle}: {exc}"))
        return UNREADABLE
    return _told(out, report)


async def tell_journal(out: Output, address: str, key: str | None, checkpoint: str | None, *, may_be_gone: bool) -> int:
    require_journal(address)
    group = configured.journal_group()
    journal = await open_journal(address, SystemClock(), journal_group=group, signs=False, checked=False)
    try:
        report = await verify_journal(journal, key, checkpoint=checkpoint, may_be_gone=may_be_gone)
    except JournalDamagedError as exc:  # so much that not even its rows can be read
        report = Report(troubles=[str(exc)])
    finally:
        await journal.close()
    if key is None:
        hint("the journal was held against the key that it names itself; give the one that you know with --key")
    return _told(out, report, is_journal=True)


def _told(out: Output, report: Report, *, is_journal: bool = False) -> int:
    fields = report.fields()
    out.record("verification", fields)
    for name, spans, style in (
        ("covered", report.covered, "green"),
        ("unattested", report.unattested, "yellow"),
        ("missing", report.missing, "bold red"),
        ("altered", report.altered, "bold red"),
    ):
        count = len(spans) + (report.hidden if name == "missing" else 0)
        runs = str(spans)
        shown = runs if len(runs) <= _LONGEST_RUNS else f"{runs[:_LONGEST_RUNS].rpartition(',')[0]}, …"
        counted: Part = (f"{count:>9}", style if count else "dim")
        out.say((f"{name:<11}", "dim"), counted, f"  {shown}")
    _tell_removals(out, report)
    for line in (*report.troubles, *report.findings):
        out.say(("! ", "bold red"), visible(line, 400))
    out.say(_SAYS[report.conclusion])
    if report.troubles and is_journal:
        hint(DAMAGED)
    return _CODES[report.conclusion]


def _tell_removals(out: Output, report: Report) -> None:
    if not report.removed:
        return
    said = "  what they held was removed; they are counted above"
    out.say((f"{'removed':<11}", "dim"), f"{report.removed:>9}", said)
    for one in report.removals[:_MOST_SHOWN]:
        by, why = visible(one.said.by), visible(one.said.why, _LONGEST_WHY)
        did = "found gone, and vouches for, what" if one.said.was_gone else "removed what"
        days = {spelled_moment(at)[:10] for at in (one.first_at, one.last_at)}
        when = " to ".join(sorted(days))
        entries = counted(one.entries, "entry", "entries")
        out.say(f"  {by} {did} {entries} of {counted(one.sagas, 'saga')} held, {when}: {why}")
    if len(report.removals) > _MOST_SHOWN:
        out.say(f"  and {len(report.removals) - _MOST_SHOWN} more; --json has them all")
    if len(report.gone) and report.may_be_gone:
        out.say(f"  of {len(report.gone)} no entry says who removed them: that is taken as it is")


_SAYS: Final[dict[Conclusion, Part]] = {
    Conclusion.COVERED: ("as it was signed", "green"),
    Conclusion.UNATTESTED: ("nothing is wrong, but not everything is signed yet", "yellow"),
    Conclusion.FAILED: ("NOT as it was signed", "bold red"),
}


# -- keys and checkpoints ---------------------------------------------------------------------------------------------


async def newest_checkpoint(address: str, *, is_new: bool) -> Checkpoint:
    async with _opened_to_sign(address) if is_new else opened_to_read(address) as journal:
        found = await journal.seal() if is_new else await journal.checkpoint()
    if found is None:
        raise EvidenceError("nothing of this journal is signed yet; `amends evidence checkpoint --new` signs it")
    return found


async def keys_of(address: str) -> tuple[Signer, ...]:
    async with opened_to_read(address) as journal:
        signers = await journal.signers()
    if not signers:
        raise EvidenceKeyError("this journal has no key yet; it gets one when a coordinator opens it")
    return signers


async def change_keys(address: str, target: str | None, *, is_lost: bool) -> Signer:
    async with opened_to_read(address) if is_lost else _opened_to_sign(address) as journal:
        group = sharing_group(configured.journal_group())
        heir = evidence_notary(journal_file(address), group=group).heir() if target is None else _kept_at(target)
        await journal.hand_over(heir)
        heir.settle()
        if target is not None:
            hint(f"from now on, whoever writes to this journal needs {KEY_FILE}={visible(target)}")
        return (await journal.signers())[-1]


def _kept_at(target: str) -> KeyNotary:
    if Path(target).exists():
        raise InputError(f"{target} exists; name a file for the new key that does not")
    made = KeyNotary(KeyFile(Path(target)))
    made.public("")
    return made


@contextlib.asynccontextmanager
async def _opened_to_sign(address: str) -> AsyncGenerator[Journal]:
    require_journal(address)
    group, path = configured.journal_group(), journal_file(address)
    if path is not None and has_another_key(path, None, sharing_group(group)):
        owner = user(beside(path).lstat().st_uid)
        raise EvidenceKeyError(f"{beside(path)} is the key of {owner}, who alone signs this journal; ask them to")
    journal = await open_journal(address, SystemClock(), journal_group=group)
    try:
        yield journal
    finally:
        await journal.close()


# -- retention --------------------------------------------------------------------------------------------------------


def moment_of(given: str) -> int:
    """A date, a time or an age, in milliseconds of UTC. Raises InputError."""
    age = _AGE.fullmatch(given)
    if age:
        return SystemClock().now() - int(age[1]) * _UNITS[age[2]]
    try:
        found = datetime.fromisoformat(given)
    except ValueError:
        raise InputError(f"{given!r} is neither a date, nor a time, nor an age like 90d") from None
    if found.tzinfo is None:
        if "T" in given or " " in given:
            raise InputError(f"{given!r} does not say in which zone; add Z, or +02:00")
        found = found.replace(tzinfo=UTC)
    return round(found.timestamp() * 1000)


def spelled_moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


async def forget(address: str, ended_before: int, by: str, why: str) -> Pruned:
    """What was removed. What is held is left alone, and outside development also what `by` had asked for."""
    remover = deciding_remover(by, why)
    async with _opened_to_sign(address) as journal:
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


async def vouch(address: str, by: str, why: str) -> Removal:
    """Who vouches for what is gone already goes on record; how much that is."""
    remover = deciding_remover(by, why)
    async with _opened_to_sign(address) as journal:
        return await journal.vouch_for_removals(by=remover.by, why=remover.why)
