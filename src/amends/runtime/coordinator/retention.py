"""How long what sagas held is kept: pruning, and holds that stop it.

Whatever is removed leaves an entry in its saga that says who removed it and why, in the same transaction, and signed.

| who            | `forget`, a decision                       | `prune`, the rule of whoever runs the journal  |
|----------------|--------------------------------------------|------------------------------------------------|
| `person:`      | decides, but not about what they asked for | the same                                       |
| `system:`      | refused                                    | may, on record                                 |
| `agent:`       | refused                                    | refused                                        |
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from amends.clock import Clock
from amends.core import events as e
from amends.core.state.deciders import own_decision, require_person
from amends.core.words.values import CONTROL, PERSON, SagaId
from amends.dataclass import dataclass
from amends.errors import InputError, RefusedError, unknown_saga
from amends.evidence.proof.statement import EVERY_SAGA
from amends.journal.port.evidence import Removal, Spared
from amends.journal.port.journal import ROOT, Journal
from amends.runtime.declare.names import SYSTEM, checked_actor
from amends.runtime.drive.policies import Policies
from amends.runtime.drive.roster import Proof
from amends.runtime.engine.local import LocalEngine
from amends.source.marked import age_s

if TYPE_CHECKING:
    from amends.runtime.files.retention import Leftovers

_OPERATOR: Final = "system:"
HOLD: Final = "hold"
"""The label that keeps a saga from being pruned, whatever it says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """Result of a prune. `left` sagas are old enough too, and were left for the next one."""

    sagas: int
    entries: int
    left: int
    refused: int = 0
    """Sagas that were left alone because whoever asked for this had asked for them: another person decides."""
    families: int = 0
    """How many families there are among those that were removed: sagas that went together with all that they called."""


