"""The rules of documents: versions rise by one, no change is lost, what a saga holds nobody else changes."""

from __future__ import annotations

import asyncio

from amends.core.transitions import SagaStatus
from amends.core.values import SagaId, StepId
from amends.errors import DocumentConflictError, LeaseLostError
from amends.journal.filing import Document, DocumentWrite, resource_of
from amends.journal.locking import LockAsk, LocksTaken
from amends.journal.protocol import Journal, Summary
from amends.testing.journal_suite.ground import TTL_S, Ground, begin, equal, held, refusal, rule
from amends.testing.journal_suite.samples import resumed

ENDED = Summary(status=SagaStatus.ROLLED_BACK)


def put(name: str, body: str | None, key: str, *, saga: str = "", expect: int | None = None) -> DocumentWrite:
    return DocumentWrite(name, body, key, SagaId(saga), "system:test", expect)


class DocumentRules(Ground):
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
        own = put("a", "1", "u1", saga=saga)._replace(own=True)
        equal((await journal.write(own)).version, 3)
        await journal.append(saga, [resumed()], after=1, summary=ENDED, lease=held(saga, "w"))
        await journal.write(put("a", "9", "k9"))
        await refusal(journal.write(own._replace(key="u2")), DocumentConflictError)
        equal((await journal.write(own)).version, 3)

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
