"""Programs that tests start as processes of their own: `python -m tests.journal.programs NAME PATH ...`."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from amends.addresses import open_journal
from amends.clock import SystemClock
from amends.core import events as e
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.core.words.verdict import Rate
from amends.errors import ForkedError, JournalConflictError
from amends.journal.port.journal import Journal, Lease, PersonQuery, SagaQuery, Summary
from amends.journal.sqlite import SqliteJournal
from amends.testing.journal_suite.fixture import PlainNotary
from amends.testing.journal_suite.samples import resumed, started

RUNNING = Summary(status=SagaStatus.RUNNING)
COMPLETED = Summary(status=SagaStatus.COMPLETED)


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def append_until_killed(path: str) -> None:
    """Three sagas at once; each acknowledged entry is said aloud."""
    journal = await SqliteJournal.open(path, SystemClock())

    async def live(saga: SagaId) -> None:
        row = await journal.saga(saga)
        head = row.entries if row else 0
        while True:
            event = resumed(str(head + 1)) if head else started()
            await journal.append(saga, [event], after=head, summary=RUNNING)
            head += 1
            say(saga, head)

    await asyncio.gather(*(live(SagaId(f"s{number}")) for number in range(3)))


async def append_in_competition(path: str, name: str, count: str) -> None:
    """Add to a saga that others add to as well: each time, read on and try again."""
    journal = await SqliteJournal.open(path, SystemClock())
    saga, head, written, refused = SagaId("s"), 0, 0, 0
    say("ready")
    sys.stdin.readline()
    while written < int(count):
        async for entry in journal.read(saga, after=head):
            head = entry.number
        try:
            await journal.append(saga, [resumed(f"{name} {written}")], after=head, summary=RUNNING)
            written += 1
        except JournalConflictError:
            refused += 1
    say(refused)
    await journal.close()


async def append_signed(path: str, name: str, count: str) -> None:
    """Sagas of three entries, one after another, each signed at its end; for ever where no count is given."""
    journal = await open_journal(path, SystemClock())
    say("ready")
    sys.stdin.readline()
    number = 0
    while not int(count) or number < int(count):
        saga = SagaId(f"{name}-{number}")
        await journal.append(saga, [started(), e.WorkFinished(result=None)], after=0, summary=RUNNING)
        await journal.append(saga, [e.SagaCompleted(result=None)], after=2, summary=COMPLETED)
        number += 1
        say(number)
    await journal.close()


async def hold_a_saga(path: str) -> None:
    """Hold a saga under a lease that lasts an hour, and wait."""
    journal = await SqliteJournal.open(path, SystemClock())
    await journal.enlist("child", 3600)
    lease = Lease(saga=SagaId("s"), worker="child", epoch=1)
    await journal.append(SagaId("s"), [started()], after=0, summary=RUNNING, lease=lease)
    say("ready")
    sys.stdin.readline()
    await journal.close()


async def fork(path: str) -> None:
    """Use the parent's journal in a child, in every way; then in the parent, which must not have noticed."""
    journal = await SqliteJournal.open(path, SystemClock())
    await journal.append(SagaId("s"), [started()], after=0, summary=RUNNING)
    child = os.fork()
    if child == 0:
        try:
            say(*[await refused(each, journal) for each in range(len(CALLS))])
        finally:
            os._exit(0)
    os.waitpid(child, 0)  # noqa: ASYNC222 - nothing else is to happen meanwhile
    await journal.append(SagaId("s"), [resumed()], after=1, summary=RUNNING)
    say(len([entry async for entry in journal.read(SagaId("s"))]))
    await journal.close()


async def refused(number: int, journal: Journal) -> str:
    try:
        await CALLS[number](journal)
    except ForkedError:
        return "refused"
    return "taken"


async def all_of(journal: Journal) -> None:
    _ = [entry async for entry in journal.read(SagaId("s"))]


async def whole_log(journal: Journal) -> None:
    _ = [logged async for logged in journal.log()]


async def everything_stored(journal: Journal) -> None:
    _ = [stored async for stored in journal.stored()]


async def every_hash(journal: Journal) -> None:
    _ = [hashed async for hashed in journal.hashes()]


async def every_checkpoint(journal: Journal) -> None:
    _ = [checkpoint async for checkpoint in journal.tree_heads()]


async def renew(journal: Journal) -> None:
    journal.renew("w", 1)


async def nudged(journal: Journal) -> None:
    journal.nudged("w")


CALLS: Sequence[Callable[[Journal], Awaitable[object]]] = (
    lambda journal: journal.append(SagaId("s"), [resumed()], after=1, summary=RUNNING),
    all_of,
    lambda journal: journal.enlist("w", 1),
    renew,
    nudged,
    lambda journal: journal.retire("w"),
    lambda journal: journal.holder(SagaId("s")),
    lambda journal: journal.drivers((SagaId("s"),)),
    lambda journal: journal.waking(),
    lambda journal: journal.claim("w"),
    lambda journal: journal.saga(SagaId("s")),
    lambda journal: journal.sagas(SagaQuery()),
    lambda journal: journal.incidents(PersonQuery()),
    lambda journal: journal.approvals(PersonQuery()),
    whole_log,
    everything_stored,
    every_hash,
    every_checkpoint,
    lambda journal: journal.payload("0"),
    lambda journal: journal.cursor("c"),
    lambda journal: journal.cursors("c"),
    lambda journal: journal.move_cursor("c", 1),
    lambda journal: journal.admit(Rate(rule="r", key="k", most=1, per_s=1)),
    lambda journal: journal.tree(),
    lambda journal: journal.tree_head(),
    lambda journal: journal.signers(),
    lambda journal: journal.seal(),
    lambda journal: journal.hand_over(PlainNotary()),
    lambda journal: journal.remove_payloads(by="person:ann", why="it is old", ended_before=1),
    lambda journal: journal.vouch_for_removals(by="person:ann", why="it is old"),
    lambda journal: journal.inspect(),
    lambda journal: journal.removable(ended_before=1),
    lambda journal: journal.next_removable(ended_before=1, limit=1),
    lambda journal: journal.close(),
)


async def forget_to_close(path: str) -> None:
    journal = await SqliteJournal.open(path, SystemClock())
    await journal.append(SagaId("s"), [started()], after=0, summary=RUNNING)
    _ = [entry async for entry in journal.read(SagaId("s"))]
    say("done")


PROGRAMS: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {
    program.__name__: program
    for program in (append_until_killed, append_in_competition, append_signed, hold_a_saga, fork, forget_to_close)
}

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    asyncio.run(PROGRAMS[sys.argv[1]](*sys.argv[2:]))
