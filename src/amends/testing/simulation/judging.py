"""After a schedule: what the journal says, held against the world, the leases, the lists and the evidence."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Final

from amends.clock import Clock
from amends.core.transitions import SagaStatus
from amends.core.words.values import BUILT_IN, SagaId
from amends.drill.mortal import Author
from amends.drill.world import RULES, Account, ProviderCall, World, check
from amends.evidence.sign.keys import key_source
from amends.evidence.sign.notary import KeyNotary
from amends.evidence.verify.examine import Conclusion
from amends.evidence.verify.verify import verify_journal
from amends.journal.memory import Memory, MemoryJournal
from amends.journal.memory.state import KeptSaga
from amends.journal.port.journal import PARENT, SagaRow
from amends.testing.crash.crash import stale
from amends.testing.families import Families
from amends.testing.simulation.language import Program
from amends.testing.simulation.outcomes import Programs

_MAY_WAIT: Final = frozenset({SagaStatus.PAUSED, SagaStatus.WAITING})
_EXAMINED_EACH: Final = 10
"""Signatures cost as much as half a schedule: the evidence of one in so many is examined to the end."""


def simulated(memory: Memory) -> list[KeptSaga]:
    """The sagas of a schedule, without those that the runtime keeps for itself."""
    return [record for name, record in memory.sagas.items() if not name.startswith(BUILT_IN)]


def waiting_for_people(sagas: list[KeptSaga]) -> set[str]:
    """The sagas that wait for a child that is an incident, or waits for one; and those below one that wait for it."""
    parents = {record.id: record.begun.labels.get(PARENT, "") for record in sagas}

    def above(saga: str) -> Iterator[str]:
        while saga := parents.get(SagaId(saga), ""):
            yield saga

    stuck = {record.id for record in sagas if record.summary.status is SagaStatus.INCIDENT}
    waiting = {one for saga in stuck for one in above(saga)}
    if not stuck:
        return waiting
    held = [one.id for one in sagas if one.summary.status in _MAY_WAIT and one.summary.wake_at is None]
    return waiting | {saga for saga in held if not {*stuck, *waiting}.isdisjoint(above(saga))}


async def complaints(
    world: World,
    memory: Memory,
    authors: list[Author],
    clock: Clock,
    *,
    seed: int,
    sagas: Mapping[SagaId, tuple[str, Program]],
) -> list[str]:
    """Complaints about a run; there should be none."""
    journal = MemoryJournal(clock, memory)
    records = simulated(memory)
    histories = [[entry async for entry in journal.read(record.id)] for record in records]
    rows = {record.id: await journal.saga(record.id) for record in records}
    accounts: dict[SagaId, Account] = {}

    def listed(account: Account, _lines: tuple[ProviderCall, ...]) -> Iterator[str]:
        accounts[account.saga.id] = account
        yield from _listed(rows[account.saga.id], account)

    found = check(world, histories, [*RULES, listed])
    lines = world.lines
    found += Families(accounts, memory.order, lines).complaints()
    found += Programs(memory, accounts, lines).complaints(sagas)
    found += stale(authors)
    found += _leaked(memory)
    if seed % _EXAMINED_EACH == 0 and memory.order:
        found += await _examined(memory, clock)
    return found


def _listed(row: SagaRow | None, account: Account) -> Iterator[str]:
    """The lists are written with the entries, and say the same."""
    said = None if row is None else (row.status, row.open_incidents)
    actual = (account.saga.status, len(account.saga.open_incidents))
    if said != actual:
        yield f"it is listed as {said}, and is {actual}"


def _leaked(memory: Memory) -> Iterator[str]:
    """Complaints about sagas that have ended and still hold something, or wait for it."""
    for ticket in memory.tickets:
        if memory.sagas[ticket.owner].summary.status.ended:
            yield f"saga {ticket.owner} has ended, and {ticket.resource} is still its own"


async def _examined(memory: Memory, clock: Clock) -> list[str]:
    """The evidence is signed, and then examined as anybody would."""
    journal = MemoryJournal(clock, memory, notary=_notary())
    await journal.seal()
    report = await verify_journal(journal, reads_sagas=False)
    if report.conclusion is Conclusion.COVERED:
        return []
    return [*report.findings, *report.troubles] or [f"the evidence is {report.conclusion}, not covered"]


@functools.cache
def _notary() -> KeyNotary:
    return KeyNotary(key_source(None, None, {}))
