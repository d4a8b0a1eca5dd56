"""What simulated sagas do: a definition that reads its steps from its input, and an action for each kind of promise."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from amends.runtime.action import Action, Asked, Done, Happened, NotHappened, key, register
from amends.runtime.definition import SagaDefinition
from amends.runtime.work import Work
from amends.testing.simulation.outside import TIMEOUT_S
from amends.testing.simulation.process import here

_ATTEMPTS: Final = 4


def _action(
    topic: str,
    *,
    probe: bool = False,
    in_a_thread: bool = False,
    **contract: Any,  # noqa: ANN401 - the contract's own
) -> Action[..., Any]:
    keyed = topic.startswith("sim.keyed")

    async def act(n: int) -> str:
        process = here()
        await process.ground.providers.do(topic, key(), process.nap, keyed=keyed)
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


ACTIONS: Final[tuple[Action[..., Any], ...]] = (
    _action("sim.keyed"),
    _action("sim.keyed_probed", probe=True),
    _action("sim.plain"),
    _action("sim.plain_probed", probe=True),
    _action("sim.keyed_thread", in_a_thread=True),
    _action("sim.plain_thread", in_a_thread=True),
)
PIVOT: Final = _action("sim.final", no_rollback="it is out", probe=True)


async def _work(s: Work, program: dict[str, Any]) -> None:
    groups: list[list[int]] = program["groups"]
    for number, group in enumerate(groups):
        steps = [s.do_named(ACTIONS[which], {"n": number * 10 + place}) for place, which in enumerate(group)]
        if len(steps) == 1:
            await steps[0]
        else:
            await asyncio.gather(*steps)
    if program["pivots"]:
        await s.do_named(PIVOT, {"n": 0})
    if program["fails"]:
        raise RuntimeError("it was not meant to be")


WORK: Final = SagaDefinition("sim.work", function=_work)
