"""The world outside of all processes: providers, and a network that loses, delays and doubles what is sent to them.

There are two kinds of provider. A keyed one knows a key again, and keeps a tombstone for what was taken back: whatever
arrives for it later changes nothing. A plain one does what it is asked to do each time; what it is asked arrives at
once or not at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import Final

from amends.dataclass import dataclass
from amends.drill.world import World
from amends.errors import Fatal, NotDone
from amends.runtime.declare.action import Asked, Done, Happened, NotHappened
from amends.testing.simulation.loop import Dice

TIMEOUT_S: Final = 10.0
_LONGEST_S: Final = 400.0
Nap = Callable[[float, float], Awaitable[None]]
Later = Callable[[float, Callable[[], None]], object]


class Fate(Enum):
    """The fate of one call."""

    REFUSED = auto()
    """The provider says no, and nothing has happened."""
    FATAL = auto()
    REQUEST_LOST = auto()
    ANSWER_LOST = auto()
    SLOW = auto()
    """It happens, and the answer comes when nobody waits for it any more."""
    DELAYED = auto()
    """It is sent when nobody waits for it any more, if who sends it is still there."""
    LATE = auto()
    """It happens when nobody waits for it any more, and whatever has become of who asked."""
    DOUBLED = auto()
    """It happens, and once more some time later."""


_PERCENT: Final = {
    Fate.REFUSED: 4,
    Fate.FATAL: 2,
    Fate.REQUEST_LOST: 5,
    Fate.ANSWER_LOST: 5,
    Fate.SLOW: 4,
    Fate.DELAYED: 3,
    Fate.LATE: 4,
    Fate.DOUBLED: 4,
}
_ONLY_KEYED: Final = frozenset({Fate.LATE, Fate.DOUBLED})


@dataclass(frozen=True, slots=True)
class Flaws:
    """Faults planted in providers, to see that they show."""

    forgets_keys: bool = False
    keeps_no_tombstones: bool = False


class Providers:
    """All of them. Once `is_well` nothing is lost or late any more."""

    def __init__(self, dice: Dice, later: Later, flaws: Flaws) -> None:
        self.world = World()
        self.is_well = False
        self.fates: list[Fate] = []
        """What has become of calls so far, where it was anything but what was asked for."""
        self.tell: Callable[[str], None] = _unheard
        self._dice = dice
        self._later = later
        self._flaws = flaws
        self._buried: set[str] = set()
        self._seen: set[str] = set()
        self._on_their_way: Counter[str] = Counter()

    # -- actions and compensations ------------------------------------------------------------------------------------

    async def do(
        self, topic: str, own_key: str, nap: Nap, *, keyed: bool, landed: Callable[[], None] | None = None
    ) -> None:
        """`landed` is called when it takes effect."""

        def land() -> None:
            is_buried = own_key in self._buried and not self._flaws.keeps_no_tombstones
            if not keyed or not (is_buried or self._knows(own_key)):
                self.tell(f"{topic} takes effect")
                self.world.effect(topic, key=own_key, honours_keys=False)
                if landed is not None:
                    landed()

        await self._called(topic, own_key, land, nap, keyed=keyed)

    async def undo(self, topic: str, done: Done, nap: Nap, *, keyed: bool) -> None:
        def land() -> None:
            self._buried.add(done.action_key)
            if not keyed or not self._knows(done.key):
                self.tell(f"{topic} is taken back")
                self.world.undo(topic, key=done.key, of=done.action_key, honours_keys=False)

        await self._called(topic, done.key, land, nap, keyed=keyed)

    def _knows(self, own_key: str) -> bool:
        """Whether this key has been here before; it has now."""
        if own_key in self._seen and not self._flaws.forgets_keys:
            return True
        self._seen.add(own_key)
        return False

    async def _called(self, topic: str, own_key: str, land: Callable[[], None], nap: Nap, *, keyed: bool) -> None:
        await nap(0.001, 0.2)
        fate = self._fate(keyed=keyed)
        if fate is not None:
            self.fates.append(fate)
            self.tell(f"{topic}: a call is {fate.name.lower().replace('_', ' ')}")
        match fate:
            case Fate.REFUSED:
                raise NotDone(f"{topic}: not now")
            case Fate.FATAL:
                raise Fatal(f"{topic}: never")
            case Fate.REQUEST_LOST:
                raise ConnectionError(f"{topic}: the line went dead")
            case Fate.DELAYED:
                await nap(TIMEOUT_S * 1.1, TIMEOUT_S * 3)
                land()
            case Fate.LATE:
                self._send(own_key, land, self._dice.between(TIMEOUT_S, _LONGEST_S))
                await nap(TIMEOUT_S * 2, TIMEOUT_S * 3)
                raise ConnectionError(f"{topic}: no answer")
            case _:
                land()
        if fate is Fate.DOUBLED:
            self._send(own_key, land, self._dice.between(0, _LONGEST_S))
        if fate is Fate.ANSWER_LOST:
            raise ConnectionError(f"{topic}: the line went dead")
        await (nap(TIMEOUT_S * 2, TIMEOUT_S * 3) if fate is Fate.SLOW else nap(0.001, 0.2))

    async def look(self, topic: str, nap: Nap) -> None:
        """A question that changes nothing, and may get no answer: as often lost as answered, until all is well."""
        await nap(0.001, 0.2)
        if not self.is_well and self._dice.chance(50):
            self.tell(f"{topic}: a look is lost")
            if self._dice.chance(50):
                raise ConnectionError(f"{topic}: the line went dead")
            await nap(TIMEOUT_S * 2, TIMEOUT_S * 3)

    def _fate(self, *, keyed: bool) -> Fate | None:
        throw = 100 if self.is_well else self._dice.below(100)
        for fate, percent in _PERCENT.items():
            throw -= percent
            if throw < 0:
                return fate if keyed or fate not in _ONLY_KEYED else None
        return None

    def _send(self, own_key: str, land: Callable[[], None], after_s: float) -> None:
        """It is on its way, whatever becomes of who sent it."""
        self._on_their_way[own_key] += 1

        def arrive() -> None:
            self._on_their_way[own_key] -= 1
            land()

        self._later(after_s, arrive)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is on its way."""
        return not any(self._on_their_way.values())

    # -- probes -------------------------------------------------------------------------------------------------------

    async def ask(self, asked: Asked, nap: Nap) -> Happened | NotHappened:
        """Answer what a probe can honestly say: as long as something is on its way, nothing."""
        await nap(0.001, 0.2)
        if not self.is_well and self._dice.chance(10):
            raise ConnectionError("nobody answers")
        if self._on_their_way[asked.key]:
            raise ConnectionError("it may yet arrive")
        return Happened("probed") if self.world.stands(asked.key) else NotHappened()


def _unheard(what: str) -> None:
    """Nobody listens."""
