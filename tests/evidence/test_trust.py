"""Whoever pinned one key of a journal comes by signed records to the others; and by nothing else."""

import asyncio

import pytest

from amends.errors import EvidenceError
from amends.evidence.bundle import spell
from amends.evidence.sign.notary import KeyNotary
from amends.evidence.sign.note import read_key
from amends.evidence.verify.trust import Trust
from amends.evidence.verify.verify import verify_journal
from amends.journal.memory import MemoryJournal
from amends.testing.clock import ManualClock
from tests.evidence.given import bundle_of, conclusion, ended, lines_of, notary, verdict, write


class Dynasty:
    """A journal whose key was changed twice: ann, bob, cid; one of the changes perhaps without the old key."""

    def __init__(self, *, lost: int | None = None) -> None:
        self.journal = MemoryJournal(ManualClock(), notary=notary(1))
        asyncio.run(self._live(lost))
        signers = asyncio.run(self.journal.signers())
        self.keys = [signer.key for signer in signers]
        self.records = [signer.note for signer in signers[1:]]
        self.checkpoints = {size: one.note for size, one in self.journal.memory.checkpoints.items()}

    async def _live(self, lost: int | None) -> None:
        for turn in (1, 2):
            await write(self.journal, 2, first=10 * turn, tail=False)
            if turn == lost:
                self.journal._notary = None
            await self.journal.hand_over(notary(turn + 1))
        await write(self.journal, 2, first=30, tail=False)

    def bundle(self, *sagas: str) -> bytes:
        return asyncio.run(bundle_of(self.journal, sagas or None))


@pytest.mark.parametrize("pinned", [0, 1, 2])
def test_each_key_leads_to_the_others(pinned: int) -> None:
    dynasty = Dynasty()
    assert conclusion(dynasty.bundle(), dynasty.keys[pinned]) == "covered"
    assert conclusion(dynasty.bundle("s30"), dynasty.keys[pinned]) == "covered"
    report = asyncio.run(verify_journal(dynasty.journal, dynasty.keys[pinned]))
    assert (report.conclusion, len(report.covered)) == ("covered", 54)


@pytest.mark.parametrize(("pinned", "expected"), [(0, "failed"), (1, "covered"), (2, "covered")])
def test_a_key_that_was_lost_leads_nowhere_but_can_be_led_to(pinned: int, expected: str) -> None:
    dynasty = Dynasty(lost=1)
    assert conclusion(dynasty.bundle(), dynasty.keys[pinned]) == expected
    assert asyncio.run(verify_journal(dynasty.journal, dynasty.keys[pinned])).conclusion == expected


def test_a_key_counts_only_for_the_time_in_which_it_signed() -> None:
    dynasty = Dynasty()
    ann, bob, cid = map(read_key, dynasty.keys)
    root = bytes(32)
    for pinned in (ann, bob, cid):
        trust = Trust(pinned, dynasty.records)
        assert trust.troubles == []
        for signer, public, sizes in ((1, ann, (0, 18)), (2, bob, (18, 36)), (3, cid, (36, 1000))):
            for size in range(0, 60, 6):
                note = notary(signer).sign(public.text, size, root, 0)
                counts = sizes[0] <= size <= sizes[1]
                assert (pinned.id, signer, size, is_good(trust, note)) == (pinned.id, signer, size, counts)


def is_good(trust: Trust, note: str) -> bool:
    try:
        trust.checkpoint(note)
    except EvidenceError:
        return False
    return True


def test_a_record_that_was_changed_or_is_not_signed_leads_nowhere() -> None:
    dynasty = Dynasty()
    lines = lines_of(dynasty.bundle())
    records = [place for place, line in enumerate(lines) if b'"rotation"' in line]
    assert len(records) == 2
    for place in records:
        for edit in ((b"\\n18\\n", b"\\n19\\n"), (b"\\n36\\n", b"\\n35\\n"), (b"key rotation", b"key rotatioN")):
            if edit[0] not in lines[place]:
                continue
            changed = [*lines[:place], lines[place].replace(*edit), *lines[place + 1 :]]
            assert conclusion(ended(changed), dynasty.keys[0]) == "failed"
    for left_out in ([records[0]], [records[1]], records):
        fewer = [line for place, line in enumerate(lines) if place not in left_out]
        assert conclusion(ended(fewer), dynasty.keys[0]) == "failed"
        assert conclusion(ended(fewer), dynasty.keys[2]) == "covered"


def test_somebody_elses_key_leads_nowhere_even_if_the_bundle_names_it() -> None:
    dynasty = Dynasty()
    eve = notary(9)
    key = eve.public(read_key(dynasty.keys[0]).name)
    tree = asyncio.run(dynasty.journal.tree())
    forged = eve.succeed(None, dynasty.keys[2], tree.size, tree.root, 0)
    record = spell({"note": forged.record, "type": "rotation"}).encode() + b"\n"
    lines = lines_of(dynasty.bundle())
    place = next(place for place, line in enumerate(lines) if b'"checkpoint"' in line)
    signed = spell({"note": forged.checkpoint, "type": "checkpoint"}).encode() + b"\n"
    changed = [*lines[:place], record, signed, *lines[place + 1 :]]
    changed[0] = changed[0].replace(dynasty.keys[2].encode(), key.encode())
    for pinned in dynasty.keys:
        found = verdict(ended(changed), pinned)
        assert (found["conclusion"], found["covered"]["count"], found["troubles"]) == ("failed", 0, True)


def test_the_records_of_another_journal_lead_nowhere() -> None:
    dynasty = Dynasty()
    other = KeyNotary.public(notary(1), "amends/other")
    trust = Trust(read_key(other), [*dynasty.records, "nonsense"])
    assert len(trust.troubles) == 3
    assert not any(trust.knows(read_key(key)) for key in dynasty.keys)
