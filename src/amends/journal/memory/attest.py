"""The log of a journal in memory: its order, its tree, its checkpoints; cursors, rates and retention."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import replace

from amends.clock import Clock
from amends.core import events as e
from amends.core.transitions import SagaStatus
from amends.core.words.values import CONTROL, DRILLS, PEOPLE, POLICIES, SagaId
from amends.core.words.verdict import Rate
from amends.errors import EvidenceError
from amends.journal.codec import Wire, encode, removed_digest, without_payload
from amends.journal.memory import lists
from amends.journal.memory.state import KeptEntry, KeptSaga, Memory
from amends.journal.port import rates, refusals
from amends.journal.port.entries import PARENT, ROOT
from amends.journal.port.evidence import (
    NOBODY,
    Inspection,
    Notary,
    Pace,
    Removal,
    Signer,
    Spared,
    Stored,
    TreeHead,
    Unnumbered,
    origin_of,
    whole_families,
)
from amends.journal.port.log import Cursor, Logged
from amends.journal.tree import Subtree, Tree, leaf, root_of


class MemoryLog:
    """The part of a handle that knows no single saga."""

    def __init__(
        self,
        clock: Clock,
        memory: Memory | None = None,
        *,
        notary: Notary | None = None,
        pace: Pace = Pace(),  # noqa: B008 - it never changes
        wait: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.memory = Memory() if memory is None else memory
        self._clock = clock
        self._notary = notary
        self._pace = pace
        self._wait = wait
        self._closed = False
        if notary is not None:
            self._adopt(notary)

    async def close(self) -> None:
        if not self._closed:
            self._sign(is_end=True)
        self._closed = True

    def _require_open(self) -> None:
        if self._closed:
            raise refusals.closed()

    # -- log -----------------------------------------------------------------------------------------------------------

    async def log(self, *, after: int = 0, names: Collection[str] | None = None) -> AsyncIterator[Logged]:
        self._require_open()
        order = self.memory.order
        while after < len(order):
            saga, number = order[after]
            after += 1
            entry = self.memory.verified(saga, number)
            if names is None or entry.name in names:
                yield Logged(after, entry)
                self._require_open()

    async def cursor(self, name: str) -> int:
        self._require_open()
        refusals.check_name(name, "a cursor")
        return self.memory.cursors.get(name, Cursor(name)).position

    async def cursors(self, under: str) -> tuple[Cursor, ...]:
        self._require_open()
        return tuple(sorted(one for one in self.memory.cursors.values() if one.name.startswith(under)))

    async def move_cursor(self, name: str, position: int, *, note: str = "", since: Cursor | None = None) -> bool:
        self._require_open()
        moved = Cursor(name, position, note)
        refusals.check_cursor(moved)
        with self.memory.lock:
            if since is not None and self.memory.cursors.get(name, Cursor(name)) != since:
                return False
            self.memory.cursors.pop(name, None)
            if moved != Cursor(name):
                self.memory.cursors[name] = moved
        return True

    # -- evidence ------------------------------------------------------------------------------------------------------

    async def stored(self, *, after: int = 0) -> AsyncIterator[Stored]:
        self._require_open()
        while after < len(self.memory.order):
            after += 1
            yield self.memory.stored(after)

    async def hashes(self, *, after: int = 0) -> AsyncIterator[bytes]:
        async for stored in self.stored(after=after):
            yield stored.hash

    async def payload(self, digest: str) -> str | None:
        self._require_open()
        return self.memory.blobs.get(digest)

    async def unnumbered(self) -> Unnumbered:
        self._require_open()
        return Unnumbered()

    async def tree(self) -> Tree:
        self._require_open()
        return self.memory.tree.copy()

    async def positions(self, saga: SagaId) -> tuple[int, ...]:
        self._require_open()
        return tuple([place for place, (owner, _) in enumerate(self.memory.order, 1) if owner == saga])

    async def subtrees(self, asked: Sequence[Subtree]) -> tuple[bytes, ...]:
        self._require_open()
        return tuple([root_of(self._leaves(one)) for one in asked])

    def _leaves(self, one: Subtree) -> list[bytes]:
        return [leaf(self.memory.stored(place).hash) for place in range(one.position, one.position + (1 << one.height))]

    async def tree_head(self) -> TreeHead | None:
        self._require_open()
        return self._newest

    async def tree_heads(self, *, after: int = 0) -> AsyncIterator[TreeHead]:
        self._require_open()
        for checkpoint in sorted(self.memory.checkpoints.values()):
            if checkpoint.size > after:
                yield checkpoint

    async def signers(self) -> tuple[Signer, ...]:
        self._require_open()
        return tuple(self.memory.signers)

    async def seal(self) -> TreeHead | None:
        self._require_open()
        with self.memory.lock:
            self._sign(is_end=True)
        return self._newest

    async def hand_over(self, heir: Notary) -> TreeHead:
        self._require_open()
        with self.memory.lock:
            tree, at = self.memory.tree, self._clock.now()
            key = self._key
            if key is None:
                note = heir.sign(self._begin(heir), tree.size, tree.root, at)
            elif self._notary is not None and not self._notary.holds(key):
                raise refusals.not_held(key)
            else:
                note, record = heir.succeed(self._notary, key, tree.size, tree.root, at)
                self.memory.signers.append(Signer(heir.public(origin_of(key)), at, record))
            self._notary = heir
            checkpoint = self.memory.checkpoints[tree.size] = TreeHead(tree.size, at, note)
        return checkpoint

    async def remove_payloads(
        self,
        *,
        by: str,
        why: str,
        own: bool = False,
        ended_before: int,
        spared: Spared = NOBODY,
        limit: int | None = None,
        sagas: Collection[SagaId] | None = None,
        signed: str = "",
    ) -> Removal:
        self._require_open()
        with self.memory.lock:
            every = self._over(ended_before, spared)
            meant = [one for one in every if sagas is None or one.id in sagas]
            over = whole_families(((one, _family(one)) for one in meant), limit)
            before = ended_before if signed else 0
            fact = e.ContentRemoved(entries=0, by=by, why=why, own=own, before=before, signed=signed)
            found = Removal(len(over), sum(self._remove(one, fact) for one in over))
            self._sign(is_end=bool(over))
        return found

    async def vouch_for_removals(self, *, by: str, why: str, signed: str = "") -> Removal:
        self._require_open()
        with self.memory.lock:
            marked = [record for record in self.memory.sagas.values() if record.removed]
            gone = [one for one in marked if all(removed_digest(kept.wire.body) is not None for kept in one.entries)]
            entries = sum(len(one.entries) for one in gone)
            for one in gone:
                fact = e.ContentRemoved(entries=len(one.entries), by=by, why=why, was_gone=True, signed=signed)
                self._put_on_record(one, fact)
            self._sign(is_end=bool(gone))
        return Removal(len(gone), entries)

    async def removable(self, *, ended_before: int, spared: Spared = NOBODY) -> int:
        self._require_open()
        with self.memory.lock:
            return len(self._over(ended_before, spared))

    async def next_removable(self, *, ended_before: int, spared: Spared = NOBODY, limit: int) -> tuple[SagaId, ...]:
        self._require_open()
        with self.memory.lock:
            over = self._over(ended_before, spared)
            return tuple(whole_families(((record.id, _family(record)) for record in over), limit))

    async def inspect(self, *, within_s: float | None = None) -> Inspection:
        self._require_open()
        return Inspection()

    # -- rates ---------------------------------------------------------------------------------------------------------

    async def admit(self, *asked: Rate) -> tuple[int, ...]:
        self._require_open()
        spans, now = [rates.span_of(rate) for rate in asked], self._clock.now()
        waits: list[int] = []
        with self.memory.lock:
            for rate, span in zip(asked, spans, strict=True):
                uses = [min(at, now) for at in self.memory.uses.get(rate.key, ()) if at > now - span]
                waits.append(rates.wait_ms(uses, rate.most, span, now))
                self.memory.uses[rate.key] = uses
            for rate in () if any(waits) else asked:
                self.memory.uses[rate.key] = [*self.memory.uses[rate.key], now]
        return tuple(waits)

    # -- its own -------------------------------------------------------------------------------------------------------

    @property
    def _newest(self) -> TreeHead | None:
        found = self.memory.checkpoints
        return found[max(found)] if found else None

    @property
    def _key(self) -> str | None:
        return self.memory.signers[-1].key if self.memory.signers else None

    def _adopt(self, notary: Notary) -> None:
        key = self._key
        if key is None:
            self._begin(notary)
        elif not notary.holds(key):
            raise refusals.not_held(key)

    def _begin(self, notary: Notary) -> str:
        key = notary.public(f"amends/{self._clock.new_id()}")
        self.memory.signers.append(Signer(key, self._clock.now(), ""))
        return key

    def _sign(self, *, is_end: bool) -> None:
        """Sign what has come since the last checkpoint, if it is time."""
        tree, newest, key = self.memory.tree, self._newest, self._key
        signed, since = (newest.size, newest.at) if newest else (0, self.memory.signers[0].at if key else 0)
        if self._notary is None or key is None or tree.size == signed:
            return
        at = self._clock.now()
        if not is_end and not self._pace.is_due(tree.size - signed, at - since):
            return
        try:
            if self._notary.holds(key):
                note = self._notary.sign(key, tree.size, tree.root, at)
                self.memory.checkpoints[tree.size] = TreeHead(tree.size, at, note)
        except EvidenceError:
            return  # the next one will try

    def _over(self, ended_before: int, spared: Spared) -> list[KeptSaga]:
        every = self.memory.sagas.values()
        over = [record for record in every if self._is_over(record, ended_before)]
        free = [record for record in over if not spared.spares(record.id, record.begun.labels)]
        going = {record.id for record in free}
        kept = {_family(record) for record in every if record.id not in going and not record.removed}
        alone = [record for record in free if _family(record) not in kept]
        return [record for record in alone if self._nobody_above_needs(record, ended_before, spared)]

    def _nobody_above_needs(self, record: KeptSaga, ended_before: int, spared: Spared) -> bool:
        """Whether nobody can have a child taken back any more: all above it would be removed too, or are."""
        labels = record.begun.labels
        above, seen = [labels.get(PARENT), labels.get(ROOT)], set[str]()
        while above:
            name = above.pop()
            kin = None if name is None or name in seen else self.memory.sagas.get(SagaId(name))
            if kin is None or kin.removed:
                continue
            if not self._is_over(kin, ended_before) or spared.spares(kin.id, kin.begun.labels):
                return False
            seen.add(kin.id)
            above.append(kin.begun.labels.get(PARENT))
        return True

    def _is_over(self, record: KeptSaga, ended_before: int) -> bool:
        row = lists.row(self.memory, record)
        has_ended = row.ended_at is not None and row.ended_at < ended_before
        holds_on = row.definition in {POLICIES, CONTROL, PEOPLE}
        counts = row.definition == DRILLS and row.status is SagaStatus.COMPLETED
        is_needed = row.open_incidents or row.open_approvals or holds_on or counts
        return has_ended and not is_needed and not record.removed

    def _remove(self, record: KeptSaga, fact: e.ContentRemoved) -> int:
        count = 0
        for place, kept in enumerate(record.entries):
            body = without_payload(kept.wire.name, kept.wire.body)
            count += body != kept.wire.body
            record.entries[place] = KeptEntry(kept.at, Wire(kept.wire.name, body, {}), kept.hash)
        self.memory.drop_blobs(record)
        for name, (place, row) in self.memory.incidents.items():
            if row.saga == record.id:
                self.memory.incidents[name] = (place, replace(row, why=""))
        record.removed, record.begun = True, replace(record.begun, labels={}, input=None)
        self._put_on_record(record, replace(fact, entries=len(record.entries)))
        return count

    def _put_on_record(self, record: KeptSaga, removed: e.ContentRemoved) -> None:
        self.memory.add(record, removed, encode(removed), self._clock.now())


def _family(record: KeptSaga) -> str:
    """The saga at the top of those that called each other: its own id, for one that nobody called."""
    labels = record.begun.labels
    return labels.get(ROOT) or labels.get(PARENT) or record.id
