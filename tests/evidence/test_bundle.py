"""A bundle shows what it shows, and proves it: any sagas of a journal of any size, against any checkpoint."""

import asyncio
import io
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

import pytest
from hypothesis import given, strategies as st

from amends.core import events as e
from amends.core.words.values import SagaId, digest
from amends.errors import EvidenceError, UnknownSagaError
from amends.evidence import standalone
from amends.evidence.bundle import POLICY_SAGA, export, spell, spell_entry
from amends.evidence.verify import examine
from amends.evidence.verify.verify import verify_bundle, verify_journal
from amends.journal.codec import Wire
from amends.journal.fields import INLINE
from amends.journal.memory import MemoryJournal
from amends.journal.memory.state import KeptEntry
from amends.journal.port.evidence import Removal, Signer, Stored, TreeHead
from amends.journal.tree import Tree, full_subtrees, leaf, root_of
from amends.testing.clock import ManualClock
from amends.testing.journal_suite.evidence import root
from amends.testing.journal_suite.fixture import add, begin, entries
from amends.testing.journal_suite.samples import PAYLOAD, resumed, started, succeeded
from tests.evidence.given import COMPLETED, RUNNING, Made, bundle_of, ended, lines_of, made, notary, verdict, write

# -- branches: inclusion and consistency, by RFC 6962's own trees --------------------------------------------------


def hashes(count: int) -> list[bytes]:
    return [bytes([number]) * 32 for number in range(count)]


def covered_by(size: int, shown: set[int], cuts: set[int]) -> tuple[Tree, dict[int, bytes], int]:
    """The tree made from shown leaves and branches; its roots at the cuts; and how many branches it took."""
    tree, roots, branches = Tree(), dict[int, bytes](), 0
    leaves = [leaf(hashed) for hashed in hashes(size)]
    ends = sorted({end for end in (*shown, *(one - 1 for one in shown), *cuts, size) if end})
    for before, end in zip((0, *ends), ends, strict=False):
        for position, height in full_subtrees(before + 1, end):
            tree.add(root_of(leaves[position - 1 : position - 1 + (1 << height)]), height)
            branches += end not in shown
        if tree.size in cuts:
            roots[tree.size] = tree.root
    return tree, roots, branches


@pytest.mark.parametrize("size", range(1, 65))
def test_every_entry_is_included_in_every_tree_by_few_branches(size: int) -> None:
    expected = root(hashes(size))
    for position in range(1, size + 1):
        tree, _, branches = covered_by(size, {position}, {size})
        assert tree.root == expected
        assert branches <= 2 * size.bit_length()


@pytest.mark.parametrize("size", range(1, 65))
def test_every_tree_is_consistent_with_every_one_that_it_grew_from(size: int) -> None:
    for before in range(1, size + 1):
        tree, roots, _ = covered_by(size, set(), {before, size})
        assert (roots[before], tree.root) == (root(hashes(before)), root(hashes(size)))


@given(st.data())
def test_any_entries_are_included_in_any_tree(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 64))
    shown = data.draw(st.sets(st.integers(1, size)))
    before = data.draw(st.integers(1, size))
    tree, roots, _ = covered_by(size, shown, {before, size})
    assert (roots[before], tree.root) == (root(hashes(before)), root(hashes(size)))


# -- what is in a bundle ------------------------------------------------------------------------------------------


def test_a_whole_journal_is_covered_up_to_its_checkpoint_and_the_rest_is_named() -> None:
    journal = made(7)
    found = verdict(journal.bundle(), journal.key)
    assert found == {
        "conclusion": "unattested",
        "attested": 54,
        "covered": {"count": 54, "entries": "1-54"},
        "unattested": {"count": 9, "entries": "55-63"},
        "missing": {"count": 0, "entries": ""},
        "altered": {"count": 0, "entries": ""},
        "gone": {"count": 0, "entries": ""},
        "unproved": {"count": 0, "entries": ""},
        "proved": 0,
        "removed": 0,
        "removals": [],
        "troubles": False,
    }
    closed = made(6, tail=False)
    assert verdict(closed.bundle(), closed.key)["conclusion"] == "covered"


