"""The reference journal, where it is more than the rules that it shares with the others."""

import asyncio

import pytest

from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.core.words.verdict import Rate
from amends.errors import JournalDamagedError
from amends.journal.codec import Wire
from amends.journal.memory import MemoryJournal
from amends.journal.port.journal import Summary
from amends.testing.clock import ManualClock
from amends.testing.journal_suite.fixture import PlainNotary
from amends.testing.journal_suite.samples import resumed, started

RUNNING = Summary(status=SagaStatus.RUNNING)
SAGA = SagaId("s")


def test_a_changed_entry_is_noticed() -> None:
    async def live() -> None:
        journal = MemoryJournal(ManualClock())
        await journal.append(SAGA, [started(), resumed(), resumed()], after=0, summary=RUNNING)
        stored = journal.memory.sagas[SAGA].entries[1]
        stored.wire = Wire(stored.wire.name, '{"by":"bob"}', {})
        with pytest.raises(JournalDamagedError, match="saga s, entry 2: it does not match its hash"):
            _ = [entry async for entry in journal.read(SAGA)]

    asyncio.run(live())


def test_what_is_written_while_somebody_reads_is_read_too() -> None:
    async def live() -> list[int]:
        journal = MemoryJournal(ManualClock())
        await journal.append(SAGA, [started()], after=0, summary=RUNNING)
        numbers: list[int] = []
        async for entry in journal.read(SAGA):
            numbers.append(entry.number)
            if entry.number < 4:
                await journal.append(SAGA, [resumed()], after=entry.number, summary=RUNNING)
        return numbers

    assert asyncio.run(live()) == [1, 2, 3, 4]


def test_a_journal_that_never_had_a_key_begins_with_the_heirs() -> None:
    async def live() -> list[tuple[str, str]]:
        journal = MemoryJournal(ManualClock())
        await journal.append(SAGA, [started()], after=0, summary=RUNNING)
        await journal.hand_over(PlainNotary("bob"))
        assert await journal.tree_head() is not None
        return [(signer.key.partition("+")[2], signer.note) for signer in await journal.signers()]

    assert asyncio.run(live()) == [("bob", "")]


def test_a_copy_goes_on_alone() -> None:
    async def live() -> None:
        journal, twice = MemoryJournal(ManualClock()), Rate(rule="r", key="k", most=2, per_s=1)
        await journal.append(SAGA, [started()], after=0, summary=RUNNING)
        await journal.admit(twice)
        twin = MemoryJournal(ManualClock(), journal.memory.copy())
        await twin.append(SAGA, [resumed()], after=1, summary=RUNNING)
        await twin.admit(twice)
        assert ((await journal.tree()).size, (await twin.tree()).size) == (1, 2)
        assert [len([one async for one in each.log()]) for each in (journal, twin)] == [1, 2]
        assert await journal.admit(twice) == (0,)

    asyncio.run(live())
