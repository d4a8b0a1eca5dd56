"""The rules of evidence: the tree over all entries, the checkpoints that are signed, and what can be removed."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from amends.core import events as e
from amends.core.transitions import SagaStatus
from amends.core.words.values import DRILLS, POLICIES, SagaId, digest
from amends.errors import EvidenceKeyError, JournalStoppedError, PayloadRemovedError
from amends.journal.codec import chain
from amends.journal.fields import INLINE
from amends.journal.port.entries import PARENT, ROOT, Summary
from amends.journal.port.evidence import Evidence, Inspection, Removal, Spared, TreeHead
from amends.journal.port.journal import Journal
from amends.journal.port.lists import PersonQuery, SagaQuery
from amends.journal.tree import Subtree, Tree, full_subtrees, leaf
from amends.testing.journal_suite.fixture import (
    RUNNING,
    PlainNotary,
    StoreFixture,
    add,
    begin,
    entries,
    equal,
    refusal,
    rule,
)
from amends.testing.journal_suite.samples import opened, resumed, started, succeeded, walked

COMPLETED = Summary(status=SagaStatus.COMPLETED)
INCIDENT = Summary(status=SagaStatus.INCIDENT)
ROLLED_BACK = Summary(status=SagaStatus.ROLLED_BACK)


def root(hashes: Sequence[bytes]) -> bytes:
    """As RFC 6962 defines it, word by word."""
    if not hashes:
        return sha256(b"").digest()
    if len(hashes) == 1:
        return sha256(b"\0" + hashes[0]).digest()
    split = 1 << ((len(hashes) - 1).bit_length() - 1)
    return sha256(b"\1" + root(hashes[:split]) + root(hashes[split:])).digest()


async def checkpoints(journal: Evidence, *, after: int = 0) -> list[TreeHead]:
    return [one async for one in journal.tree_heads(after=after)]


async def sizes(journal: Evidence) -> list[int]:
    return [one.size for one in await checkpoints(journal)]


class EvidenceSuite(StoreFixture):
    # -- the tree -----------------------------------------------------------------------------------------------------

    @rule
    async def test_the_tree_is_the_one_of_the_hashes_in_journal_order(self, journal: Journal) -> None:
        handles = [journal, await self.another()]
        hashes: list[bytes] = []
        equal((await journal.tree()).root, root(hashes))
        for turn in range(1, 20):
            handle = handles[turn // 2 % 2]
            saga = await begin(handle, f"s{turn}")
            await add(handle, saga, *[resumed()] * (turn % 4))
            hashes = [hashed async for hashed in journal.hashes()]
            tree = await handles[turn % 2].tree()
            equal((tree.size, tree.root), (len(hashes), root(hashes)))
        found = [one async for one in journal.log()]
        equal([one.entry.hash for one in found], hashes)
        equal([hashed async for hashed in journal.hashes(after=7)], hashes[7:])

    @rule
    async def test_a_saga_knows_its_positions_and_the_tree_the_roots_between_them(self, journal: Journal) -> None:
        handles = [journal, await self.another()]
        sagas = [await begin(journal, "a"), await begin(journal, "b")]
        for turn, count in enumerate((3, 250, 7, 1, 520, 2)):
            await add(handles[turn % 2], sagas[turn % 2], *[resumed()] * count)
        hashes = [hashed async for hashed in journal.hashes()]
        found = {saga: await journal.positions(saga) for saga in sagas}
        equal(sorted(found[sagas[0]] + found[sagas[1]]), list(range(1, len(hashes) + 1)))
        for saga in sagas:
            equal([hashes[one - 1] for one in found[saga]], [one.hash for one in await entries(journal, saga)])
        equal(await journal.positions(SagaId("nobody")), ())
        asked = [*full_subtrees(1, len(hashes)), *full_subtrees(2, 700), Subtree(257, 8), Subtree(513, 7)]
        expected = [root(hashes[at - 1 : at - 1 + (1 << height)]) for at, height in asked]
        for handle in handles:
            equal(list(await handle.subtrees(asked)), expected)
            equal(await handle.subtrees([]), ())

    @rule
    async def test_what_is_stored_can_be_had_as_it_is(self, journal: Journal) -> None:
        saga = await begin(journal, "s")
        await add(journal, saga, succeeded("x" * INLINE), resumed())
        whole = [one async for one in journal.stored()]
        found = [tuple(one.entry)[:6] async for one in journal.log()]
        equal([tuple(one)[1:] for one in whole], found)
        equal([one.position for one in whole], [1, 2, 3])
        equal([one async for one in journal.stored(after=2)], whole[2:])
        text = '="' + "x" * INLINE + '"'
        equal((await journal.payload(digest(text)), await journal.payload("0" * 64)), (text, None))

    # -- checkpoints --------------------------------------------------------------------------------------------------

    @rule
    async def test_what_ends_a_saga_is_signed_with_it(self, journal: Journal) -> None:
        for name, summary in (("a", COMPLETED), ("b", INCIDENT), ("c", ROLLED_BACK)):
            saga = await begin(journal, name)
            before = await sizes(journal)
            await add(journal, saga, resumed(), summary=summary)
            tree = await journal.tree()
            newest = await journal.tree_head()
            equal(newest and (newest.size, newest.at), (tree.size, self.clock.now()))
            (signer,) = await journal.signers()
            equal(newest and self.notary.read(signer.key, newest.note), (tree.size, tree.root))
            equal(await sizes(journal), [*before, tree.size])
        equal(self.notary.signed, 3)
        equal(await checkpoints(journal, after=2), (await checkpoints(journal))[1:])

    @rule
    async def test_a_checkpoint_is_due_after_so_many_entries(self, journal: Journal) -> None:
        saga = await begin(journal, "s")
        for first in (1, 500):
            await journal.append(saga, [resumed()] * 499, after=first, summary=RUNNING)
        equal((await journal.tree()).size, 999)
        equal(await sizes(journal), [])
        await add(journal, saga, resumed())
        await add(journal, saga, resumed())
        equal(await sizes(journal), [1000])

    @rule
    async def test_a_checkpoint_is_due_after_so_long(self, journal: Journal) -> None:
        saga = await begin(journal, "s")
        self.clock.advance(59)
        await add(journal, saga, resumed())
        equal(await sizes(journal), [])
        self.clock.advance(1)
        await add(journal, saga, resumed())
        equal(await sizes(journal), [3])
        self.clock.advance(59)
        await add(journal, saga, resumed())
        equal(await sizes(journal), [3])
        self.clock.jump(-3600)
        await add(journal, saga, resumed())
        equal(await sizes(journal), [3, 5])

    @rule
    async def test_what_is_left_is_signed_when_the_journal_is_closed_and_can_be_before(self, journal: Journal) -> None:
        other = await self.another()
        equal(await journal.seal(), None)
        saga = await begin(journal, "s")
        sealed = await other.seal()
        equal(sealed and sealed.size, 1)
        equal((await other.seal(), self.notary.signed), (sealed, 1))
        await add(journal, saga, resumed())
        await journal.close()
        equal(await sizes(other), [1, 2])

    @rule
    async def test_a_notary_that_cannot_sign_stops_nobody(self, journal: Journal) -> None:
        saga = await begin(journal, "s")
        self.notary.is_ill = True
        await add(journal, saga, resumed(), summary=INCIDENT)
        equal(await sizes(journal), [])
        self.notary.is_ill = False
        await add(journal, saga, resumed(), summary=COMPLETED)
        equal(await sizes(journal), [3])

    @rule
    async def test_every_handle_of_a_journal_signs_by_the_same_key(self, journal: Journal) -> None:
        other = await self.another()
        equal(await journal.signers(), await other.signers())
        (signer,) = await journal.signers()
        equal((signer.key, signer.note), (self.notary.public(signer.key.partition("+")[0]), ""))
        self.notary = PlainNotary("bob")
        await refusal(self.another(), EvidenceKeyError)

    @rule
    async def test_a_new_key_is_named_by_the_old_one_and_signs_from_then_on(self, journal: Journal) -> None:
        other = await self.another()
        saga = await begin(journal, "s")
        (ann,) = await journal.signers()
        bob = PlainNotary("bob")
        both = await journal.hand_over(bob)
        first, second = await journal.signers()
        origin = ann.key.partition("+")[0]
        equal((first, second.key), (ann, bob.public(origin)))
        equal(second.note, f"{ann.key} -> {second.key}")
        equal(await journal.tree_head(), both)
        tree = await journal.tree()
        for key in (first.key, second.key):
            equal(bob.read(key, both.note), (tree.size, tree.root))
        await add(other, saga, resumed(), summary=COMPLETED)  # it has the old key, and knows that it no longer counts
        later = await checkpoints(journal, after=1)  # another handle may sign for it, where one numbers for all
        equal([bob.read(second.key, one.note)[0] for one in later], [one.size for one in later])
        await add(journal, saga, resumed(), summary=COMPLETED)
        newest = await journal.tree_head()
        equal(newest and bob.read(second.key, newest.note)[0], 3)
        await refusal(other.hand_over(PlainNotary("eve")), EvidenceKeyError)
        self.notary = bob
        await self.another()

    @rule
    async def test_after_close_nothing_is_proved_any_more(self, journal: Journal) -> None:
        await begin(journal, "s")
        await journal.close()
        for asked in (
            journal.payload("0" * 64),
            journal.tree(),
            journal.positions(SagaId("s")),
            journal.subtrees([Subtree(1, 0)]),
            journal.tree_head(),
            journal.signers(),
            journal.seal(),
            journal.hand_over(PlainNotary("bob")),
            journal.remove_payloads(by="person:ann", why="it is old", ended_before=1),
            journal.vouch_for_removals(by="person:ann", why="it is old"),
            journal.inspect(),
            checkpoints(journal),
            anext(aiter(journal.stored())),
            anext(aiter(journal.hashes())),
        ):
            await refusal(asked, JournalStoppedError)

    # -- retention ----------------------------------------------------------------------------------------------------

    @rule
    async def test_what_ended_sagas_held_can_be_removed_and_everything_still_verifies(self, journal: Journal) -> None:
        large = "x" * INLINE
        saga = SagaId("old")
        events: list[e.Event] = [started(about=large), *walked("a.1", args=large), e.SagaCompleted(result=large)]
        await journal.append(saga, events, after=0, summary=COMPLETED)
        before = await entries(journal, saga)
        self.clock.advance(1)
        now = self.clock.now()
        equal((await journal.remove_payloads(by="person:ann", why="old", ended_before=now)).entries, len(events))
        equal((await journal.remove_payloads(by="person:ann", why="old", ended_before=now)).entries, 0)
        *after, record = await entries(journal, saga)
        equal([one.is_removed for one in after], [True] * len(events))
        equal([(*one[:4], one.hash) for one in after], [(*one[:4], one.hash) for one in before])
        equal([one.body for one in after], [f"sha256:{digest(one.body)}" for one in before])
        equal(await journal.payload(digest(f'="{large}"')), None)
        equal(record.event, e.ContentRemoved(entries=len(events), by="person:ann", why="old"))
        previous, tree = bytes(32), Tree()
        for one in (*after, record):
            previous = chain(previous, saga, one.number, one.at, one.name, one.body)
            equal(previous, one.hash)
            tree.add(leaf(previous))
        equal((await journal.tree()).root, tree.root)
        equal([one.entry async for one in journal.log()], [*after, record])

    @rule
    async def test_what_is_removed_is_signed_for_at_once_and_makes_the_saga_no_younger(self, journal: Journal) -> None:
        saga = await begin(journal, "old", summary=COMPLETED)
        before = await journal.saga(saga)
        await journal.hand_over(PlainNotary("bob"))
        self.clock.advance(10)
        await journal.remove_payloads(by="person:ann", why="old", own=True, ended_before=self.clock.now())
        newest, row = await journal.tree_head(), await journal.saga(saga)
        equal(newest and newest.size, 2)
        equal(row and (row.ended_at, row.updated_at), before and (before.ended_at, before.updated_at))
        equal(row and (row.entries, row.pruned), (2, True))
        record = e.ContentRemoved(entries=1, by="person:ann", why="old", own=True)
        equal([one.event async for one in journal.read(saga, after=1)], [record])

    @rule
    async def test_the_record_of_a_removal_outlives_the_next_one(self, journal: Journal) -> None:
        saga = await begin(journal, "old", summary=COMPLETED)
        self.clock.advance(1)
        await journal.remove_payloads(by="person:ann", why="first", ended_before=self.clock.now())
        await add(journal, saga, resumed(), summary=COMPLETED)
        self.clock.advance(1)
        await journal.remove_payloads(by="person:bob", why="second", ended_before=self.clock.now())
        _, first, gone, second = await entries(journal, saga)
        equal((first.is_removed, gone.is_removed, second.is_removed), (False, True, False))
        equal(second.event, e.ContentRemoved(entries=3, by="person:bob", why="second"))

    @rule
    async def test_who_vouches_for_what_is_gone_finds_nothing_where_all_is_on_record(self, journal: Journal) -> None:
        await begin(journal, "kept", summary=COMPLETED)
        await begin(journal, "old", summary=COMPLETED)
        self.clock.advance(1)
        now, old = self.clock.now(), {SagaId("old")}
        await journal.remove_payloads(by="person:ann", why="old", ended_before=now, sagas=old)
        equal(await journal.vouch_for_removals(by="person:ann", why="before"), Removal(0, 0))

    @rule
    async def test_a_sound_store_finds_nothing_wrong_with_itself(self, journal: Journal) -> None:
        await begin(journal, "s")
        equal(await journal.inspect(), Inspection())
        equal((await journal.inspect(within_s=60)).troubles, ())

    @rule
    async def test_asking_for_what_was_removed_is_refused_in_clear_words(self, journal: Journal) -> None:
        saga = await begin(journal, "old", summary=COMPLETED)
        await journal.remove_payloads(by="person:ann", why="it is old", ended_before=self.clock.now() + 1)
        entry, _ = await entries(journal, saga)

        async def look() -> e.Event:
            return entry.event

        trouble = await refusal(look(), PayloadRemovedError)
        equal(str(trouble).startswith("saga old, entry 1 (saga.started/1): what it held was removed"), True)  # noqa: FBT003 - the expected value

    @rule
    async def test_only_what_ended_before_and_has_nothing_open_is_removed(self, journal: Journal) -> None:
        await begin(journal, "running")
        await begin(journal, "halted", summary=INCIDENT)
        with_incident = await begin(journal, "with an incident")
        await add(journal, with_incident, opened(), summary=ROLLED_BACK)
        await begin(journal, "old", summary=COMPLETED)
        self.clock.advance(1)
        await begin(journal, "young", summary=COMPLETED)
        equal(
            (await journal.remove_payloads(by="person:ann", why="it is old", ended_before=self.clock.now())).entries, 1
        )
        removed = {one.entry.saga async for one in journal.log() if one.entry.is_removed}
        equal(removed, {"old"})

    @rule
    async def test_the_policies_stay_for_they_go_on_judging(self, journal: Journal) -> None:
        saga, adopted = SagaId(POLICIES), e.PolicyAdopted(digest="d", text="t", by="person:ann", why="first")
        begun = e.SagaStarted(definition=POLICIES, version=1, input=None, actor="person:ann", env="", labels={})
        await journal.append(saga, (begun, e.SagaCompleted(result=None), adopted), after=0, summary=COMPLETED)
        equal(
            (
                await journal.remove_payloads(by="person:ann", why="it is old", ended_before=self.clock.now() + 1)
            ).entries,
            0,
        )
        equal([one.event async for one in journal.read(saga, after=2)], [adopted])

    @rule
    async def test_a_drill_stays_for_the_gate_asks_how_old_it_is_and_a_withdrawn_one_goes(
        self, journal: Journal
    ) -> None:
        begun = e.SagaStarted(definition=DRILLS, version=1, input={}, actor="system:ci", env="drill", labels={})
        drilled = (begun, e.SagaCompleted(result=None))
        back = (
            e.RollbackStarted(cause=e.Cause.CANCELLED, why="w", step=None, by="person:ann", deadline_at=0),
            e.SagaRolledBack(),
        )
        await journal.append(SagaId("counts"), drilled, after=0, summary=COMPLETED)
        withdrawn = Summary(status=SagaStatus.ROLLED_BACK)
        await journal.append(SagaId("withdrawn"), (*drilled, *back), after=0, summary=withdrawn)
        equal(await journal.removable(ended_before=self.clock.now() + 1), 1)
        await journal.remove_payloads(by="person:ann", why="it is old", ended_before=self.clock.now() + 1)
        rows = (await journal.sagas(SagaQuery())).rows
        equal({row.id: row.pruned for row in rows}, {"counts": False, "withdrawn": True})

    @rule
    async def test_a_payload_that_another_saga_needs_stays(self, journal: Journal) -> None:
        shared, own = "s" * INLINE, "o" * INLINE
        old, young = await begin(journal, "old"), await begin(journal, "young")
        await add(journal, old, succeeded(shared), succeeded(own), summary=COMPLETED)
        await add(journal, young, succeeded(shared))
        await journal.remove_payloads(by="person:ann", why="it is old", ended_before=self.clock.now() + 1)
        kept = [await journal.payload(digest(f'="{text}"')) is not None for text in (shared, own)]
        equal(kept, [True, False])
        equal([one.event async for one in journal.read(young, after=1)], [succeeded(shared)])

    @rule
    async def test_what_lists_took_from_the_content_is_removed_with_it(self, journal: Journal) -> None:
        saga = await begin(journal, "old")
        closed = e.IncidentResolved(incident=1, by="ann", reason="by hand", settled=())
        await add(journal, saga, opened(), closed, summary=ROLLED_BACK)
        before = await journal.saga(saga)
        await journal.remove_payloads(by="person:ann", why="it is old", ended_before=self.clock.now() + 1)
        row = await journal.saga(saga)
        equal(row and row.labels, {})
        equal(
            row and (row.status, row.entries, row.actor), before and (before.status, before.entries + 1, before.actor)
        )
        page = await journal.incidents(PersonQuery(open_only=False))
        equal([(one.id, one.why) for one in page.rows], [("old/1", "")])

    @rule
    async def test_many_sagas_are_removed_in_one_go(self, journal: Journal) -> None:
        for number in range(250):
            await begin(journal, f"s{number}", summary=COMPLETED)
        equal(
            (
                await journal.remove_payloads(by="person:ann", why="it is old", ended_before=self.clock.now() + 1)
            ).entries,
            250,
        )

    @rule
    async def test_what_is_spared_keeps_its_content(self, journal: Journal) -> None:
        for name, labels in (("a", {"hold": "x"}), ("b", {"team": "red"}), ("c", {"team": "blue"}), ("d", {})):
            begun = e.SagaStarted(definition="d", version=1, input={}, actor="a", env="e", labels=labels)
            ended = e.SagaCompleted(result=None)
            summary = Summary(status=SagaStatus.COMPLETED)
            await journal.append(SagaId(name), [begun, ended], after=0, summary=summary)
        self.clock.advance(1)
        now, spared = self.clock.now(), Spared(frozenset({"d"}), frozenset({"hold", "team=red"}))
        equal(await journal.removable(ended_before=now, spared=spared), 1)
        equal(
            await journal.remove_payloads(by="person:ann", why="it is old", ended_before=now, spared=spared),
            Removal(1, 2),
        )
        page = await journal.sagas(SagaQuery())
        equal({row.id: row.pruned for row in page.rows}, {"a": False, "b": False, "c": True, "d": False})

    @rule
    async def test_a_child_is_spared_as_long_as_its_family_may_take_it_back(self, journal: Journal) -> None:
        completed, running = Summary(status=SagaStatus.COMPLETED), Summary(status=SagaStatus.RUNNING)
        for name, root, summary in (("p", "", running), ("p~1", "p", completed), ("p~1~1", "p", completed)):
            labels = {ROOT: root} if root else {}
            begun = e.SagaStarted(definition="d", version=1, input={}, actor="a", env="e", labels=labels)
            ended = [] if summary is running else [e.SagaCompleted(result=None)]
            await journal.append(SagaId(name), [begun, *ended], after=0, summary=summary)
        self.clock.advance(10)
        equal(await journal.removable(ended_before=self.clock.now()), 0)
        before = self.clock.now()
        await journal.append(SagaId("p"), [e.SagaCompleted(result=None)], after=1, summary=completed)
        self.clock.advance(1)
        equal(
            await journal.remove_payloads(by="person:ann", why="it is old", ended_before=before), Removal(0, 0)
        )  # it can still be cancelled
        now = self.clock.now()
        equal(await journal.removable(ended_before=now, spared=Spared(frozenset({"p"}))), 0)
        equal((await journal.remove_payloads(by="person:ann", why="it is old", ended_before=now)).sagas, 3)

    @rule
    async def test_a_child_is_spared_as_long_as_anybody_above_it_may_take_it_back(self, journal: Journal) -> None:
        completed, halted = Summary(status=SagaStatus.COMPLETED), Summary(status=SagaStatus.INCIDENT)
        above = {"p": "", "p~1": "p", "p~1~1": "p~1", "p~1~1~1": "p~1~1"}
        for name, parent in above.items():
            labels = {PARENT: parent, ROOT: "p"} if parent else {}
            begun = e.SagaStarted(definition="d", version=1, input={}, actor="a", env="e", labels=labels)
            stopped = name == "p~1"
            ended: list[e.Event] = [e.SagaHalted()] if stopped else [e.SagaCompleted(result=None)]
            await journal.append(SagaId(name), [begun, *ended], after=0, summary=halted if stopped else completed)
        self.clock.advance(10)
        now = self.clock.now()
        equal(await journal.removable(ended_before=now), 0)  # a family goes whole
        equal((await journal.remove_payloads(by="person:ann", why="it is old", ended_before=now)).sagas, 0)
        resumed: list[e.Event] = [e.WorkResumed(by="a"), e.SagaCompleted(result=None)]
        await journal.append(SagaId("p~1"), resumed, after=2, summary=completed)
        self.clock.advance(1)
        equal((await journal.remove_payloads(by="person:ann", why="it is old", ended_before=self.clock.now())).sagas, 4)

    @rule
    async def test_a_family_goes_as_one_or_not_at_all(self, journal: Journal) -> None:
        completed = Summary(status=SagaStatus.COMPLETED)
        kin = {"a": "", "p": "", "p~1": "p", "b": "", "p~2": "p", "q": "", "q~1": "q"}
        for name, root in kin.items():
            labels = {PARENT: root, ROOT: root} if root else {}
            labels |= {"kept": "yes"} if name == "q~1" else {}
            begun = e.SagaStarted(definition="d", version=1, input={}, actor="a", env="e", labels=labels)
            await journal.append(SagaId(name), [begun, e.SagaCompleted(result=None)], after=0, summary=completed)
        self.clock.advance(1)
        now, spared = self.clock.now(), Spared(frozenset(), frozenset({"kept"}))
        equal(await journal.removable(ended_before=now, spared=Spared(frozenset({"p~2"}), spared.labels)), 2)
        equal(await journal.next_removable(ended_before=now, spared=spared, limit=9), ("a", "p", "p~1", "p~2", "b"))
        equal(await journal.next_removable(ended_before=now, spared=spared, limit=3), ("a",))
        done = [
            (
                await journal.remove_payloads(
                    by="person:ann", why="it is old", ended_before=now, spared=spared, limit=2
                )
            ).sagas
            for _ in range(4)
        ]
        equal(done, [1, 3, 1, 0])  # the second is a family, and larger than the limit
        page = await journal.sagas(SagaQuery())
        equal({row.id for row in page.rows if not row.pruned}, {"q", "q~1"})

    @rule
    async def test_no_more_is_removed_at_once_than_is_asked_for(self, journal: Journal) -> None:
        for number in range(5):
            completed = Summary(status=SagaStatus.COMPLETED)
            await add(journal, SagaId(f"s{number}"), started(), e.SagaCompleted(result=None), summary=completed)
        self.clock.advance(1)
        now = self.clock.now()
        done = [
            (await journal.remove_payloads(by="person:ann", why="it is old", ended_before=now, limit=2)).sagas
            for _ in range(4)
        ]
        equal(done, [2, 2, 1, 0])

    @rule
    async def test_which_sagas_go_next_is_said_and_only_those_that_are_meant_go(self, journal: Journal) -> None:
        for number in range(4):
            completed = Summary(status=SagaStatus.COMPLETED)
            await add(journal, SagaId(f"s{number}"), started(), e.SagaCompleted(result=None), summary=completed)
        self.clock.advance(1)
        now, spared = self.clock.now(), Spared(frozenset({"s1"}))
        equal(await journal.next_removable(ended_before=now, spared=spared, limit=2), ("s0", "s2"))
        done = await journal.remove_payloads(
            by="person:ann", why="it is old", ended_before=now, spared=spared, sagas={SagaId("s1"), SagaId("s2")}
        )
        equal(done, Removal(1, 2))
        equal(await journal.next_removable(ended_before=now, limit=9), ("s0", "s1", "s3"))