@pytest.mark.parametrize("size", range(1, 9))
def test_any_sagas_of_any_journal_are_covered(size: int) -> None:
    journal = made(size, tail=False)
    names = [f"s{number}" for number in range(size)]
    for count in (1, 2, size):
        for shown in itertools.islice(itertools.combinations(names, count), 8):
            bundle = journal.bundle(*shown)
            found = verdict(bundle, journal.key)
            assert (found["conclusion"], found["covered"]["count"]) == ("covered", 9 * len(shown))
            assert {json.loads(line)["saga"] for line in lines_of(bundle) if line.startswith(b'{"at"')} == set(shown)


def test_a_saga_that_goes_on_is_shown_with_what_is_signed_of_it() -> None:
    journal = made(7)
    found = verdict(journal.bundle("s6"), journal.key)
    assert (found["conclusion"], found["unattested"]["entries"]) == ("unattested", "55-63")


def test_the_same_journal_makes_the_same_bundle() -> None:
    assert Made(5).bundle() == Made(5).bundle()
    assert Made(5).bundle("s1", "s3") == Made(5).bundle("s3", "s1", "s3")


def test_every_line_is_canonical_json() -> None:
    for line in made(3).bundle().decode().splitlines():
        fields = json.loads(line)
        assert spell(fields) == line
        assert fields["type"] != "entry" or spell_entry(fields) == line


def test_a_saga_that_is_not_there_cannot_be_exported() -> None:
    with pytest.raises(UnknownSagaError, match="no saga has the id nobody"):
        made(3).bundle("s1", "nobody")


def test_a_journal_without_a_key_is_all_unattested() -> None:
    async def live() -> bytes:
        journal = MemoryJournal(ManualClock())
        await write(journal, 2)
        return await bundle_of(journal)

    bundle = asyncio.run(live())
    assert verdict(bundle, made(3).key)["unattested"]["count"] == 18
    assert verdict(bundle, made(3).key)["conclusion"] == "unattested"


def test_an_empty_journal_proves_nothing() -> None:
    journal = MemoryJournal(ManualClock(), notary=notary())
    bundle = asyncio.run(bundle_of(journal))
    (signer,) = asyncio.run(journal.signers())
    assert verdict(bundle, signer.key)["conclusion"] == "unattested"


# -- payloads, policies, what was removed -------------------------------------------------------------------------


def large_journal() -> tuple[MemoryJournal, str]:
    async def live() -> str:
        for name in ("a", "b"):
            saga = await begin(journal, name)
            await add(journal, saga, succeeded("x" * INLINE), succeeded([name * INLINE, PAYLOAD]), summary=COMPLETED)
        return (await journal.signers())[-1].key

    journal = MemoryJournal(ManualClock(), notary=notary())
    return journal, asyncio.run(live())


def test_large_payloads_come_along_once_and_are_checked() -> None:
    journal, key = large_journal()
    for sagas in (None, ["a"], ["b"]):
        bundle = asyncio.run(bundle_of(journal, sagas))
        assert verdict(bundle, key)["conclusion"] == "covered"
        lines = lines_of(bundle)
        places = [place for place, line in enumerate(lines) if b'"payload"' in line]
        assert len(places) == (5 if sagas is None else 3)
        for place in places:
            without = ended([*lines[:place], *lines[place + 1 :]])
            other = ended(
                [*lines[:place], lines[place].replace(b"xx", b"xy").replace(b"aa", b"ab"), *lines[place + 1 :]]
            )
            twice = ended([*lines[: place + 1], *lines[place:]])
            assert verdict(without, key)["altered"]["count"] == 1
            assert verdict(twice, key)["conclusion"] == "failed"
            if lines[place] not in other:
                assert verdict(other, key)["altered"]["count"] == 1


def test_what_was_removed_is_still_covered() -> None:
    journal, key = large_journal()
    asyncio.run(journal.remove_payloads(by="person:ann", why="it is old", ended_before=ManualClock().now() + 1))
    for sagas in (None, ["a"]):
        bundle = asyncio.run(bundle_of(journal, sagas))
        found = verdict(bundle, key)
        assert (found["conclusion"], found["removed"]) == ("covered", 6 if sagas is None else 3)
        assert b"xxxx" not in bundle


SAID = {"by": "person:ann", "why": "it is old", "was_gone": False}


