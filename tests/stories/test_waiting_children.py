"""From outside: work that ends beside a child that waits is parked and told, and goes on when the child has ended."""

import asyncio
from pathlib import Path

import pytest

from amends import Complete, Coordinator, SagaDefinition, Settings, Work, saga


@saga("story.kid")
async def kid(s: Work) -> str:
    return str(await s.wait_for("go"))


@saga("story.complete")
async def complete(s: Work) -> str:
    async def enough() -> None:
        await s.sleep(0.1)
        raise Complete("r")

    await asyncio.gather(s.call(kid), enough())
    return ""


@saga("story.timeout")
async def timeout(s: Work) -> str:
    try:
        async with asyncio.timeout(0.1):
            return str(await s.call(kid))
    except TimeoutError:
        return "r"


@pytest.mark.parametrize("top", [complete, timeout], ids=lambda top: top.name)
def test_a_saga_that_ended_its_work_beside_a_waiting_child_waits_and_completes_when_the_child_has_ended(
    tmp_path: Path, top: SagaDefinition
) -> None:
    journal = str(tmp_path / "amends.db")

    async def first() -> str:
        async with Coordinator.open(journal) as on, asyncio.timeout(15):
            handle = await on.start(top, id="x")
            return str((await handle.halt()).status)

    async def second() -> tuple[list[str], str, object]:
        async with Coordinator.open(journal, settings=Settings(poll_s=0.05, park_s=0.1)) as on, asyncio.timeout(15):
            on.registry.add_definition(kid)
            resumed = [str(one.status) for one in await on.resume()]
            (child,) = [row.id async for row in on.list(parent="x")]
            await on.signal(child, "go", payload=1)
            ended = await (await on.start(top, id="x"))
            return resumed, str(ended.status), ended.result

    assert asyncio.run(first()) == "waiting"
    resumed, status, result = asyncio.run(second())
    assert set(resumed) <= {"waiting"}
    assert (status, result) == ("completed", "r")