class Retention:
    """Where what is not needed any more is removed, and where that is stopped."""

    journal: Journal
    _clock: Clock
    _engine: LocalEngine

    async def prune(
        self,
        older_than: str | float | timedelta | datetime,
        *,
        keep: Iterable[str] = (),
        limit: int = 1_000,
        dry_run: bool = False,
        by: str = SYSTEM,
        why: str = "",
        proof: Proof | None = None,
    ) -> Pruned:
        """Remove what sagas held that ended longer ago than this: "90d", "12h", seconds or a timedelta; or before this
        time, a datetime with its zone.

        Never of one that is unfinished, has something open, or is held. keep: labels, as `name` or `name=value`, whose
        sagas are left alone. A saga and all that it called go as one, and stay as one where one of them has to. At most
        `limit` sagas for each call, or one family that is larger; dry_run only counts. It cannot be taken back, and
        each saga gets an entry that says who did it (`by`: a person, or the system) and why. `proof`, of a person: as
        for `grant`.
        """
        remover = Remover(by=_may_prune(checked_actor(by)), why=why.strip() or f"it ended {_since(older_than)}")
        if limit < 1:
            raise InputError(f"limit={limit}: prune at least one saga, or ask for a dry run")
        ended_before = _ended_before(older_than, self._clock.now())
        await self._engine.pauses.refresh()
        spared = spared_by(self._engine.pauses.holds, keep)
        if dry_run:
            found = await _next(self.journal, remover, ended_before, spared, limit)
            left = await self.journal.removable(ended_before=ended_before, spared=found.spared)
            return Pruned(sagas=0, entries=0, left=left, refused=len(found.refused))
        if self._engine.policies is not None:
            remover = await signed_by(self._engine.policies, remover, proof, before=ended_before)
        removed, found = await remove(self.journal, remover, ended_before=ended_before, spared=spared, limit=limit)
        left = await self.journal.removable(ended_before=ended_before, spared=found.spared)
        return Pruned(
            sagas=removed.sagas,
            entries=removed.entries,
            left=left,
            refused=len(found.refused),
            families=found.families,
        )

    async def retain(self, saga: str, *, why: str, by: str | None = None) -> None:
        """Keep what this saga held until the hold is lifted, however old it is. Raises UnknownSagaError."""
        who = checked_actor(by)
        if not why.strip():
            raise InputError("a hold needs a reason: say in why= who asks for it")
        await self._engine.put_on_record(SagaId(saga))
        row = await self.journal.saga(SagaId(saga))
        if row is None:
            raise unknown_saga(saga)
        if row.pruned:
            raise RefusedError(f"saga {saga} is pruned: what it held was removed, and cannot be kept any more")
        holds = self._engine.pauses.holds
        fact = e.HoldPlaced(saga=saga, by=who, why=why)
        await self._engine.pauses.keep(lambda: None if saga in holds else fact)

    async def lift(self, saga: str, *, why: str = "", by: str | None = None, proof: Proof | None = None) -> None:
        """End a hold. Raises RefusedError where there is none.

        `by` is a person who, outside development, has not asked for the saga themselves.
        """
        holds, who = self._engine.pauses.holds, checked_actor(by)
        begun = await self._engine.begun(SagaId(saga))
        env = None if begun is None else begun.taken_for or begun.env
        own = own_decision(begun, who, f"lift the hold on saga {saga}", env=env)
        fact = e.HoldLifted(saga=saga, by=who, why=why, own=own)
        policies = self._engine.policies
        if policies is not None and saga in holds:
            fact = replace(fact, signed=await policies.proved(SagaId(CONTROL), fact, proof))
        if not await self._engine.pauses.keep(lambda: fact if saga in holds else None):
            raise RefusedError(f"saga {saga} is not held; held are: {', '.join(holds) or 'none'}")

    async def retained(self) -> dict[str, str]:
        """The sagas that are held, and why. One with a label `hold` is kept too, and not listed here."""
        await self._engine.pauses.refresh()
        return dict(self._engine.pauses.holds)

    async def hold(self, saga: str, *, why: str, by: str | None = None) -> None:
        """Deprecated: `retain`, under the name that it had until 0.1."""
        warnings.warn(
            "coordinator.hold is coordinator.retain now; the old name goes with the next release",
            DeprecationWarning,
            stacklevel=2,
        )
        await self.retain(saga, why=why, by=by)

    async def holds(self) -> dict[str, str]:
        """Deprecated: `retained`, under the name that it had until 0.1."""
        warnings.warn(
            "coordinator.holds is coordinator.retained now; the old name goes with the next release",
            DeprecationWarning,
            stacklevel=2,
        )
        return await self.retained()


@dataclass(frozen=True, slots=True, kw_only=True)
class Remover:
    """The remover of what sagas held, and why, as it goes on record."""

    by: str
    why: str
    signed: str = ""


async def signed_by(
    policies: Policies, remover: Remover, proof: Proof | None, *, before: int = 0, was_gone: bool = False
) -> Remover:
    """The remover with a person's signature, where one is asked for or given. Raises ProofError."""
    if proof is None and not remover.by.startswith(PERSON):
        return remover
    fact = e.ContentRemoved(entries=0, by=remover.by, why=remover.why, before=before, was_gone=was_gone)
    return replace(remover, signed=await policies.proved(SagaId(EVERY_SAGA), fact, proof))


class Next(NamedTuple):
    """The next removal: what it has left on disk, those among it that whoever decides had asked for, and what stays."""

    leftovers: Leftovers
    own: frozenset[SagaId]
    refused: frozenset[SagaId]
    spared: Spared
    families: int = 0


def deciding_remover(by: str, why: str) -> Remover:
    """To forget is a person's decision, with a reason. Raises RefusedError, InputError."""
    require_person(by, "remove what sagas held")
    if not why.strip():
        raise InputError("removing what sagas held needs a reason: say in why who asks for it")
    return Remover(by=by, why=why.strip())


def _may_prune(by: str) -> str:
    if not by.startswith(_OPERATOR):
        require_person(by, "remove what sagas held")
    return by


