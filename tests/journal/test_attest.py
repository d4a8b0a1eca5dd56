"""The tree and the checkpoints in the file: what is checked at open, who may sign, and what removal leaves behind."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from amends.core import events as e
from amends.core.transitions import SagaStatus
from amends.core.words.values import Json, SagaId
from amends.errors import EvidenceKeyError, JournalDamagedError, JournalError
from amends.journal.fields import INLINE
from amends.journal.port.evidence import Notary, Pace
from amends.journal.port.journal import Summary
from amends.journal.sqlite import SqliteJournal, reader
from amends.journal.sqlite.database import Database
from amends.journal.sqlite.writer import Batch
from amends.testing.clock import ManualClock
from amends.testing.journal_suite.fixture import PlainNotary, add, begin
from amends.testing.journal_suite.samples import resumed, started, succeeded
from tests.journal.test_writer import held_up

RUNNING = Summary(status=SagaStatus.RUNNING)
COMPLETED = Summary(status=SagaStatus.COMPLETED)


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@asynccontextmanager
async def opened(
    path: Path,
    notary: Notary | None = None,
    *,
    pace: Pace = Pace(),  # noqa: B008 - it never changes
    checked: bool = True,
    clock: ManualClock | None = None,
) -> AsyncGenerator[SqliteJournal]:
    journal = await SqliteJournal.open(path, clock or ManualClock(), notary=notary, pace=pace, checked=checked)
    try:
        yield journal
    finally:
        await journal.close()


async def write(path: Path, notary: Notary | None = None, sagas: int = 2) -> None:
    async with opened(path, notary) as journal:
        for number in range(sagas):
            saga = await begin(journal, f"s{number}")
            await add(journal, saga, resumed(), summary=COMPLETED)


async def look(path: Path, notary: Notary | None = None) -> None:
    async with opened(path, notary):
        pass


def change(path: Path, *statements: str) -> None:
    database = Database(path, busy_timeout_s=0, vfs=None)
    for sql in statements:
        database.run(sql)
    database.close()


# -- at open ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("UPDATE tree SET size = 3", "bytes for 3 entries, which do not fit"),
        ("UPDATE tree SET size = 8", "its tree counts 8 entries, and those that are there are not these"),
        ("DELETE FROM tree", "the tree over the entries is gone"),
        ("DELETE FROM entry WHERE seq = 4", "its tree counts 4 entries"),
        ("DELETE FROM entry WHERE seq = 1", "saga s0, entry 2: it does not match its hash"),
        ("DELETE FROM entry WHERE seq <= 2", "its tree counts 4 entries"),
        ("UPDATE entry SET seq = 9 WHERE seq = 4", "its tree counts 4 entries"),
    ],
)
def test_a_tree_that_does_not_fit_the_entries_is_noticed_at_open(path: Path, sql: str, says: str) -> None:
    asyncio.run(write(path))
    change(path, sql)
    with pytest.raises(JournalDamagedError, match=says):
        asyncio.run(look(path))


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        (
            "UPDATE checkpoint SET note = replace(note, '+ann', '+eve')",
            r"of 4 entries, does not verify: .*has not sign",
        ),
        ("UPDATE checkpoint SET size = 5 WHERE size = 4", "4 entries were signed, and the 4 that are there are not"),
        ("UPDATE tree SET kept = zeroblob(32)", "4 entries were signed, and the 4 that are there are not those"),
        (
            "DELETE FROM entry WHERE seq > 2; UPDATE tree SET size = 2, kept = zeroblob(32); DELETE FROM saga",
            "saga None",
        ),
        (
            "DELETE FROM entry WHERE seq > 2; UPDATE tree SET size = 2, kept = zeroblob(32)",
            "4 entries were signed, and the 2 that are there are not those",
        ),
    ],
)
def test_a_checkpoint_that_does_not_fit_the_tree_is_noticed_at_open(path: Path, sql: str, says: str) -> None:
    asyncio.run(write(path, PlainNotary()))
    change(path, sql)
    with pytest.raises(JournalDamagedError, match=says):
        asyncio.run(look(path, PlainNotary()))


def test_a_damaged_file_can_be_opened_by_whoever_wants_to_see_the_damage(path: Path) -> None:
    async def live() -> list[int]:
        async with opened(path, checked=False) as journal:
            return [stored.position async for stored in journal.stored()]

    asyncio.run(write(path))
    change(path, "DELETE FROM entry WHERE seq = 4", "UPDATE entry SET body = CAST(x'7bff7d' AS TEXT) WHERE seq = 2")
    assert asyncio.run(live()) == [1, 2, 3]


def test_rows_whose_text_is_none_are_still_shown(path: Path) -> None:
    async def live() -> list[tuple[str, str]]:
        async with opened(path, checked=False) as journal:
            return [(stored.saga, stored.body) async for stored in journal.stored()]

    asyncio.run(write(path, sagas=1))
    change(path, "UPDATE entry SET body = CAST(x'7bff7d' AS TEXT) WHERE seq = 2", "DELETE FROM saga")
    (_, first), second = asyncio.run(live())
    assert first.startswith("{")
    assert second == ("", "{\ufffd}")


def test_a_journal_without_a_notary_signs_nothing_and_can_get_one_later(path: Path) -> None:
    async def live() -> list[int]:
        async with opened(path, PlainNotary()) as journal:
            assert [one async for one in journal.tree_heads()] == []
            await add(journal, SagaId("s0"), resumed(), summary=COMPLETED)
            return [one.size async for one in journal.tree_heads()]

    asyncio.run(write(path))
    assert asyncio.run(live()) == [5]


# -- signing ------------------------------------------------------------------------------------------------------


def test_a_batch_is_signed_once_and_costs_no_commit_of_its_own(path: Path) -> None:
    notary = PlainNotary()

    async def live() -> tuple[int, int]:
        async with opened(path, notary) as journal:
            sagas = [await begin(journal, f"s{number}") for number in range(50)]
            before = journal.commits
            await asyncio.gather(*(journal.append(saga, [resumed()], after=1, summary=COMPLETED) for saga in sagas))
            return journal.commits - before, notary.signed

    commits, signed = asyncio.run(live())
    assert signed == commits < 50


def test_what_waits_is_signed_with_any_other_write(path: Path) -> None:
    clock = ManualClock()

    async def live() -> list[int]:
        async with opened(path, PlainNotary(), clock=clock) as journal:
            await journal.enlist("w", 60)
            await begin(journal, "s")
            await asyncio.to_thread(journal.renew, "w", 60)
            assert await journal.tree_head() is None
            clock.advance(60)
            await asyncio.to_thread(journal.renew, "w", 60)
            return [one.size async for one in journal.tree_heads()]

    assert asyncio.run(live()) == [1]


def test_a_close_after_which_nothing_is_new_writes_nothing(path: Path) -> None:
    notary = PlainNotary()

    async def live() -> int:
        async with opened(path, notary, pace=Pace(entries=1)) as journal:
            await begin(journal, "s")
            commits = journal.commits
        return journal.commits - commits

    assert asyncio.run(live()) == 0
    assert notary.signed == 1


def test_a_journal_that_lost_its_key_takes_another_without_it(path: Path) -> None:
    async def live() -> list[str]:
        async with opened(path) as journal:
            await journal.hand_over(PlainNotary("bob"))
            await begin(journal, "t", summary=COMPLETED)
            return [signer.key.partition("+")[2] for signer in await journal.signers()]

    asyncio.run(write(path, PlainNotary("ann")))
    with pytest.raises(EvidenceKeyError, match=r"signed by amends/\w{26}\+ann.*amends evidence rotate"):
        asyncio.run(look(path, PlainNotary("bob")))
    assert asyncio.run(live()) == ["ann", "bob"]
    asyncio.run(look(path, PlainNotary("bob")))


def test_a_journal_that_never_had_a_key_begins_with_the_heirs(path: Path) -> None:
    async def live() -> tuple[int, list[str]]:
        async with opened(path) as journal:
            checkpoint = await journal.hand_over(PlainNotary("bob"))
            return checkpoint.size, [signer.note for signer in await journal.signers()]

    asyncio.run(write(path))
    assert asyncio.run(live()) == (4, [""])


def test_a_change_of_keys_that_was_rolled_back_did_not_happen(path: Path) -> None:
    def fail(_batch: Batch) -> None:
        raise ZeroDivisionError

    async def live() -> None:
        async with opened(path, PlainNotary("ann")) as journal:
            saga = await begin(journal, "s")
            async with held_up(journal):  # so that both go into one transaction
                changing = asyncio.ensure_future(journal.hand_over(PlainNotary("bob")))
                failing = asyncio.ensure_future(journal._writer.ask(fail))
                await asyncio.sleep(0)
            found = await asyncio.gather(changing, failing, return_exceptions=True)
            assert [type(one) for one in found] == [ZeroDivisionError, ZeroDivisionError]
            await add(journal, saga, resumed(), summary=COMPLETED)
            newest = await journal.tree_head()
            assert newest is not None
            assert "+ann" in newest.note

    asyncio.run(live())


# -- the log ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("DELETE FROM entry WHERE seq = 70", "the entry at position 70 or after it: it is missing"),
        (
            "UPDATE entry SET body = CAST(x'7bff7d' AS TEXT) WHERE seq = 70",
            "at position 70 or after it: it is not text",
        ),
        ("UPDATE entry SET at = at + 1 WHERE seq = 70", "saga s34, entry 2: it does not match its hash"),
    ],
)
def test_damage_in_the_log_is_named_by_its_position(path: Path, sql: str, says: str) -> None:
    async def live() -> None:
        async with opened(path) as journal:
            _ = [one async for one in journal.log()]

    asyncio.run(write(path, sagas=80))
    change(path, sql)
    with pytest.raises(JournalError, match=says):
        asyncio.run(live())


def test_large_entries_of_the_log_are_read_in_several_chunks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def live() -> list[int]:
        async with opened(path) as journal:
            return [one.position async for one in journal.log()]

    monkeypatch.setattr(reader, "CHUNK_CHARACTERS", 100)
    asyncio.run(write(path, sagas=8))
    assert asyncio.run(live()) == list(range(1, 17))


# -- retention ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [10, 3_000, 30_000, INLINE + 10])
def test_what_was_removed_is_in_no_file_any_more(path: Path, size: int) -> None:
    canary = "canary-7d1f"
    content: Json = canary + "x" * size

    async def live() -> int:
        async with opened(path, PlainNotary()) as journal:
            for number in range(20):
                saga = SagaId(f"s{number}")
                events: list[e.Event] = [started(about=content), succeeded([content, number]), resumed(canary)]
                await journal.append(saga, events, after=0, summary=COMPLETED)
            assert any(canary.encode() in file.read_bytes() for file in path.parent.iterdir())
            count = (
                await journal.remove_payloads(by="person:ann", why="it is old", ended_before=ManualClock().now() + 1)
            ).entries
            await journal.retire("nobody")  # answered after the log was cut
            assert not [file for file in path.parent.iterdir() if canary.encode() in file.read_bytes()]
            return count

    assert asyncio.run(live()) == 60


def test_a_saga_that_went_on_after_its_removal_can_be_removed_again(path: Path) -> None:
    async def live() -> tuple[int, int]:
        async with opened(path) as journal:
            saga = await begin(journal, "s", summary=COMPLETED)
            first = (
                await journal.remove_payloads(by="person:ann", why="it is old", ended_before=ManualClock().now() + 1)
            ).entries
            await add(journal, saga, resumed(), summary=COMPLETED)
            return first, (
                await journal.remove_payloads(by="person:ann", why="it is old", ended_before=ManualClock().now() + 1)
            ).entries

    assert asyncio.run(live()) == (1, 1)
