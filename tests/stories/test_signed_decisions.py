"""Where decisions are signed: what follows from one, when a saga goes on, is proved with it, for every verifier."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from amends import Coordinator, Done, Fatal, Limit, Limits, Registry, SagaDefinition, Work, action, to_checkpoint
from amends.core.words.contracts import Topic
from amends.errors import RefusedError
from tests.security.proved import Shop, signer

Story = Callable[["Workshop", Coordinator], Awaitable[str]]
KIM = "person:kim"


class Workshop(Shop):
    """Sagas that do three steps, the last of them after a signal; a step is taken back at the second try alone.

    `held`: what holds that back, where a story sets it.
    """

    held: asyncio.Event | None = None

    def registry(self) -> Registry:
        @action("account.work", idempotent=True)
        async def work(number: int) -> int:
            self.world.append(f"did {number}")
            return number

        @work.compensation
        async def undo(done: Done) -> None:
            if self.held is not None:
                self.world.append("holds back")
                await self.held.wait()
            self.world.append(f"undid {done.args['number']}")
            if self.world.count(self.world[-1]) == 1:
                raise Fatal("not now")

        async def serve(s: Work) -> str:
            if await s.checkpoint("begun") is not None:
                return "less"
            await s.do(work, 1)
            await s.do(work, 2)
            await s.wait_for("go")
            await s.do(work, 3)
            return "done"

        child = SagaDefinition("shop.child", function=self.spend)

        async def call(s: Work) -> str:
            return await s.call(child)

        async def toil(s: Work, *, well: bool) -> None:
            await s.do(work, 1)
            if not well:
                raise Fatal("it broke")

        toiling = SagaDefinition("shop.toil", function=toil)

        async def have_toil(s: Work, *, well: bool) -> None:
            await s.call(toiling, well=well)
            await s.wait_for("go")

        registry = Registry()
        registry.add_action(work)
        registry.add_definition(toiling)
        registry.add_definition(SagaDefinition("shop.toils", function=have_toil))
        registry.add_definition(child)
        registry.add_definition(SagaDefinition("shop.parent", function=call))
        registry.add_definition(SagaDefinition("shop.work", function=serve))
        return registry

    async def spend(self, s: Work) -> str:
        await s.spend(tokens=10)
        await s.wait_for("go")
        return "spent"

    async def started(self, coordinator: Coordinator, limits: Limits | None = None) -> str:
        """How it stands when nothing more is due: it waits for the signal, or has been stopped before."""
        definition = coordinator.registry.definition("shop.work", 1)
        handle = await coordinator.start(definition, id="w-1", actor="agent:desk", limits=limits)
        return (await handle.halt()).status

    async def signalled(self, coordinator: Coordinator, *expected: str) -> str:
        await coordinator.signal("w-1", "go")
        return await until(coordinator, *expected)


async def until(coordinator: Coordinator, *expected: str) -> str:
    async with asyncio.timeout(30):
        while (status := (await coordinator.show("w-1")).status) not in expected:
            await asyncio.sleep(0.01)
    return status


async def unpaused_after_a_limit(shop: Workshop, coordinator: Coordinator) -> str:
    assert await shop.started(coordinator, Limits(steps=Limit(1, then="pause"))) == "paused"
    await coordinator.unpause(saga="w-1", by=KIM, proof=signer(shop.kim))
    await until(coordinator, "waiting")
    assert await shop.signalled(coordinator, "paused") == "paused"
    await coordinator.raise_limit("w-1", steps=9, why="enough", by=KIM, proof=signer(shop.kim))
    return await until(coordinator, "completed")


async def back_to_a_checkpoint_at_a_limit(shop: Workshop, coordinator: Coordinator) -> str:
    shop.world += ["undid 1"]  # it is taken back at the first try
    assert (
        await shop.started(coordinator, Limits(steps=Limit(1, then=to_checkpoint("begun", "do less")))) == "completed"
    )
    return await until(coordinator, "completed")


async def called_at_a_limit(shop: Workshop, coordinator: Coordinator) -> str:
    assert await shop.started(coordinator, Limits(steps=Limit(1, then="call"))) == "incident"
    await coordinator.retry_incident("w-1/1", by=KIM, proof=signer(shop.kim), wait=False)
    await until(coordinator, "waiting")
    assert await shop.signalled(coordinator, "incident") == "incident"
    await coordinator.raise_limit("w-1", steps=9, by=KIM, proof=signer(shop.kim), wait=False)
    return await until(coordinator, "completed")


async def paused_alone_and_with_all(shop: Workshop, coordinator: Coordinator) -> str:
    assert await shop.started(coordinator) == "waiting"
    await coordinator.pause(saga="w-1", why="a look", by=KIM)
    await coordinator.unpause(saga="w-1", by=KIM, proof=signer(shop.kim))
    await coordinator.pause(definition="shop.work", why="a look at all", by=KIM)
    assert await shop.signalled(coordinator, "paused") == "paused"
    await coordinator.unpause(definition="shop.work", by=KIM, proof=signer(shop.kim))
    return await until(coordinator, "completed")


async def stopped_with_its_parent(shop: Workshop, coordinator: Coordinator) -> str:
    limits = Limits(tokens=Limit(5, then="pause", stop_children=True))
    handle = await coordinator.start(
        coordinator.registry.definition("shop.parent", 1), id="w-1", actor="agent:desk", limits=limits
    )
    assert (await handle.halt()).status == "paused"
    (child,) = [row.id async for row in coordinator.list(parent="w-1")]
    async with asyncio.timeout(30):
        while (await coordinator.show(child)).status != "paused":
            await asyncio.sleep(0.01)
    await coordinator.raise_limit("w-1", tokens=50, by=KIM, proof=signer(shop.kim), wait=False)
    await coordinator.signal(child, "go", early=True)
    assert await until(coordinator, "completed") == "completed"
    assert await shop.verdicts(child) == ({"covered"}, [])
    return "completed"


async def left_alone_by_its_agent(shop: Workshop, coordinator: Coordinator) -> str:
    work = coordinator.registry.action(Topic("account.work"), 1)
    async with coordinator.session("agent", id="w-1", idle=0.05) as s:
        await s.do(work, 1)
        async with asyncio.timeout(30):
            while [one async for one in coordinator.incidents()] == []:
                await asyncio.sleep(0.01)
        await s.do(work, 2)
        assert [one async for one in coordinator.incidents()] == []
    return await until(coordinator, "completed")


async def taken_back_with_an_incident(shop: Workshop, coordinator: Coordinator) -> str:
    assert await shop.started(coordinator) == "waiting"
    await coordinator.pause(saga="w-1", why="a look", by=KIM)
    assert (await coordinator.cancel("w-1", why="not needed", by=KIM)).status == "incident"
    await coordinator.retry_incident("w-1/1", by=KIM, proof=signer(shop.kim), wait=False)
    await until(coordinator, "incident")
    await coordinator.retry_incident("w-1/2", by=KIM, proof=signer(shop.kim), wait=False)
    await until(coordinator, "rolled_back")
    return "completed"


async def seen_to_below(shop: Workshop, coordinator: Coordinator, *, mitigate: bool) -> str:
    """The incident of a child is not closed in Kim's name without her signature: she sees to it first."""
    ((below, _),) = [(one.id, one.saga) async for one in coordinator.incidents() if one.saga != "w-1"]
    child = below.partition("/")[0]

    async def heads() -> dict[str, int]:
        return {row.id: row.entries async for row in coordinator.list()}

    before = await heads()
    with pytest.raises(RefusedError, match=rf"1 incident \({below}\).*each signed, then ask again"):
        await coordinator.retry_incident("w-1/1", mitigate=mitigate, by=KIM, proof=signer(shop.kim))
    with pytest.raises(RefusedError, match=below):
        await coordinator.cancel("w-1", mitigate=True, by=KIM, proof=signer(shop.kim))
    assert await heads() == before
    assert (await coordinator.retry_incident(below, by=KIM, proof=signer(shop.kim))).status == "rolled_back"
    signed = list[str]()

    def sign(text: str) -> str:
        signed.append(text)
        return signer(shop.kim)(text)

    await coordinator.retry_incident("w-1/1", mitigate=mitigate, by=KIM, proof=sign)
    assert "\ndecision: retry\nincident: 1\n" in signed[0]
    assert ("\nmitigate: true\n" in signed[0]) is mitigate, "what they sign says that it goes back past its pivot"
    assert (await coordinator.show("w-1")).status == "rolled_back"
    assert await shop.verdicts(child) == ({"covered"}, [])
    return "completed"


