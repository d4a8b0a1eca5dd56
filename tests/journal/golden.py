"""A journal that an earlier amends wrote, kept: every kind of fact, walks over the tables, a drill, a simulation.

python -m tests.journal.golden          write it anew; only where the format of entries has changed on purpose

The files beside this one are what it wrote at 0.1: the journal itself, all of it as a bundle, and the public key.
"""

import asyncio
import gzip
import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from amends import Done, Work, action, saga
from amends.core.events import Event, SagaCompleted
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.drill import drill
from amends.drill.records import record_of
from amends.evidence.bundle import export
from amends.evidence.drills import record_drill
from amends.evidence.sign.keys import GivenKey
from amends.evidence.sign.notary import KeyNotary
from amends.journal.memory import MemoryJournal
from amends.journal.port.journal import Journal, Summary
from amends.journal.sqlite import SqliteJournal
from amends.testing.clock import ManualClock
from amends.testing.journal_suite.samples import EVERY_EVENT, started, succeeded
from amends.testing.journal_suite.whole import history
from amends.testing.simulation.schedule import simulate
from amends.testing.walk.choices import Tape
from amends.testing.walk.walk import Walk
from tests.core.samples import EVENTS

FOLDER = Path(__file__).parent / "golden"
JOURNAL, BUNDLE, KEY = FOLDER / "journal.db.gz", FOLDER / "bundle.jsonl.gz", FOLDER / "key.txt"
RUNNING, COMPLETED = Summary(status=SagaStatus.RUNNING), Summary(status=SagaStatus.COMPLETED)
WALKS, SCHEDULES = 60, 12

History = tuple[SagaId, list[Event]]


@action("golden.book")
def book(room: str) -> str:
    return room


@book.compensation
def give_back(done: Done[str]) -> None:
    """It gives the room back."""


@saga("golden.rent")
async def rent(s: Work, room: str) -> str:
    return await s.do(book, room)


def of_each_kind() -> Iterator[History]:
    for number, event in enumerate([*EVERY_EVENT, *EVENTS]):
        yield SagaId(f"kind-{number}"), [started(), event]


def large() -> Iterator[History]:
    """Values that are kept in parts, one of them again in the next entry."""
    yield SagaId("large"), [started(), succeeded(history(0, 40)), SagaCompleted(result=history(0, 41))]


def walks() -> Iterator[History]:
    for seed in range(WALKS):
        yield SagaId(f"walk-{seed}"), Walk(Tape.seeded(seed)).run().events


def simulated() -> Iterator[History]:
    """Every entry that the sagas of some schedules wrote, seen where it is appended."""
    written: dict[SagaId, list[Event]] = defaultdict(list)
    real = MemoryJournal._append

    def seen(journal: MemoryJournal, saga: SagaId, events: Sequence[Event], *rest: Any) -> Any:
        answer = real(journal, saga, events, *rest)
        written[SagaId(f"sim-{seed}-{saga}")] += events
        return answer

    with mock.patch.object(MemoryJournal, "_append", seen):
        for seed in range(SCHEDULES):
            assert simulate(seed).complaints == []
    yield from written.items()


async def write(folder: Path, histories: Sequence[History]) -> None:
    notary = KeyNotary(GivenKey(Ed25519PrivateKey.from_private_bytes(bytes([7] * 32))))
    clock = ManualClock()
    journal = await SqliteJournal.open(folder / "journal.db", clock, notary=notary)
    for name, events in histories:
        await append(journal, name, events)
        clock.advance(1)
    await record_drill(journal, clock, record_of(await drill(rent, {"room": "A"}), "golden:rent"), by="a", env="test")
    await journal.seal()
    lines = [line async for line in export(journal)]
    (signer,) = await journal.signers()
    await journal.close()
    FOLDER.mkdir(exist_ok=True)
    keep(BUNDLE, "".join(lines).encode())
    KEY.write_text(signer.key + "\n", encoding="utf-8")
    keep(JOURNAL, (folder / "journal.db").read_bytes())


async def append(journal: Journal, name: SagaId, events: Sequence[Event]) -> None:
    for number, event in enumerate(events):
        await journal.append(name, [event], after=number, summary=RUNNING)


def keep(path: Path, data: bytes) -> None:
    path.write_bytes(gzip.compress(data, mtime=0))


def unpacked(path: Path, to: Path) -> Path:
    with gzip.open(path) as packed, to.open("wb") as file:
        shutil.copyfileobj(packed, file)
    to.chmod(0o600)
    return to


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(write(Path(name), [*of_each_kind(), *large(), *walks(), *simulated()]))
    sys.exit(0)
