"""Actions of simulated sagas: one for each kind of promise. What they make of them is in `language`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from amends.errors import Fatal
from amends.runtime.declare.action import Action, Asked, Done, Happened, NotHappened, key
from amends.runtime.declare.decorators import register
from amends.testing.simulation.outside import TIMEOUT_S
from amends.testing.simulation.process import here

_ATTEMPTS: Final = 4
_LOOKS: Final = 2
DESK: Final = "desk"
"""The resource that simulated sagas want for themselves."""


def _action(
    topic: str,
    *,
    probe: bool = False,
    in_a_thread: bool = False,
    **contract: Any,  # noqa: ANN401 - the contract's own
) -> Action[..., Any]:
    keyed = topic.startswith("sim.keyed")
    locks = "resources" in contract

    async def act(n: int, who: str = "") -> str:
        process = here()
        landed = _seen_at_the_desk(who) if locks else None
        await process.ground.providers.do(topic, key(), process.nap, keyed=keyed, landed=landed)
        return f"{topic} {n}"

    def act_in_a_thread(n: int) -> Coroutine[Any, Any, str]:
        return act(n)

    async def undo(done: Done) -> None:
        process = here()
        await process.ground.providers.undo(topic, done, process.nap, keyed=keyed)

    async def ask(asked: Asked) -> Happened | NotHappened:
        process = here()
        return await process.ground.providers.ask(asked, process.nap)

    return register(
        topic,
        act_in_a_thread if in_a_thread else act,
        compensation=None if "no_rollback" in contract else undo,
        probe=ask if probe else None,
        idempotent=keyed,
        timeout=TIMEOUT_S,
        retries=_ATTEMPTS,
        compensation_timeout=TIMEOUT_S,
        compensation_retries=_ATTEMPTS,
        **contract,
    )


def _seen_at_the_desk(who: str) -> Callable[[], None]:
    """Called when an effect lands for which the desk has to be one saga's own."""
    ground = here().ground

    def look() -> None:
        if (holder := ground.holder(DESK)) != who:
            ground.broken.append(f"saga {who} acts at the desk, which is {holder or 'nobody'}'s")

    return look


ACTIONS: Final[tuple[Action[..., Any], ...]] = (
    _action("sim.keyed"),
    _action("sim.keyed_probed", probe=True),
    _action("sim.plain"),
    _action("sim.plain_probed", probe=True),
    _action("sim.keyed_thread", in_a_thread=True),
    _action("sim.plain_thread", in_a_thread=True),
)
PIVOT: Final = _action("sim.final", no_rollback="it is out", probe=True)
HELD: Final = _action("sim.keyed_held", no_rollback="it is out", probe=True, hold=True)
LOCKED: Final = _action("sim.keyed_locked", resources=[DESK])
APPROVED: Final[tuple[Action[..., Any], ...]] = (
    _action("sim.keyed_approved"),
    _action("sim.final_approved", no_rollback="it is out", probe=True),
)
"""What people are asked about before it is done."""


async def _look(n: int) -> int:
    process = here()
    await process.ground.providers.look("sim.look", process.nap)
    return n


LOOK: Final = register("sim.look", _look, read_only=True, timeout=TIMEOUT_S, retries=_LOOKS)
"""Changes nothing; its answers are lost as often as others'."""


async def _refuse(fails: bool) -> None:  # noqa: FBT001 - an argument of an action has a name
    if fails:
        raise Fatal("it was not meant to be", happened=False)


LAST: Final = register("sim.last", _refuse, read_only=True)
"""The end of a graph, which fails where it is to."""