async def mitigated_above_a_child_that_stopped(shop: Workshop, coordinator: Coordinator) -> str:
    handle = await coordinator.start(
        coordinator.registry.definition("shop.toils", 1), well=True, id="w-1", actor="agent:desk"
    )
    assert (await handle.halt()).status == "waiting"
    assert (await coordinator.cancel("w-1", why="not needed", by=KIM)).status == "incident"
    return await seen_to_below(shop, coordinator, mitigate=True)


async def mitigated_before_a_child_stopped(shop: Workshop, coordinator: Coordinator) -> str:
    handle = await coordinator.start(
        coordinator.registry.definition("shop.toils", 1), well=True, id="w-1", actor="agent:desk"
    )
    assert (await handle.halt()).status == "waiting"
    assert (await coordinator.cancel("w-1", mitigate=True, by=KIM)).status == "incident"
    return await seen_to_below(shop, coordinator, mitigate=False)


async def mitigated_while_a_child_goes_back(shop: Workshop, coordinator: Coordinator) -> str:
    shop.held = asyncio.Event()
    _ = await coordinator.start(
        coordinator.registry.definition("shop.toils", 1), well=False, id="w-1", actor="agent:desk"
    )
    async with asyncio.timeout(30):
        while "holds back" not in shop.world:
            await asyncio.sleep(0.01)
    await coordinator.cancel("w-1", mitigate=True, by=KIM, wait=False)
    await until(coordinator, "rolling_back")
    shop.held.set()
    await until(coordinator, "incident")
    return await seen_to_below(shop, coordinator, mitigate=False)


@pytest.mark.parametrize(
    "story",
    [
        unpaused_after_a_limit,
        back_to_a_checkpoint_at_a_limit,
        called_at_a_limit,
        paused_alone_and_with_all,
        stopped_with_its_parent,
        left_alone_by_its_agent,
        taken_back_with_an_incident,
        mitigated_above_a_child_that_stopped,
        mitigated_before_a_child_stopped,
        mitigated_while_a_child_goes_back,
    ],
)
def test_what_follows_from_a_signed_decision_is_proved_with_it(tmp_path: Path, story: Story) -> None:
    async def whole() -> None:
        shop = Workshop(tmp_path / "shop")
        async with shop.open(pins=False) as coordinator:
            shop.root = (await coordinator.enrol("kim", (shop.place / "kim.pub").read_text())).root
            await coordinator.adopt(shop.place / "policy.yaml", by=KIM, why="start", proof=signer(shop.kim))
        async with shop.open() as coordinator:
            assert await story(shop, coordinator) == "completed"
        for saga in ("w-1", None):
            assert await shop.verdicts(saga) == ({"covered"}, [])

    asyncio.run(asyncio.wait_for(whole(), 120))