def test_who_removed_what_and_why_is_told_by_both_verifiers() -> None:
    journal, key = large_journal()
    asyncio.run(journal.remove_payloads(by="person:ann", why="it is old", ended_before=ManualClock().now() + 1))
    at = ManualClock().now()
    for sagas, counts in ((None, {"sagas": 2, "entries": 6}), (["b"], {"sagas": 1, "entries": 3})):
        found = verdict(asyncio.run(bundle_of(journal, sagas)), key)
        assert found["removals"] == [{**SAID, **counts, "first_at": at, "last_at": at}]
        assert found["gone"]["count"] == 0


def stripped(bundle: bytes, *, records: bool = False) -> bytes:
    """What whoever has no key can do: put its digest in the place of what an entry held."""
    lines: list[bytes] = []
    for line in lines_of(bundle):
        fields = json.loads(line)
        is_there = fields["type"] == "entry" and fields["body"].startswith("{")
        if is_there and (records or not fields["name"].startswith("content.removed")):
            fields["body"] = f"sha256:{digest(fields['body'])}"
        if fields["type"] != "payload":
            lines.append(spell(fields).encode() + b"\n")
    return ended(lines)


def test_what_is_gone_without_a_record_is_damage_unless_that_is_asked_to_be_taken_as_it_is() -> None:
    journal, key = large_journal()
    bundle = stripped(asyncio.run(bundle_of(journal)))
    found = verdict(bundle, key)
    assert (found["conclusion"], found["gone"]["entries"], found["altered"]["count"]) == ("failed", "1-6", 0)
    ours = verify_bundle(io.BytesIO(bundle), key, may_be_gone=True)
    assert (ours.conclusion, len(ours.gone), ours.removed) == ("covered", 6, 6)
    alone = standalone.Verification(io.BytesIO(bundle), key, may_be_gone=True).report()
    assert (alone["conclusion"], alone["gone"]["count"], alone["removed"]) == ("covered", 6, 6)


def test_a_record_does_not_excuse_that_it_is_gone_itself() -> None:
    journal, key = large_journal()
    asyncio.run(journal.remove_payloads(by="person:ann", why="it is old", ended_before=ManualClock().now() + 1))
    bundle = asyncio.run(bundle_of(journal))
    assert verdict(stripped(bundle), key)["conclusion"] == "covered"
    assert verdict(stripped(bundle, records=True), key)["gone"]["count"] == 8


def test_a_record_that_nobody_signed_does_not_excuse_what_was_signed() -> None:
    """Somebody with the file and without the key strips it, and writes a record with right hashes behind it."""
    made, key = large_journal()
    forger = MemoryJournal(ManualClock(), made.memory)
    asyncio.run(forger.remove_payloads(by="person:ann", why="it is old", ended_before=ManualClock().now() + 1))
    found = verdict(asyncio.run(bundle_of(forger)), key)
    assert (found["conclusion"], found["gone"]["entries"], found["unattested"]["count"]) == ("failed", "1-6", 2)
    assert asyncio.run(verify_journal(forger, key)).conclusion == "failed"


def test_of_a_journal_that_was_never_signed_a_record_is_as_good_as_the_rest() -> None:
    journal = MemoryJournal(ManualClock())

    async def whole() -> str:
        saga = await begin(journal, "a")
        await add(journal, saga, e.SagaCompleted(result="x"), summary=COMPLETED)
        await journal.remove_payloads(by="person:ann", why="it is old", ended_before=ManualClock().now() + 1)
        report = await verify_journal(journal)
        assert (len(report.gone), report.removals[0].entries) == (0, 2)
        return report.conclusion

    assert asyncio.run(whole()) == "unattested"


@pytest.mark.parametrize(
    "body", ["[]", "{", "{}", '{"by":1,"entries":2,"why":""}', '{"by":"","entries":true,"why":""}']
)
def test_a_record_that_says_nothing_excuses_nothing(body: str) -> None:
    assert examine._removal(body) is None
    assert standalone.removal(body) is None


