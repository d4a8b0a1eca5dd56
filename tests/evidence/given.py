"""Signed journals and bundles for the tests of evidence, the same in every run."""

import asyncio
import io
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.errors import EvidenceError
from amends.evidence import standalone
from amends.evidence.bundle import export, spell
from amends.evidence.sign.keys import GivenKey
from amends.evidence.sign.notary import KeyNotary
from amends.evidence.verify.verify import verify_bundle
from amends.journal.memory import MemoryJournal
from amends.journal.port.evidence import Stored
from amends.journal.port.journal import Journal, Summary
from amends.testing.clock import ManualClock
from amends.testing.journal_suite.samples import started, walked

RUNNING = Summary(status=SagaStatus.RUNNING)
COMPLETED = Summary(status=SagaStatus.COMPLETED)
UNREADABLE = "unreadable"


def notary(seed: int = 1) -> KeyNotary:
    return KeyNotary(GivenKey(Ed25519PrivateKey.from_private_bytes(bytes([seed] * 32))))


async def write(journal: Journal, sagas: int, *, steps: int = 2, tail: bool = True, first: int = 0) -> None:
    """Sagas side by side, two at a time, each of 1 + 4 * steps entries; with a tail, the last one goes on."""
    for pair in range(first, first + sagas, 2):
        names = [SagaId(f"s{number}") for number in range(pair, min(pair + 2, first + sagas))]
        for name in names:
            await journal.append(name, [started()], after=0, summary=RUNNING)
        for step in range(steps):
            for name in names:
                goes_on = step < steps - 1 or (tail and name == names[-1] and pair + 2 >= first + sagas)
                events = walked(f"a.{step}", args={"order": f"{name}-{step}", "naïve": "✓"}, is_first=step == 0)
                await journal.append(name, events, after=1 + 4 * step, summary=RUNNING if goes_on else COMPLETED)


class Made:
    """A journal in memory, its key, and bundles of it."""

    def __init__(self, sagas: int, *, tail: bool = True) -> None:
        self.journal = MemoryJournal(ManualClock(), notary=notary())
        asyncio.run(write(self.journal, sagas, tail=tail))
        (signer,) = asyncio.run(self.journal.signers())
        self.key = signer.key

    def bundle(self, *sagas: str, checkpoint: str | None = None) -> bytes:
        return asyncio.run(bundle_of(self.journal, sagas or None, checkpoint=checkpoint))

    @property
    def checkpoints(self) -> dict[int, str]:
        return {size: one.note for size, one in self.journal.memory.checkpoints.items()}

    @property
    def stored(self) -> list[Stored]:
        return [self.journal.memory.stored(place + 1) for place in range(len(self.journal.memory.order))]


@cache
def made(sagas: int, *, tail: bool = True) -> Made:
    return Made(sagas, tail=tail)


async def bundle_of(journal: Journal, sagas: Sequence[str] | None = None, **more: Any) -> bytes:
    return "".join([line async for line in export(journal, sagas, **more)]).encode()


def ended(lines: Sequence[bytes]) -> bytes:
    """The lines with an end that fits them: what whoever edits a bundle can do as well."""
    whole = b"".join(lines)
    end = {"entries": sum(line.startswith(b'{"at":') for line in lines), "sha256": sha256(whole).hexdigest()}
    return whole + spell({**end, "type": "end"}).encode() + b"\n"


def lines_of(bundle: bytes) -> list[bytes]:
    """All but the end."""
    return bundle.splitlines(keepends=True)[:-1]


WORDS = ("findings", "troubles")


def verdict(bundle: bytes, key: str, checkpoint: str | None = None) -> dict[str, Any]:
    """What both verifiers say; they have to agree in everything but words."""
    ours = judged(lambda: verify_bundle(io.BytesIO(bundle), key, checkpoint=checkpoint).fields(), EvidenceError)
    alone = judged(lambda: standalone.Verification(io.BytesIO(bundle), key, checkpoint).report(), ValueError)
    assert ours == alone
    return ours


def judged(verify: Callable[[], dict[str, Any]], unreadable: type[Exception]) -> dict[str, Any]:
    try:
        report = verify()
    except unreadable:
        return {"conclusion": UNREADABLE}
    return {name: bool(value) if name == "troubles" else value for name, value in report.items() if name != "findings"}


def conclusion(bundle: bytes, key: str, checkpoint: str | None = None) -> str:
    return str(verdict(bundle, key, checkpoint)["conclusion"])
