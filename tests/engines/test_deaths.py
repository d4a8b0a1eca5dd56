"""Every story with a worker or the engine killed at random moments: nothing is lost, and nothing happens twice.

At each moment all stories are under way. `make test-engines` tries a few; with AMENDS_SOAK=1 it is fifty of each kind.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from amends.errors import RefusedError
from tests.engines.programs import EngineName, asks, fills, goes_back, listens, naps
from tests.engines.servers import RestateServer, ServerProcess, free_ports
from tests.engines.stage import Stage, staged

SOAK: Final = bool(os.environ.get("AMENDS_SOAK"))
MOMENTS: Final = 10 if SOAK else 3
"""How many in one test, on one stage."""
TURNS: Final = 5 if SOAK else 1
LONGEST_S: Final = 1.0
"""By then most stories are over, where nobody kills anything; the one that naps as long is not."""

KINDS: Final = (
    ("restate", "worker"),
    ("restate", "engine"),
    ("restate", "one of three"),
    ("temporal", "worker"),
    ("temporal", "engine"),
)
STANDING: Final = {"fills": "abcdef", "back": "", "naps": "ab", "asks": "abc", "listens": "ab"}


@pytest.mark.parametrize("turn", range(TURNS))
@pytest.mark.parametrize(("engine", "victim"), KINDS, ids=[" ".join(kind) for kind in KINDS])
def test_all_stories_end_well_whatever_is_killed(
    engine: EngineName, victim: str, turn: int, postgresql: str, tmp_path: Path
) -> None:
    chance = random.Random(f"{engine} {victim} {turn}")

    async def all_moments() -> None:
        with ExitStack() as stack:
            servers = cluster(stack) if victim == "one of three" else None
            async with staged(engine, postgresql, tmp_path, workers=2, servers=servers) as stage:
                under_way = 0
                for moment in range(MOMENTS):
                    under_way += await one_moment(stage, victim, str(moment), chance)
                assert under_way >= MOMENTS, "what is killed has to be in the middle of something"

    asyncio.run(asyncio.wait_for(all_moments(), 800))


def cluster(stack: ExitStack) -> Sequence[ServerProcess]:
    """Three nodes of Restate, of which any two know everything."""
    ports = free_ports(3)
    nodes = [RestateServer(number=number, peers=ports) for number in (1, 2, 3)]
    for node in nodes:
        stack.callback(node.__exit__)
        node.start()
    for node in nodes:
        node.wait()
    return nodes


async def one_moment(stage: Stage, victim: str, moment: str, chance: random.Random) -> int:
    """Begin every story, kill, and see all of them end; how many were under way when it was killed."""
    after_s = chance.uniform(0, LONGEST_S)
    sagas = {story: f"{story}-{moment}" for story in STANDING}
    people = asyncio.ensure_future(answer(stage, sagas))
    begun = asyncio.gather(
        stage.start(fills, sagas["fills"]),
        stage.start(goes_back, sagas["back"]),
        stage.start(naps, sagas["naps"], LONGEST_S),
        stage.start(asks, sagas["asks"]),
        stage.start(listens, sagas["listens"]),
    )
    await asyncio.sleep(after_s)  # of some, the start itself is in the middle
    fallen = None if victim == "worker" else chance.choice(stage.servers)
    if fallen is None:
        stage.kill_worker(chance.randrange(2))
    else:
        await asyncio.to_thread(fallen.kill)
    standing = await stage.standing()
    if fallen is None:
        stage.add_worker()
    else:
        fallen.start()
        await asyncio.to_thread(fallen.wait)
    await begun
    for story, saga in sagas.items():
        await stage.until_is(saga, "rolled_back" if story == "back" else "completed")
    for story, steps in STANDING.items():
        stage.require(sagas[story], steps)
    people.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await people
    return sum(standing.get(saga) not in {"completed", "rolled_back"} for saga in sagas.values())


async def answer(stage: Stage, sagas: dict[str, str]) -> None:
    """Say yes as soon as somebody asks, and signal who listens; once each."""

    async def signal() -> None:
        await stage.until_idle(sagas["listens"])
        with contextlib.suppress(RefusedError):
            await stage.coordinator.signal(sagas["listens"], "answer", "yes")
        await stage.wake(sagas["listens"])

    await asyncio.gather(stage.grant(sagas["asks"]), signal())