def test_what_was_gone_already_can_be_vouched_for_once_and_only_where_all_of_a_saga_is() -> None:
    journal, key = large_journal()
    memory = journal.memory
    for name in ("a", "b"):
        record = memory.sagas[SagaId(name)]
        for place, kept in enumerate(record.entries[: 3 if name == "a" else 2]):
            wire = Wire(kept.wire.name, f"sha256:{digest(kept.wire.body)}", {})
            record.entries[place] = KeptEntry(kept.at, wire, kept.hash)
        record.removed = True
    assert asyncio.run(verify_journal(journal, key)).conclusion == "failed"
    done = [asyncio.run(journal.vouch_for_removals(by="person:ann", why="by an older version")) for _ in range(2)]
    assert done == [Removal(1, 3), Removal(0, 0)]
    report = asyncio.run(verify_journal(journal, key))
    assert (str(report.gone), report.removals[0].said.was_gone) == ("4-5", True)


def test_policies_that_are_given_come_along_under_their_digest() -> None:
    journal = made(2, tail=False)
    text = "version: v1\nrules: []\n"
    bundle = asyncio.run(bundle_of(journal.journal, policies={digest(text): text, digest("b")[:16]: "b"}))
    assert verdict(bundle, journal.key)["conclusion"] == "covered"
    assert json.dumps(text).encode() in bundle
    changed = [line.replace(b"rules", b"rulez") for line in lines_of(bundle)]
    assert verdict(ended(changed), journal.key)["conclusion"] == "failed"
    for wrong in ({digest("a"): "b"}, {digest("b")[:15]: "b"}, {"": "b"}):
        with pytest.raises(EvidenceError, match="has another digest"):
            asyncio.run(bundle_of(journal.journal, policies=wrong))


def test_journaled_policies_come_along_with_any_saga() -> None:
    async def live() -> bytes:
        await journal.append(POLICY_SAGA, [started(), resumed()], after=0, summary=RUNNING)
        await write(journal, 2, tail=False)
        return await bundle_of(journal, ["s0"])

    journal = MemoryJournal(ManualClock(), notary=notary())
    bundle = asyncio.run(live())
    shown = [json.loads(line)["saga"] for line in lines_of(bundle) if line.startswith(b'{"at"')]
    assert shown == [POLICY_SAGA, POLICY_SAGA, *["s0"] * 9]
    assert verdict(bundle, asyncio.run(journal.signers())[0].key)["conclusion"] == "covered"


# -- held against a checkpoint that somebody kept ------------------------------------------------------------------


def test_a_whole_journal_can_be_held_against_any_checkpoint_of_it() -> None:
    journal = made(8)
    for size, note in journal.checkpoints.items():
        found = verdict(journal.bundle(), journal.key, note)
        assert (size, found["conclusion"], found["attested"]) == (size, "unattested", max(journal.checkpoints))


def test_some_sagas_can_be_held_against_a_checkpoint_that_the_bundle_was_made_for() -> None:
    journal = made(8, tail=False)
    *old, last = sorted(journal.checkpoints)
    for size in old:
        note = journal.checkpoints[size]
        for sagas in (["s0"], ["s7"], ["s2", "s5"]):
            found = verdict(journal.bundle(*sagas, checkpoint=note), journal.key, note)
            assert (found["conclusion"], found["attested"]) == ("covered", last)
    unprepared = verdict(journal.bundle("s7"), journal.key, journal.checkpoints[old[1]])
    assert (unprepared["conclusion"], unprepared["troubles"]) == ("failed", True)


def test_a_checkpoint_of_more_than_there_is_cannot_be_prepared_for() -> None:
    large, small = made(8, tail=False), made(2, tail=False)
    with pytest.raises(EvidenceError, match="the journal has 18; is it of this journal"):
        small.bundle("s0", checkpoint=large.checkpoints[72])


def test_a_journal_that_went_another_way_since_is_noticed() -> None:
    """The same key, the same name, and another history: what whoever holds the key can still not do unseen."""
    honest = made(8, tail=False)
    rewritten = MemoryJournal(ManualClock(), notary=notary())

    async def live() -> None:
        await write(rewritten, 3, tail=False)
        await write(rewritten, 9, first=3, tail=False)

    asyncio.run(live())
    bundle = asyncio.run(bundle_of(rewritten))
    (signer,) = asyncio.run(rewritten.signers())
    assert signer.key == honest.key
    assert verdict(bundle, honest.key)["conclusion"] == "covered"
    for size, note in honest.checkpoints.items():
        found = verdict(bundle, honest.key, note)
        agrees = size <= 18
        assert found["conclusion"] == ("covered" if agrees else "failed")
        assert agrees or found["altered"]["entries"] == f"1-{size}"
        live_report = asyncio.run(verify_journal(rewritten, honest.key, checkpoint=note))
        assert live_report.conclusion == found["conclusion"]


