"""A crowd at a few counters: everybody gets a turn, one at a time, and nothing is held when all have gone."""

from __future__ import annotations

import asyncio
import collections
from pathlib import Path

from amends import Coordinator, Done, Fatal, Registry, Settings, Work, register, saga
from tests.parts import rest

SAGAS, COUNTERS = 1000, 10
SETTINGS = Settings(lock_wait_s=600.0)


@rest
def test_a_thousand_sagas_contending_for_ten_resources_all_end(tmp_path: Path) -> None:
    at: dict[int, str] = {}
    served: list[str] = []

    async def serve(counter: int, who: str) -> None:
        assert at.setdefault(counter, who) == who, f"{who} is served beside {at[counter]}"
        await asyncio.sleep(0)
        served.append(who)

    async def send_away(done: Done) -> None:
        at.pop(done.args["counter"])

    step = register("counter.serve", serve, compensation=send_away, idempotent=True, resources=["counter:{counter}"])

    @saga("counter.visit")
    async def visit(s: Work, n: int) -> None:
        await s.do(step, n % COUNTERS, f"visitor {n}")
        if n % 7 == 0:
            raise Fatal("forgot the papers")
        at.pop(n % COUNTERS)

    async def whole() -> tuple[dict[str, int], int]:
        async with Coordinator.open(str(tmp_path / "j.db"), settings=SETTINGS, registry=Registry()) as on:
            handles = [await on.start(visit, n) for n in range(SAGAS)]
            statuses = collections.Counter([(await handle).status.value for handle in handles])
            return dict(statuses), len(await on.locks())

    statuses, left = asyncio.run(whole())
    back = len(range(0, SAGAS, 7))
    assert statuses == {"completed": SAGAS - back, "rolled_back": back}
    assert (len(served), left) == (SAGAS, 0)
