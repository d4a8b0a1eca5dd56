"""How long what sagas held is kept: pruning, and holds that stop it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Final, cast

from amends.clock import Clock
from amends.core import events as e
from amends.core.values import SagaId
from amends.dataclass import dataclass
from amends.errors import InputError, RefusedError, UnknownSagaError
from amends.journal.attested import Removal, Spared
from amends.journal.protocol import Journal
from amends.runtime.checked import SYSTEM, checked_actor
from amends.runtime.local import LocalEngine
from amends.source.duration import duration_s

if TYPE_CHECKING:
    from amends.runtime.files.retention import Leftovers

_NOTHING: Final = frozenset({"0s", "0m", "0h", "0d"})
HOLD: Final = "hold"
"""The label that keeps a saga from being pruned, whatever it says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What a prune has done. `left` sagas are old enough too, and were left for the next one."""

    sagas: int
    entries: int
    left: int


class Retention:
    """Where what is not needed any more is removed, and where that is stopped."""

    journal: Journal
    _clock: Clock
    _engine: LocalEngine

    async def prune(
        self,
        older_than: str | float | timedelta,
        *,
        keep: Iterable[str] = (),
        limit: int = 1_000,
        dry_run: bool = False,
    ) -> Pruned:
        """Remove what sagas held that ended longer ago than this: "90d", "12h", seconds or a timedelta.

        Never of one that is unfinished, has something open, or is held. keep: labels, as `name` or `name=value`, whose
        sagas are left alone. At most `limit` sagas for each call; dry_run only counts. It cannot be taken back.
        """
        if limit < 1:
            raise InputError(f"limit={limit}: prune at least one saga, or ask for a dry run")
        ended_before = self._clock.now() - round(_seconds(older_than) * 1000)
        await self._engine.pauses.refresh()
        spared = spared_by(self._engine.pauses.holds, keep)
        if dry_run:
            _, spared = await _leftovers(self.journal, ended_before, spared, limit)
            return Pruned(
                sagas=0, entries=0, left=await self.journal.removable(ended_before=ended_before, spared=spared)
            )
        removed, spared = await remove(self.journal, ended_before=ended_before, spared=spared, limit=limit)
        left = await self.journal.removable(ended_before=ended_before, spared=spared) if removed.sagas == limit else 0
        return Pruned(sagas=removed.sagas, entries=removed.entries, left=left)

    async def hold(self, saga: str, *, why: str, by: str = SYSTEM) -> None:
        """Keep what this saga held until the hold is lifted, however old it is. Raises UnknownSagaError."""
        who = checked_actor(by)
        if not why.strip():
            raise InputError("a hold needs a reason: say in why= who asks for it")
        await self._engine.put_on_record(SagaId(saga))
        row = await self.journal.saga(SagaId(saga))
        if row is None:
            raise UnknownSagaError(f"no saga has the id {saga}; `amends saga list` shows those that there are")
        if row.pruned:
            raise RefusedError(f"saga {saga} is pruned: what it held was removed, and cannot be kept any more")
        holds = self._engine.pauses.holds
        fact = e.HoldPlaced(saga=saga, by=who, why=why)
        await self._engine.pauses.keep(lambda: None if saga in holds else fact)

    async def lift(self, saga: str, *, why: str = "", by: str = SYSTEM) -> None:
        """End a hold. Raises RefusedError where there is none."""
        holds = self._engine.pauses.holds
        fact = e.HoldLifted(saga=saga, by=checked_actor(by), why=why)
        if not await self._engine.pauses.keep(lambda: fact if saga in holds else None):
            raise RefusedError(f"saga {saga} is not held; held are: {', '.join(holds) or 'none'}")

    async def holds(self) -> dict[str, str]:
        """The sagas that are held, and why. One with a label `hold` is kept too, and not listed here."""
        await self._engine.pauses.refresh()
        return dict(self._engine.pauses.holds)


async def remove(journal: Journal, *, ended_before: int, spared: Spared, limit: int) -> tuple[Removal, Spared]:
    """Remove what sagas held, on disk first and then on record. The answer says too what was spared at last."""
    leftovers, spared = await _leftovers(journal, ended_before, spared, limit)
    await leftovers.remove()
    removed = await journal.remove_payloads(
        ended_before=ended_before, spared=spared, limit=limit, sagas=leftovers.sagas
    )
    return removed, spared


async def _leftovers(journal: Journal, ended_before: int, spared: Spared, limit: int) -> tuple[Leftovers, Spared]:
    """What is next, and what is spared then: file work that waits for a person keeps its saga, as an approval does."""
    from amends.runtime.files.retention import Leftovers

    while True:
        sagas = await journal.next_removable(ended_before=ended_before, spared=spared, limit=limit)
        found = Leftovers(journal, sagas)
        waiting = await found.look()
        if not waiting:
            return found, spared
        spared = spared._replace(sagas=spared.sagas | waiting)


def spared_by(holds: Iterable[str], keep: Iterable[str] = ()) -> Spared:
    """What stays: held sagas, those with a label `hold`, and those with one of these labels."""
    if isinstance(keep, str):
        raise InputError(f"keep={keep!r}: give a list of labels, each `name` or `name=value`")
    return Spared(frozenset(holds), frozenset({HOLD, *keep}))


def _seconds(age: str | float | timedelta) -> float:
    if isinstance(age, str):
        seconds = 0.0 if age in _NOTHING else duration_s(age)
    else:
        seconds = age.total_seconds() if isinstance(age, timedelta) else age
    if seconds is None or isinstance(seconds, bool) or not isinstance(cast("object", seconds), int | float):
        raise InputError(f"{age!r} is no age; write 90d, 12h, or a number of seconds")
    if not 0 <= seconds < float("inf"):
        raise InputError(f"{age!r} is no age: it has to be 0 or more")
    return float(seconds)
