"""The rules of documents: versions rise by one, no change is lost, what a saga holds nobody else changes."""

from __future__ import annotations

import asyncio

from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId, StepId
from amends.errors import DocumentConflictError, LeaseLostError
from amends.journal.port.documents import Document, DocumentWrite, resource_of
from amends.journal.port.entries import Summary
from amends.journal.port.journal import Journal
from amends.journal.port.locks import LockAsk, LocksTaken
from amends.testing.journal_suite.fixture import TTL_S, StoreFixture, begin, equal, held, refusal, rule
from amends.testing.journal_suite.samples import resumed

ENDED = Summary(status=SagaStatus.ROLLED_BACK)


def put(name: str, body: str | None, key: str, *, saga: str = "", expect: int | None = None) -> DocumentWrite:
    return DocumentWrite(name, body, key, SagaId(saga), "system:test", expect)


class DocumentsSuite(StoreFixture):
    async def holding(self, journal: Journal, name: str, *documents: str) -> SagaId:
        """A saga that holds these documents."""
        await journal.enlist("w", TTL_S)
        saga = await begin(journal, name, worker="w")
        resources = tuple(map(resource_of, documents))
        ask = LockAsk(saga, StepId("1"), saga, resources, self.clock.now(), 10)
        equal(await journal.lock(ask, held(saga, "w")), LocksTaken())
        return saga

    @rule
    async def test_a_document_has_versions_and_every_handle_sees_them(self, journal: Journal) -> None:
        other = await self.another()
        equal(await journal.document("a"), None)
        made = await journal.write(put("a", '{"n":1}', "k1", expect=0))
        equal((made.name, made.version, made.body, made.deleted, made.final), ("a", 1, {"n": 1}, False, True))
        await other.write(put("a", "[2]", "k2", expect=1))
        await journal.write(put("a", None, "k3"))
        found = await other.document("a")
        equal(None if found is None else (found.version, found.body, found.deleted), (3, None, True))
        every = (await journal.versions("a")).rows
        equal([(one.version, one.body) for one in every], [(1, {"n": 1}), (2, [2]), (3, None)])
        old = await journal.document("a", version=1)
        equal(None if old is None else old.body, {"n": 1})

    @rule
    async def test_a_write_that_expects_another_version_changes_nothing(self, journal: Journal) -> None:
        await refusal(journal.write(put("a", "1", "k0", expect=1)), DocumentConflictError)
        await journal.write(put("a", "1", "k1"))
        for wrong in (0, 2, 7):
            await refusal(journal.write(put("a", "2", f"w{wrong}", expect=wrong)), DocumentConflictError)
        other = await self.another()
        writes = (journal.write(put("a", "2", "k2", expect=1)), other.write(put("a", "3", "k3", expect=1)))
        answers = await asyncio.gather(*writes, return_exceptions=True)
        equal(sorted(type(one).__name__ for one in answers), ["Document", "DocumentConflictError"])
        equal(len((await journal.versions("a")).rows), 2)
        await journal.write(put("a", None, "k4"))
        await journal.write(put("a", "4", "k5", expect=0))

    @rule
    async def test_the_same_key_again_is_the_same_write(self, journal: Journal) -> None:
        first = await journal.write(put("a", "1", "k1", expect=0))
        await journal.write(put("a", "2", "k2"))
        again = await journal.write(put("a", "1", "k1", expect=0))
        equal((again.version, await journal.written("k1")), (first.version, first))
        equal(await journal.written("nothing"), None)
        equal(len((await journal.versions("a")).rows), 2)

    @rule
    async def test_what_a_saga_holds_only_it_changes_and_others_read_what_is_final(self, journal: Journal) -> None:
        await journal.write(put("a", "1", "k1"))
        saga = await self.holding(journal, "s", "a")
        await refusal(journal.write(put("a", "9", "k9")), DocumentConflictError)
        await refusal(journal.write(put("a", "9", "k9", saga="t")), DocumentConflictError)
        await journal.write(put("a", "2", "k2", saga=saga, expect=1))
        mine = await journal.document("a", reader=saga)
        equal(None if mine is None else (mine.version, mine.final), (2, False))
        theirs = await journal.document("a")
        equal(None if theirs is None else (theirs.version, theirs.body, theirs.final), (1, 1, True))
        await journal.append(saga, [resumed()], after=1, summary=ENDED, lease=held(saga, "w"))
        now = await journal.document("a")
        equal(None if now is None else (now.version, now.final, now.saga), (2, True, saga))
        await journal.write(put("a", "3", "k3", expect=2))

    @rule
    async def test_a_saga_takes_back_only_what_is_still_its_own(self, journal: Journal) -> None:
        saga = await self.holding(journal, "s", "a")
        for number in (1, 2):
            await journal.write(put("a", str(number), f"k{number}", saga=saga))
        own = put("a", "1", "u1", saga=saga)._replace(takes_back=2)
        equal((await journal.write(own)).version, 3)
        await journal.append(saga, [resumed()], after=1, summary=ENDED, lease=held(saga, "w"))
        await journal.write(put("a", "9", "k9"))
        await refusal(journal.write(own._replace(key="u2", takes_back=1)), DocumentConflictError)
        equal((await journal.write(own)).version, 3)

    async def family(self, journal: Journal) -> tuple[SagaId, SagaId, SagaId]:
        """A saga that holds the document, and two children of it that run side by side."""
        top = await self.holding(journal, "top", "a")
        kids = [await begin(journal, f"top-kid-{n}", worker="w", parent="top") for n in (1, 2)]
        return top, kids[0], kids[1]

    @rule
    async def test_a_family_changes_what_it_holds_one_after_the_other(self, journal: Journal) -> None:
        await journal.write(put("a", "0", "k0"))
        top, one, two = await self.family(journal)
        await journal.write(put("a", "1", "k1", saga=top))
        await journal.write(put("a", "2", "k2", saga=one))
        for reader, body in ((one, 2), (two, 1), (None, 0), (SagaId("stranger"), 0)):
            found = await journal.document("a", reader=reader)
            equal(None if found is None else found.body, body)
        for beside in (two, top):
            await refusal(journal.write(put("a", "9", "k9", saga=beside)), DocumentConflictError)
        await journal.append(one, [resumed()], after=1, summary=ENDED, lease=held(one, "w"))
        await journal.write(put("a", "3", "k3", saga=two, expect=3))
        equal([row.final for row in (await journal.versions("a")).rows], [True, False, False, False])

    @rule
    async def test_who_began_later_goes_back_first_so_nobody_who_began_before_goes_on_from_it(
        self, journal: Journal
    ) -> None:
        _, one, two = await self.family(journal)
        await journal.write(put("a", "2", "k2", saga=two))
        await journal.append(two, [resumed()], after=1, summary=ENDED, lease=held(two, "w"))
        await refusal(journal.write(put("a", "1", "k1", saga=one)), DocumentConflictError)
        equal(await journal.document("a", reader=one), None)

    @rule
    async def test_whoever_takes_back_what_is_older_finds_its_own_again(self, journal: Journal) -> None:
        top, one, two = await self.family(journal)
        await journal.write(put("a", "1", "k1", saga=one))
        await journal.append(one, [resumed()], after=1, summary=ENDED, lease=held(one, "w"))
        await journal.write(put("a", "2", "k2", saga=two))
        undo = put("a", None, "u1", saga=one)._replace(takes_back=1)
        await refusal(journal.write(undo), DocumentConflictError)
        await journal.write(put("a", "1", "u2", saga=two)._replace(takes_back=2))
        equal((await journal.write(undo)).takes_back, 1)
        await refusal(journal.write(undo._replace(key="u3")), DocumentConflictError)
        await journal.append(two, [resumed()], after=1, summary=ENDED, lease=held(two, "w"))
        await journal.write(put("a", "5", "k5", saga=top))
        equal((await journal.write(put("a", None, "u5", saga=top)._replace(takes_back=5))).version, 6)

    @rule
    async def test_a_change_that_was_taken_back_is_in_nobody_s_way(self, journal: Journal) -> None:
        _, one, two = await self.family(journal)
        await journal.write(put("a", "1", "k1", saga=one))
        await journal.write(put("a", None, "u1", saga=one)._replace(takes_back=1))
        found = await journal.document("a", reader=two)
        equal(None if found is None else (found.version, found.deleted), (2, True))
        await journal.write(put("a", "2", "k2", saga=two, expect=2))
        await refusal(journal.write(put("a", "3", "k3", saga=one)), DocumentConflictError)
        undo = put("a", None, "u2", saga=two)._replace(takes_back=3)
        equal((await journal.write(undo)).version, 4)

    @rule
    async def test_a_driver_that_was_replaced_writes_nothing(self, journal: Journal) -> None:
        saga = await self.holding(journal, "s", "a")
        await journal.write(put("a", "1", "k1", saga=saga)._replace(epoch=1))
        await journal.retire("w")
        await journal.claim("x")
        await refusal(journal.write(put("a", "2", "k2", saga=saga)._replace(epoch=1)), LeaseLostError)
        await journal.write(put("a", "3", "k3", saga=saga)._replace(epoch=2))
        equal([one.body for one in (await journal.versions("a")).rows], [1, 3])

    @rule
    async def test_old_versions_go_but_never_what_a_saga_may_have_to_restore(self, journal: Journal) -> None:
        for number in range(5):
            await journal.write(put("a", str(number), f"k{number}")._replace(keep=3))
        equal([one.version for one in (await journal.versions("a")).rows], [3, 4, 5])
        saga = await self.holding(journal, "s", "a")
        for number in range(5):
            await journal.write(put("a", str(number), f"s{number}", saga=saga)._replace(keep=3))
        equal([one.version for one in (await journal.versions("a")).rows], [5, 6, 7, 8, 9, 10])

    @rule
    async def test_documents_are_listed_by_name_page_by_page(self, journal: Journal) -> None:
        for name in ("b/2", "a", "b/1", "b/3", "c"):
            await journal.write(put(name, "1", name))
        await journal.write(put("b/2", None, "gone"))
        saga = await self.holding(journal, "s", "b/4")
        await journal.write(put("b/4", "1", "new", saga=saga))
        names: list[str] = []
        cursor: str | None = None
        while True:
            page = await journal.documents("", after=cursor, limit=2)
            names += [one.name for one in page.rows]
            cursor = page.cursor
            if cursor is None:
                break
        equal(names, ["a", "b/1", "b/3", "c"])
        under: list[Document] = list((await journal.documents("b/")).rows)
        equal([one.name for one in under], ["b/1", "b/3"])
