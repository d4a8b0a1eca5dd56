"""Scenarios of surgical rollback: checkpoints, blocks that are tried again, and going back from outside."""

import asyncio
from contextlib import suppress

from amends import NotDone, SagaDefinition, SagaStatus, Work, saga
from amends.errors import RefusedError, UnknownSagaError
from amends.runtime.coordinator.coordinator import Coordinator
from amends.testing.crash.crash import here
from tests.crash.scenarios import (
    COMPLETED,
    ID,
    ROLLED_BACK,
    _awaited,
    act,
    approve,
    fails_at_first,
    keyed_a,
    keyed_b,
    keyed_c,
    scenario,
    slow,
    with_people,
)

fails_once = act("keyed.fails_once", fails_at_first(NotDone("not this time")), retries=1)


@scenario("back to a checkpoint, and on", COMPLETED)
async def back_to_checkpoint(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.checkpoint("here")
    await s.do(keyed_b, 2)
    await s.do(keyed_c, 3)
    await s.rollback_to("here", "no good")
    await s.do(keyed_c, 4)


@scenario("the last two steps are taken back, and the work goes on", COMPLETED)
async def last_two(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(keyed_c, 2)
    await s.do(keyed_b, 3)
    await s.rollback_last(2, "no good")
    await s.do(keyed_c, 4)


@scenario("a block fails once, and passes", COMPLETED)
async def block_fails_once(s: Work) -> None:
    heard: list[list[str]] = []
    async for attempt in s.attempts("block", max=2):
        async with attempt:
            heard.append([] if attempt.feedback is None else [one.topic for one in attempt.feedback.taken_back])
            await s.do(keyed_a, attempt.number)
            await s.do(keyed_b, 2)
            if attempt.number == 1:
                raise ValueError("no good")
    assert heard == [[], ["keyed.b", "keyed.a"]]


@scenario("what was approved ahead is done in a block that fails once, and passes", COMPLETED, **with_people(approve))
async def approved_ahead_of_a_block(s: Work) -> None:
    await s.ask(keyed_a, 1)
    async for attempt in s.attempts("block", max=2):
        async with attempt:
            back = () if attempt.feedback is None else attempt.feedback.taken_back
            assert [one.topic for one in back] == ["keyed.a"] * (attempt.number - 1)
            await s.do(keyed_a, 1)
            if attempt.number == 1:
                raise ValueError("no good")
    await s.do(keyed_b, 2)


@scenario("a step of a block fails once, and the block passes", COMPLETED, ROLLED_BACK)
async def step_fails_once(s: Work) -> None:
    async for attempt in s.attempts("block", max=3):
        async with attempt:
            await s.do(keyed_a, attempt.number)
            await s.do(fails_once, 2)


@scenario("a block fails in a branch beside another branch", COMPLETED)
async def block_in_a_branch(s: Work) -> None:
    async def block() -> None:
        async for attempt in s.attempts("block", max=2):
            async with attempt:
                await s.do(keyed_a, attempt.number)
                if attempt.number == 1:
                    raise ValueError("no good")

    async def other() -> None:
        await s.do(keyed_b, 1)
        await s.do(keyed_c, 2)

    await asyncio.gather(block(), other())


@scenario("a block fails to its last attempt, and the function goes another way", COMPLETED)
async def block_fails_for_good(s: Work) -> None:
    try:
        async for attempt in s.attempts("block", max=2):
            async with attempt:
                await s.do(keyed_a, attempt.number)
                raise ValueError("no good")
    except ValueError:
        await s.do(keyed_c, 3)


# -- from outside ----------------------------------------------------------------------------------------------------


async def go_back(coordinator: Coordinator) -> None:
    """Once: whoever asks again after a crash looks first whether it was done."""
    with suppress(RefusedError, UnknownSagaError):
        history = await coordinator.show(ID)
        if history.status is SagaStatus.COMPLETED and not history.saga.rewinds:
            await coordinator.rollback(ID, to="here", why="another way")


async def run_and_go_back(coordinator: Coordinator, definition: SagaDefinition) -> None:
    await coordinator.run(definition, id=ID)
    await go_back(coordinator)


@scenario("back to a checkpoint from outside, after it had completed", COMPLETED, begin=run_and_go_back, then=go_back)
async def back_from_outside(s: Work) -> str:
    await s.do(keyed_a, 1)
    feedback = await s.checkpoint("here")
    await s.do(keyed_b, 2 if feedback is None else 3)
    return "" if feedback is None else feedback.why


async def reaches(topic: str) -> str:
    await here().effect(topic, honours_keys=True)
    here().signal.set()
    await here().clock.sleep(5)
    return topic


reaching = act("keyed.reaching", reaches)


async def go_back_while_running(coordinator: Coordinator, definition: SagaDefinition) -> None:
    handle = await coordinator.start(definition, id=ID)
    ended = asyncio.ensure_future(_awaited(handle))
    reached = asyncio.ensure_future(here().signal.wait())
    await asyncio.wait({ended, reached}, return_when=asyncio.FIRST_COMPLETED)
    reached.cancel()
    with suppress(RefusedError, UnknownSagaError):
        await coordinator.rollback(ID, to="here", why="another way")
    await ended


@scenario("back to a checkpoint from outside, while it runs", COMPLETED, begin=go_back_while_running)
async def back_while_running(s: Work) -> None:
    feedback = await s.checkpoint("here")
    await s.do(keyed_a, 1)
    if feedback is None:
        await s.do(reaching, 2)
    await s.do(keyed_c, 3)


@saga("crash.rewound_leaf")
async def rewound_leaf(s: Work) -> None:
    await s.do(keyed_b, 1)


@saga("crash.rewound_branch")
async def rewound_branch(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.call(rewound_leaf)


@scenario("back over a child that had a child of its own, from outside", COMPLETED, begin=run_and_go_back, then=go_back)
async def back_over_generations(s: Work) -> str:
    """The child of the second time has another id than the grandchild of the first."""
    feedback = await s.checkpoint("here")
    await s.call(rewound_branch)
    return "" if feedback is None else feedback.why


# -- hold until settled ----------------------------------------------------------------------------------------------

held_mail = act("keyed.held_mail", no_rollback="a mail cannot be unsent", hold=True)


@scenario("what is held is released in the end", COMPLETED)
async def held_and_released(s: Work) -> None:
    await s.do(held_mail, 1)
    await s.do(keyed_a, 2)
    await s.do(held_mail, 3)


@scenario("what is held is dropped by a rollback", ROLLED_BACK)
async def held_and_dropped(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(held_mail, 2)
    raise ValueError("no good")


@scenario("what is held is dropped with its block, and held again by the next attempt", COMPLETED)
async def held_in_a_block(s: Work) -> None:
    async for attempt in s.attempts("block", max=2):
        async with attempt:
            await s.do(held_mail, attempt.number)
            if attempt.number == 1:
                raise ValueError("no good")


# -- hold in a family ------------------------------------------------------------------------------------------------


@saga("crash.child_holds")
async def child_holds(s: Work) -> str:
    await s.do(held_mail, 11)
    return str(await s.do(keyed_a, 12))


@saga("crash.child_of_holds")
async def child_of_holds(s: Work) -> str:
    await s.do(held_mail, 21)
    return str(await s.call(child_holds))


@scenario("what a child holds is released when its parent has done its work", COMPLETED)
async def held_in_a_child(s: Work) -> str:
    told = await s.call(child_holds)
    await s.do(keyed_b, 2)
    return str(told)


@scenario("what is held two below is released when the root has done its work", COMPLETED)
async def held_below(s: Work) -> str:
    told = await s.call(child_of_holds)
    await s.do(held_mail, 2)
    return str(told)


@scenario("what a child holds is dropped when its parent fails", ROLLED_BACK)
async def held_in_a_child_and_dropped(s: Work) -> None:
    await s.call(child_of_holds)
    await s.do(keyed_b, 2)
    raise ValueError("no good")


# -- children of what goes back --------------------------------------------------------------------------------------


@saga("crash.child_long")
async def long_child(s: Work) -> None:
    await s.do(keyed_a, 11)
    await s.do(reaching, 12)
    for n in range(13, 16):
        await s.do(slow, n)


@saga("crash.child_between")
async def between(s: Work) -> None:
    await s.do(keyed_b, 21)
    await s.call(long_child)


@saga("crash.child_patient")
async def patient_child(s: Work) -> None:
    await s.do(keyed_a, 31)
    here().signal.set()
    await s.wait_for("never")


@scenario("back to a checkpoint from outside, while a child's child runs", COMPLETED, begin=go_back_while_running)
async def back_over_a_running_child(s: Work) -> None:
    if await s.checkpoint("here") is None:
        await s.call(between)
    await s.do(keyed_c, 3)


async def go_back_while_it_waits(coordinator: Coordinator) -> None:
    """Once; where nobody has gone back yet, and it waits."""
    with suppress(RefusedError, UnknownSagaError):
        if not (await coordinator.show(ID)).saga.rewinds:
            await coordinator.rollback(ID, to="here", why="another way")


@scenario(
    "back to a checkpoint from outside, while a child waits for a signal",
    COMPLETED,
    begin=go_back_while_running,
    people=go_back_while_it_waits,
)
async def back_over_a_waiting_child(s: Work) -> None:
    if await s.checkpoint("here") is None:
        await asyncio.gather(s.call(patient_child), s.do(keyed_b, 1))
    await s.do(keyed_c, 3)


@scenario("a block fails beside a child that waits, and another goes on", COMPLETED)
async def block_fails_beside_a_child(s: Work) -> None:
    async def fails() -> None:
        await s.sleep(2)
        raise ValueError("no good")

    async def block() -> None:
        async for attempt in s.attempts("block", max=2):
            async with attempt:
                if attempt.number == 1:
                    await asyncio.gather(s.call(patient_child), fails())
                await s.do(keyed_b, attempt.number)

    await asyncio.gather(block(), s.call(long_child))


@saga("crash.child_asleep")
async def child_asleep(s: Work) -> None:
    await s.do(keyed_a, 41)
    here().signal.set()
    await s.sleep(3)
    await s.do(keyed_b, 42)
    await s.do(keyed_b, 43)


async def a_minute_passes(coordinator: Coordinator) -> None:
    await here().clock.sleep(60)
    coordinator._engine._renew()  # by the clock of these lives no heartbeat comes
    for row in await coordinator.list(status="waiting"):  # newest first: a child before its parent
        await coordinator.drive(row.id)


@scenario(
    "back to a checkpoint from outside, while a child sleeps",
    COMPLETED,
    begin=go_back_while_running,
    people=a_minute_passes,
)
async def back_over_a_sleeping_child(s: Work) -> None:
    if await s.checkpoint("here") is None:
        await s.call(child_asleep)
    await s.do(keyed_c, 3)
