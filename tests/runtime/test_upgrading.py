"""New code on an old journal: what a saga began with is what it goes on with, or that one saga stops and says why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amends import Action, Done, Registry, SagaDefinition, SagaStatus, Settings, Work, action, saga
from amends.errors import RefusedError
from amends.journal.memory import Memory
from amends.runtime.coordinator.coordinator import Coordinator
from tests.runtime.support import QuickClock, World, coordinator
from tests.runtime.test_waiting import driven

SETTINGS = Settings(lease_s=1_000_000, settle_s=1, park_s=0.0, poll_s=0.005, drain_s=0.01)
CHANGED = "up.pay version 1 does not promise any more what this saga began with: "


class Release:
    """One version of somebody's code: its own registry, on a journal that outlives it."""

    def __init__(self, memory: Memory, clock: QuickClock, world: World) -> None:
        self._memory, self._clock, self._world = memory, clock, world
        self.registry = Registry()

    def act(self, name: str, *, version: int = 1, back: bool = True, **contract: Any) -> Action[..., Any]:
        """An action whose notes say by which version they were made."""
        world = self._world

        @action(f"up.{name}", version=version, **contract)
        async def do(n: int = 0) -> str:
            world.note(f"{name}/{version}")
            return f"{name}/{version}"

        async def undo(done: Done) -> None:
            world.note(f"un{name}/{version} of {done.result}")

        if back:
            do.compensation(undo)
        self.registry.add_action(do)
        return do

    def define(self, body: Callable[[Work], Any], *, name: str = "up.saga", version: int = 1) -> SagaDefinition:
        async def function(s: Work) -> Any:
            return await body(s)

        made = saga(name, version=version)(function)
        self.registry.add_definition(made)
        return made

    def open(self) -> Coordinator:
        return coordinator(self._memory, settings=SETTINGS, clock=self._clock, registry=self.registry)


class Ground:
    def __init__(self) -> None:
        self.world = World()
        self._memory, self._clock = Memory(), QuickClock()

    def release(self) -> Release:
        return Release(self._memory, self._clock, self.world)


def in_order(*actions: Action[..., Any]) -> Callable[[Work], Any]:
    """Do the first, wait, do the rest."""

    async def body(s: Work) -> None:
        await s.do(actions[0])
        await s.wait_for("go")
        for each in actions[1:]:
            await s.do(each)

    return body


async def begun(release: Release, definition: SagaDefinition, *ids: str) -> None:
    async with release.open() as process:
        for one in ids:
            assert (await (await process.start(definition, id=one)).halt()).status is SagaStatus.WAITING


async def stands(process: Coordinator, name: str) -> str:
    """Where a saga stands once it was signalled and driven; what its incident says, where it is one."""
    await process.signal(name, "go")
    await process.drive(name)
    row = (await process.show(name)).row
    why = [one.why for one in await process.incidents(saga=name)]
    return why[0] if why else str(row.status)


# -- versions of actions ---------------------------------------------------------------------------------------------


@driven
async def test_an_old_saga_is_taken_back_by_the_compensation_that_it_began_with() -> None:
    ground = Ground()
    old = ground.release()
    await begun(old, old.define(in_order(old.act("pay"))), "s")
    new = ground.release()
    new.act("pay", version=1)
    new.define(in_order(new.act("pay", version=2)))
    async with new.open() as process:
        assert (await process.cancel("s")).status is SagaStatus.ROLLED_BACK
    assert ground.world.seen == ["pay/1", "unpay/1 of pay/1"]


@driven
async def test_an_old_saga_goes_on_under_a_definition_that_uses_the_new_version() -> None:
    """What was done is answered from the journal; what comes next is done, and taken back, by the new version."""
    ground = Ground()
    old = ground.release()
    await begun(old, old.define(in_order(old.act("pay"), old.act("ship"))), "s")
    new = ground.release()
    new.act("pay", version=1)
    new.define(in_order(new.act("pay", version=2), new.act("ship", version=2)))
    async with new.open() as process:
        assert await stands(process, "s") == "completed"
        assert (await process.cancel("s")).status is SagaStatus.ROLLED_BACK
    assert ground.world.seen == ["pay/1", "ship/2", "unship/2 of ship/2", "unpay/1 of pay/1"]