def test_a_journal_that_was_cut_back_to_an_old_checkpoint_is_noticed_by_who_holds_a_newer_one() -> None:
    journal = made(8, tail=False)
    *_, before, last = sorted(journal.checkpoints)
    lines = [line for line in lines_of(journal.bundle()) if position_of(line) <= before]
    place = next(place for place, line in enumerate(lines) if b'"checkpoint"' in line)
    lines[place] = spell({"note": journal.checkpoints[before], "type": "checkpoint"}).encode() + b"\n"
    cut = ended(lines)
    assert verdict(cut, journal.key)["conclusion"] == "covered"  # it was all there was, once
    found = verdict(cut, journal.key, journal.checkpoints[last])
    assert (found["conclusion"], found["missing"]["entries"]) == ("failed", f"{before + 1}-{last}")


def position_of(line: bytes) -> int:
    return int(json.loads(line).get("position", 0))


# -- a journal where it lies --------------------------------------------------------------------------------------


def test_a_journal_is_verified_where_it_lies() -> None:
    journal = made(7)
    report = asyncio.run(verify_journal(journal.journal))
    assert (report.conclusion, str(report.covered), str(report.unattested)) == ("unattested", "1-54", "55-63")
    bare = MemoryJournal(ManualClock())
    asyncio.run(write(bare, 2))
    assert asyncio.run(verify_journal(bare)).conclusion == "unattested"
    assert asyncio.run(verify_journal(bare, journal.key)).conclusion == "unattested"


def test_a_journal_is_not_signed_by_a_key_that_it_never_had() -> None:
    journal = made(7)
    other = notary(9).public(journal.key.partition("+")[0])
    report = asyncio.run(verify_journal(journal.journal, other))
    assert (report.conclusion, len(report.covered)) == ("failed", 0)
    assert len(report.troubles) == 1 + len(journal.checkpoints)


def test_payloads_are_checked_where_they_lie() -> None:
    journal, _ = large_journal()
    blobs = journal.memory.blobs
    blobs[digest('="' + "x" * INLINE + '"')] = "another"
    del blobs[digest('="' + "a" * INLINE + '"')]
    report = asyncio.run(verify_journal(journal))
    assert str(report.altered) == "2-3, 5"  # the last needs what the first has


class InUse(MemoryJournal):
    """A journal to which somebody writes after each question that is put to it, as often as `more` lasts."""

    more: list[Callable[[], Awaitable[object]]]

    async def _go_on(self) -> None:
        if self.more:
            await self.more.pop(0)()

    async def tree(self) -> Tree:
        found = await super().tree()
        await self._go_on()
        return found

    async def signers(self) -> tuple[Signer, ...]:
        found = await super().signers()
        await self._go_on()
        return found

    async def tree_heads(self, *, after: int = 0) -> AsyncIterator[TreeHead]:
        async for one in super().tree_heads(after=after):
            yield one
            await self._go_on()

    async def stored(self, *, after: int = 0) -> AsyncIterator[Stored]:
        async for one in super().stored(after=after):
            yield one
            await self._go_on()

    async def payload(self, digest: str) -> str | None:
        await self._go_on()
        return await super().payload(digest)


async def nothing() -> None:
    """Nobody writes just now."""


@pytest.mark.parametrize("waits", range(12))
def test_a_journal_in_use_is_judged_as_it_stood(waits: int) -> None:
    async def whole() -> None:
        journal = InUse(ManualClock(), notary=notary())
        journal.more = []
        await write(journal, 4, tail=False)
        more = [partial(write, journal, 2, first=10 * turn, tail=False) for turn in range(1, 20)]
        journal.more = [*[nothing] * waits, *more]
        report = await verify_journal(journal)
        assert (report.conclusion, report.findings, report.troubles) == ("covered", [], [])
        assert len(journal.more) < waits + len(more)  # they did write
        assert str(report.covered).startswith("1-")
        assert len(report.covered) >= 36

    asyncio.run(whole())


