"""All couriers of a coordinator, or of `amends notify`: checked, started, woken and closed together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from amends.clock import Clock
from amends.errors import InputError
from amends.journal.protocol import Entry, Journal
from amends.runtime.notices.target import Target
from amends.runtime.observe import Observer
from amends.runtime.settings import Settings

if TYPE_CHECKING:
    from amends.runtime.notices.courier import Courier, Told


class Couriers:
    """Raises InputError or SecretUnavailableError for a target that cannot be told."""

    def __init__(
        self, journal: Journal, targets: Sequence[Target], clock: Clock, settings: Settings, *, told: Told | None = None
    ) -> None:
        self._drain_s = settings.drain_s
        self._couriers: tuple[Courier, ...] = ()
        if targets:  # else nothing is imported for them
            from amends.runtime.notices.courier import Courier

            _check(targets)
            poll_s = settings.poll_s
            self._couriers = tuple(Courier(journal, target, clock, poll_s=poll_s, told=told) for target in targets)

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

    async def once(self) -> bool:
        """Tell each target what is pending, with one try for each notice. Whether nothing is left."""
        return all(await asyncio.gather(*(courier.once() for courier in self._couriers)))

    async def close(self) -> None:
        """What has come by now is told, once, as far as it takes no longer than `drain_s`."""
        await asyncio.gather(*(courier.close(self._drain_s) for courier in self._couriers))


def _check(targets: Sequence[Target]) -> None:
    names: set[str] = set()
    for target in targets:
        target.check()
        if target.name in names:
            raise InputError(f"two targets are called {target.name}; give one of them a name of its own")
        names.add(target.name)