@driven
async def test_a_version_that_is_gone_stops_its_saga_and_no_other() -> None:
    ground = Ground()
    old = ground.release()
    await begun(old, old.define(in_order(old.act("pay"), old.act("ship"))), "s")
    new = ground.release()
    other = new.define(in_order(new.act("ship")), name="up.other")
    new.define(in_order(new.act("pay", version=2), new.act("ship")))
    await begun(new, other, "o")
    async with new.open() as process:
        assert await stands(process, "s") == (
            "step 1 began with up.pay version 1, and only version 2 is at hand; "
            "keep the old version declared beside the new one"
        )
        assert await stands(process, "o") == "completed"
        assert [row.id for row in await process.list(status="incident")] == ["s"]
    assert "pay/2" not in ground.world.seen


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ({}, {"back": False}, "reversibility (how it is taken back) was compensatable and is undeclared"),
        ({}, {"back": False, "no_rollback": "never"}, "was compensatable and is irreversible"),
        ({"idempotent": True}, {}, "idempotent (whether it may be repeated) was yes and is no"),
        ({}, {"back": False, "read_only": True}, "side_effect (whether it changes anything) was yes and is no"),
    ],
)
def test_a_promise_that_was_changed_under_the_same_version_stops_the_saga(
    before: dict[str, Any], after: dict[str, Any], says: str
) -> None:
    @driven
    async def whole() -> None:
        ground = Ground()
        old = ground.release()
        await begun(old, old.define(in_order(old.act("pay", **before))), "s", "t")
        new = ground.release()
        new.define(in_order(new.act("pay", **after)))
        async with new.open() as process:
            told = await stands(process, "s")
            assert told.startswith(CHANGED)
            assert says in told
            assert told.endswith("declare the changed action with a new version=, and keep the old one beside it")
            ended = await process.cancel("t")
            assert (ended.status, says in ended.why) == (SagaStatus.INCIDENT, True)
        assert ground.world.seen == ["pay/1", "pay/1"]

    whole()


@driven
async def test_words_times_and_retries_may_change() -> None:
    ground = Ground()
    old = ground.release()
    await begun(old, old.define(in_order(old.act("pay"))), "s")
    new = ground.release()
    new.define(in_order(new.act("pay", timeout=7, retries=3, risk={"money"}, idempotent=True)))
    async with new.open() as process:
        assert await stands(process, "s") == "completed"


# -- definitions -----------------------------------------------------------------------------------------------------


@driven
async def test_a_mixture_of_sagas_is_resumed_and_each_stands_for_itself() -> None:
    ground = Ground()
    old = ground.release()
    pay, ship = old.act("pay"), old.act("ship")
    names = {"same": "up.same", "order": "up.order", "args": "up.args", "gone": "up.gone"}
    for saga_id, name in names.items():
        await begun(old, old.define(in_order(pay, ship), name=name), saga_id)
    new = ground.release()
    pay, ship = new.act("pay"), new.act("ship")
    new.define(in_order(pay, ship), name="up.same")
    new.define(in_order(ship, pay), name="up.order")

    async def other_arguments(s: Work) -> None:
        await s.do(pay, 7)
        await s.wait_for("go")

    new.define(other_arguments, name="up.args")
    async with ground.release().open() as desk:
        for saga_id in names:
            await desk.signal(saga_id, "go")
    async with new.open() as process:
        await process.resume()
        standing = {row.id: str(row.status) for row in [row async for row in process.list()]}
        whys = {str(one.saga): (one.kind, one.why) for one in await process.incidents()}
    assert standing == {"same": "completed", "order": "incident", "args": "incident", "gone": "running"}
    assert {kind for kind, _ in whys.values()} == {"diverged"}
    assert "step 1 was up.pay and is up.ship now; the definition has changed" in whys["order"][1]
    assert "asked for with other arguments than before" in whys["args"][1]


# -- the check before a deploy ---------------------------------------------------------------------------------------


