"""All couriers of a coordinator, or of `amends notify`: checked, started, woken and closed together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from amends.clock import Clock
from amends.errors import AmendsError, InputError, JournalStoppedError
from amends.journal.port.journal import Entry, Journal
from amends.logs import logger
from amends.notify.target import Target
from amends.runtime.drive.drills import note_missed
from amends.runtime.drive.observers import Observer
from amends.runtime.drive.policies import Policies
from amends.runtime.settings import Settings

if TYPE_CHECKING:
    from amends.notify.courier import Courier, Told

_log = logger("amends.notices")
_LOOK_S: Final = 3600.0
"""How often it is looked whether a drill was missed: intervals are days."""


class Couriers:
    """Raises InputError or SecretUnavailableError for a target that cannot be told."""

    def __init__(
        self, journal: Journal, targets: Sequence[Target], clock: Clock, settings: Settings, *, told: Told | None = None
    ) -> None:
        self._drain_s = settings.drain_s
        self._journal, self._clock = journal, clock
        self._looked_at = float("-inf")
        self._couriers: tuple[Courier, ...] = ()
        if targets:  # else nothing is imported for them
            from amends.notify.courier import Courier

            _check(targets)
            poll_s = settings.poll_s
            self._couriers = tuple(
                Courier(journal, target, clock, poll_s=poll_s, told=told, look=self._look) for target in targets
            )

    def start(self, observe: Callable[[Observer], object] | None = None) -> None:
        """With `observe`, whoever is told of an entry that becomes durable here need not wait for the next look."""
        if observe is not None and self._couriers:
            observe(self._note)
        for courier in self._couriers:
            courier.start()

    def _note(self, entry: Entry) -> None:
        for courier in self._couriers:
            if entry.name in courier.names:
                courier.wake()

    async def _look(self) -> None:
        """Now and again, whether a drill was missed: nobody else would say so, for nothing happens."""
        if self._clock.elapsed() < self._looked_at + _LOOK_S:
            return
        self._looked_at = self._clock.elapsed()
        try:
            await self._note_missed()
        except JournalStoppedError:
            raise
        except AmendsError as exc:
            _log.warning("could not look for drills that were missed: %s", exc)

    async def _note_missed(self) -> int:
        """By the policy in force, wherever it was adopted; where it says nothing of drills, none is missed."""
        policies = Policies(self._journal, self._clock, 0.0)
        await policies.refresh()
        every_s = policies.policy.drill_every_s
        return 0 if every_s is None else await note_missed(self._journal, self._clock, every_s)

    async def once(self) -> bool:
        """Tell each target what is pending, with one try for each notice. Whether nothing is left."""
        if self._couriers:
            await self._look()
        return all(await asyncio.gather(*(courier.once() for courier in self._couriers)))

    async def close(self) -> None:
        """Tell what has come by now, once, as far as it takes no longer than `drain_s`."""
        await asyncio.gather(*(courier.close(self._drain_s) for courier in self._couriers))


def _check(targets: Sequence[Target]) -> None:
    names: set[str] = set()
    for target in targets:
        target.check()
        if target.name in names:
            raise InputError(f"two targets are called {target.name}; give one of them a name of its own")
        names.add(target.name)