@pytest.mark.parametrize("waits", range(6))
def test_a_key_that_is_handed_over_while_a_journal_is_verified_is_known(waits: int) -> None:
    async def whole() -> None:
        journal = InUse(ManualClock(), notary=notary())
        journal.more = []
        await write(journal, 4, tail=False)
        journal.more = [*[nothing] * waits, partial(journal.hand_over, notary(2))]
        report = await verify_journal(journal)
        assert (report.conclusion, report.troubles, len(report.covered)) == ("covered", [], 36)

    asyncio.run(whole())


def test_a_checkpoint_of_more_than_there_is_counts_also_while_others_write() -> None:
    """Who cuts a journal off cannot hide behind the next one who writes."""

    async def whole() -> None:
        journal = InUse(ManualClock(), notary=notary())
        journal.more = []
        await write(journal, 8, tail=False)
        memory = journal.memory
        for name in ("s6", "s7"):
            del memory.sagas[SagaId(name)]
        memory.order = memory.order[:54]
        memory.tree = Tree()
        for position in range(1, 55):
            memory.tree.add(leaf(memory.stored(position).hash))
        journal.more = [partial(write, journal, 1, first=10, tail=False)]
        report = await verify_journal(journal)
        assert (report.conclusion, str(report.missing)) == ("failed", "55-72")

    asyncio.run(whole())


@pytest.mark.parametrize("waits", range(8))
def test_what_is_removed_while_a_journal_is_verified_is_removed_and_not_altered(waits: int) -> None:
    made, _ = large_journal()

    async def whole() -> None:
        journal = InUse(ManualClock(), made.memory, notary=notary())
        journal.more = [
            *[nothing] * waits,
            partial(journal.remove_payloads, by="person:ann", why="it is old", ended_before=2**52),
        ]
        report = await verify_journal(journal)
        assert (report.conclusion, report.findings, journal.more) == ("covered", [], [])

    asyncio.run(whole())


def test_what_is_read_is_what_was_written() -> None:
    journal = made(3)
    found = asyncio.run(entries(journal.journal, SagaId("s1")))
    bundle = journal.bundle("s1")
    shown = [json.loads(line) for line in lines_of(bundle) if line.startswith(b'{"at"')]
    assert [(one["body"], one["hash"], one["at"]) for one in shown] == [
        (entry.body, entry.hash.hex(), entry.at) for entry in found
    ]


@pytest.mark.parametrize("sagas", [None, ["s0"]], ids=["whole", "one saga"])
def test_what_is_written_while_a_bundle_is_made_is_not_in_it(sagas: list[str] | None) -> None:
    async def live() -> tuple[bytes, bytes]:
        journal = MemoryJournal(ManualClock(), notary=notary())
        await write(journal, 2, tail=False)
        before = await bundle_of(journal, sagas)
        lines: list[str] = []
        async for line in export(journal, sagas):
            lines.append(line)
            if len(lines) == 1:
                await write(journal, 2, first=7, tail=False)
        return before, "".join(lines).encode()

    before, meanwhile = asyncio.run(live())
    assert before == meanwhile


def test_a_bundle_that_says_it_shows_more_or_less_than_it_does_is_seen() -> None:
    journal = made(4, tail=False)
    for sagas in ((), ("s1",), ("s1", "s2")):
        lines = lines_of(journal.bundle(*sagas))
        honest = json.dumps(sorted(sagas) or None, separators=(",", ":")).encode()
        for said in (b"null", b"[]", b'["s1"]', b'["s1","s2"]', b'["s2","s1"]', b"[1]", b'["s9"]'):
            forged = [lines[0].replace(honest, said), *lines[1:]]
            expected = "covered" if said == honest else "failed"
            assert (sagas, said, verdict(ended(forged), journal.key)["conclusion"]) == (sagas, said, expected)


def test_a_journal_with_more_than_its_tree_counts_is_seen() -> None:
    journal = Made(3)
    kept = journal.journal.memory
    kept.tree = Tree(18, kept.tree.kept[:2])
    report = asyncio.run(verify_journal(journal.journal))
    assert "there are entries past the 18 that the tree counts" in report.troubles


def test_what_is_wrong_with_a_whole_journal_is_told_of_a_hundred_entries() -> None:
    journal = Made(20)
    for record in journal.journal.memory.sagas.values():
        record.entries = [KeptEntry(one.at + 1, one.wire, one.hash) for one in record.entries]
    report = asyncio.run(verify_journal(journal.journal))
    assert (len(report.altered), len(report.findings)) == (180, 100)