async def remove(
    journal: Journal, remover: Remover, *, ended_before: int, spared: Spared, limit: int
) -> tuple[Removal, Next]:
    """Remove what sagas held, on disk first and then on record. The answer says too what was spared at last."""
    found = await _next(journal, remover, ended_before, spared, limit)
    await found.leftovers.remove()
    sagas, entries = 0, 0
    for own in (False, True):
        mine = found.leftovers.sagas & found.own if own else found.leftovers.sagas - found.own
        if not mine:
            continue
        removed = await journal.remove_payloads(
            by=remover.by,
            why=remover.why,
            own=own,
            ended_before=ended_before,
            spared=found.spared,
            sagas=mine,
            signed=remover.signed,
        )
        sagas, entries = sagas + removed.sagas, entries + removed.entries
    return Removal(sagas, entries), found


async def _next(journal: Journal, remover: Remover, ended_before: int, spared: Spared, limit: int) -> Next:
    """Next removal, and what is spared then: file work that waits for a person keeps its saga, as an approval does."""
    from amends.runtime.files.retention import Leftovers

    refused = frozenset[SagaId]()
    while True:
        sagas = await journal.next_removable(ended_before=ended_before, spared=spared, limit=limit)
        own, others = await _decided(journal, remover.by, sagas)
        found = Leftovers(journal, sagas)
        waiting = others | await found.look()
        refused |= others
        if not waiting:
            return Next(found, own, refused, spared, await _families(journal, sagas))
        spared = spared._replace(sagas=spared.sagas | waiting)


async def _families(journal: Journal, sagas: Iterable[SagaId]) -> int:
    """How many families there are among these sagas."""
    roots = Counter[str]()
    for saga in sagas:
        row = await journal.saga(saga)
        roots[saga if row is None else row.labels.get(ROOT, saga)] += 1
    return sum(count > 1 for count in roots.values())


async def _decided(journal: Journal, by: str, sagas: Iterable[SagaId]) -> tuple[frozenset[SagaId], frozenset[SagaId]]:
    """Of these sagas, those that a person asked for and may decide about, and those that another person has to."""
    own, others = set[SagaId](), set[SagaId]()
    for saga in sagas if by.startswith(PERSON) else ():
        try:
            begun = await _begun(journal, saga)
            env = None if begun is None else begun.taken_for or begun.env
            if own_decision(begun, by, f"remove what saga {saga} held", env=env):
                own.add(saga)
        except RefusedError:
            others.add(saga)
    return frozenset(own), frozenset(others)


async def _begun(journal: Journal, saga: SagaId) -> e.SagaStarted | None:
    async for entry in journal.read(saga):
        return entry.event if not entry.is_removed and isinstance(entry.event, e.SagaStarted) else None
    return None


def spared_by(holds: Iterable[str], keep: Iterable[str] = ()) -> Spared:
    """Sagas that stay: held ones, those with a label `hold`, and those with one of these labels."""
    if isinstance(keep, str):
        raise InputError(f"keep={keep!r}: give a list of labels, each `name` or `name=value`")
    return Spared(frozenset(holds), frozenset({HOLD, *keep}))


def _since(older_than: object) -> str:
    return f"before {older_than}" if isinstance(older_than, datetime) else f"more than {older_than} ago"


def _ended_before(older_than: str | float | timedelta | datetime, now: int) -> int:
    if not isinstance(older_than, datetime):
        return now - round(_seconds(older_than) * 1000)
    if older_than.tzinfo is None:
        raise InputError(f"{older_than} does not say in which zone; give it a tzinfo")
    return round(older_than.timestamp() * 1000)


def _seconds(age: str | float | timedelta) -> float:
    seconds = age_s(age) if isinstance(age, str) else age
    if isinstance(seconds, timedelta):
        seconds = seconds.total_seconds()
    if seconds is None or isinstance(seconds, bool) or not isinstance(cast("object", seconds), int | float):
        raise InputError(f"{age!r} is no age; write 90d, 12h, or a number of seconds")
    if not 0 <= seconds < float("inf"):
        raise InputError(f"{age!r} is no age: it has to be 0 or more")
    return float(seconds)