@driven
async def test_the_check_names_what_new_code_could_not_go_on_with() -> None:
    ground = Ground()
    old = ground.release()
    pay, ship = old.act("pay"), old.act("ship")
    await begun(old, old.define(in_order(pay)), "fine")
    await begun(old, old.define(in_order(pay), version=2), "definition")
    await begun(old, old.define(in_order(ship), name="up.ship"), "action")
    async with old.open() as process:
        assert await process.unresumable() == []
        await process.signal("fine", "go")
        await process.drive("fine")
    new = ground.release()
    new.define(in_order(new.act("pay", back=False)), version=3)
    new.define(in_order(new.act("ship", version=2)), name="up.ship")
    async with new.open() as process:
        found = {str(one.saga): one for one in await process.unresumable()}
        assert set(found) == {"definition", "action"}
        assert [obstacle.what for obstacle in found["definition"].obstacles] == [
            "no saga up.saga version 2 is registered in this process; it knows version 3",
            f"{CHANGED}reversibility (how it is taken back) was compensatable and is undeclared",
        ]
        (missing,) = found["action"].obstacles
        assert (missing.step, missing.steps) == ("1", 1)
        assert missing.what.startswith("no action up.ship version 1 is registered in this process")
        assert missing.do == "keep up.ship version=1 declared beside newer ones"
        assert {one.saga for one in await process.unresumable(completed=True)} == {"definition", "action", "fine"}
    assert len(ground.world.seen) == 3


# -- the same id twice -----------------------------------------------------------------------------------------------


@driven
async def test_two_processes_that_begin_one_saga_at_once_get_the_same_end() -> None:
    """Neither sees the other's before it writes: the journal lets one of them, and the other joins."""
    ground = Ground()
    one, two = ground.release(), ground.release()
    define = [each.define(in_order_at_once(each.act("pay"))) for each in (one, two)]
    async with one.open() as first, two.open() as second:
        handles = [
            process._engine.begin(definition, start(definition), handle_id())
            for process, definition in zip((first, second), define, strict=True)
        ]
        ends = [await handle for handle in handles]
    assert [end.status for end in ends] == [SagaStatus.COMPLETED] * 2
    assert ground.world.seen == ["pay/1"]


@driven
async def test_who_begins_another_saga_under_the_same_id_at_once_is_refused_by_name() -> None:
    ground = Ground()
    one, two = ground.release(), ground.release()
    first_definition = one.define(in_order_at_once(one.act("pay")))
    other_definition = two.define(in_order_at_once(two.act("pay")), version=2)
    async with one.open() as first, two.open() as second:
        winner = first._engine.begin(first_definition, start(first_definition), handle_id())
        loser = second._engine.begin(other_definition, start(other_definition), handle_id())
        assert (await winner).status is SagaStatus.COMPLETED
        with pytest.raises(RefusedError, match=r"it is up\.saga version 1, and up\.saga version 2 is asked for"):
            await loser
        with pytest.raises(RefusedError, match="saga one exists already, with another beginning"):
            await second.run(other_definition, id="one")
    assert ground.world.seen == ["pay/1"]


@driven
async def test_a_refusal_says_which_argument_differs() -> None:
    ground = Ground()
    release = ground.release()

    @saga("up.input")
    async def takes(s: Work, order: str, cents: int) -> None: ...

    async with release.open() as process:
        await process.run(takes, "o-1", 300, id="i")
        assert (await process.run(takes, "o-1", 300, id="i")).status is SagaStatus.COMPLETED
        with pytest.raises(RefusedError, match="cents is 300, and 400 is given; use another id"):
            await process.run(takes, "o-1", 400, id="i")


def in_order_at_once(act: Action[..., Any]) -> Callable[[Work], Any]:
    async def body(s: Work) -> None:
        await s.do(act)

    return body


def start(definition: SagaDefinition) -> Any:
    from amends.core.commands import StartSaga

    return StartSaga(
        definition=definition.name, version=definition.version, input={}, actor="system:t", env="development", labels={}
    )


def handle_id() -> Any:
    return "one"
