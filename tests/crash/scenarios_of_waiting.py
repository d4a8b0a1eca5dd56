"""Scenarios of sleeps, signals and pauses, beside those of `scenarios`."""

import asyncio
from contextlib import suppress

from amends import SagaDefinition, SagaStatus, Work
from amends.errors import RefusedError, UnknownSagaError
from amends.runtime.coordinator.coordinator import Coordinator
from amends.testing.crash.crash import here
from tests.crash.scenarios import (
    COMPLETED,
    ID,
    ROLLED_BACK,
    _awaited,
    act,
    cancel,
    cancellable,
    keyed_a,
    keyed_b,
    keyed_c,
    scenario,
    with_people,
)

HOUR = 3600.0


async def let_time_pass(coordinator: Coordinator) -> None:
    with suppress(UnknownSagaError):
        if (await coordinator.show(ID)).status is SagaStatus.WAITING:
            await here().clock.sleep(HOUR)
            coordinator._engine._renew()  # by the clock of these lives no heartbeat comes
            await coordinator.drive(ID)


async def send_paid(coordinator: Coordinator) -> None:
    with suppress(RefusedError, UnknownSagaError):  # it was sent before, or nothing waits for it yet
        await coordinator.signal(ID, "paid", 7)
    with suppress(UnknownSagaError):
        await coordinator.drive(ID)


async def send_paid_and_let_time_pass(coordinator: Coordinator) -> None:
    await send_paid(coordinator)
    await let_time_pass(coordinator)


@scenario("a saga sleeps between two steps", COMPLETED, **with_people(let_time_pass))
async def sleeps(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.sleep(HOUR)
    await s.do(keyed_b, 2)


@scenario("a saga sleeps for less than it takes to be put away", COMPLETED)
async def naps(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.sleep(0.5)
    await s.do(keyed_b, 2)


@scenario("a signal is waited for, and its payload used", COMPLETED, **with_people(send_paid))
async def waits_for_signal(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(keyed_b, await s.wait_for("paid", timeout=24 * HOUR))


@scenario("nobody sends it in time, and the work is taken back", ROLLED_BACK, **with_people(let_time_pass))
async def waits_in_vain(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.wait_for("paid", timeout=HOUR)


@scenario("nobody sends it in time, and the function goes another way", COMPLETED, **with_people(let_time_pass))
async def waits_then_goes_on(s: Work) -> None:
    try:
        await s.wait_for("paid", timeout=HOUR)
    except TimeoutError:
        await s.do(keyed_c, 3)
    else:
        await s.do(keyed_a, 1)


@scenario("one branch waits for a signal while another sleeps", COMPLETED, **with_people(send_paid_and_let_time_pass))
async def waits_in_branches(s: Work) -> None:
    async def paid() -> None:
        await s.do(keyed_a, await s.wait_for("paid"))

    async def slept() -> None:
        await s.sleep(HOUR)
        await s.do(keyed_b, 2)

    await asyncio.gather(paid(), slept())


@scenario("cancelled while it waits for a signal", ROLLED_BACK, **with_people(cancel))
async def cancelled_while_waiting(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.wait_for("paid")


# -- rates -----------------------------------------------------------------------------------------------------------

slowly = act("keyed.slowly")


@scenario("a rate makes a step wait", COMPLETED, **with_people(let_time_pass))
async def throttled(s: Work) -> None:
    await s.do(slowly, 1)
    await s.do(keyed_a, 2)
    await s.do(slowly, 3)


@scenario(
    "a rate makes one branch wait while another waits for a signal",
    COMPLETED,
    **with_people(send_paid_and_let_time_pass),
)
async def throttled_beside_a_wait(s: Work) -> None:
    async def paced() -> None:
        await s.do(slowly, 1)
        await s.do(slowly, 2)

    await asyncio.gather(s.wait_for("paid"), paced())


@scenario("cancelled while a rate makes it wait", ROLLED_BACK, **with_people(cancel))
async def cancelled_while_throttled(s: Work) -> None:
    await s.do(slowly, 1)
    await s.do(slowly, 2)


# -- pauses ----------------------------------------------------------------------------------------------------------


async def unpause_all(coordinator: Coordinator) -> None:
    await coordinator.unpause(everything=True)
    with suppress(RefusedError, UnknownSagaError):
        await coordinator.unpause(saga=ID)
    with suppress(UnknownSagaError):
        await coordinator.drive(ID)


async def pause_a_topic_for_a_while(coordinator: Coordinator, definition: SagaDefinition) -> None:
    await coordinator.pause(topic="keyed.b", why="a look")
    handle = await coordinator.start(definition, id=ID)
    await handle.halt()
    await coordinator.unpause(topic="keyed.b")
    await handle


@scenario("a topic is paused, and unpaused", COMPLETED, begin=pause_a_topic_for_a_while, people=unpause_all)
async def topic_paused(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(keyed_b, 2)


async def pause_it_while_it_runs(coordinator: Coordinator, definition: SagaDefinition) -> None:
    handle = await coordinator.start(definition, id=ID)
    ended = asyncio.ensure_future(_awaited(handle))
    reached = asyncio.ensure_future(here().signal.wait())
    await asyncio.wait({ended, reached}, return_when=asyncio.FIRST_COMPLETED)
    reached.cancel()
    with suppress(RefusedError, UnknownSagaError):
        await coordinator.pause(saga=ID, why="a look")
    await handle.halt()
    await unpause_all(coordinator)
    await ended


@scenario(
    "a saga is paused while a step runs, and unpaused", COMPLETED, begin=pause_it_while_it_runs, people=unpause_all
)
async def saga_paused(s: Work) -> None:
    await s.do(cancellable, 1)
    await s.do(keyed_b, 2)
