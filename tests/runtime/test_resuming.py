"""A saga taken up again: by another coordinator, after a drain, with changed code, or under another worker's nose."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amends import Coordinator, Done, Ended, Handle, Registry, Settings, Work, action, saga
from amends.core.words.values import SagaId
from amends.errors import JournalBusyError, JournalConflictError, JournalError, JournalFullError, LeaseLostError
from amends.gate.load import BuiltinGate
from amends.journal.memory import Memory, MemoryJournal
from tests.runtime.support import QuickClock, World, coordinator, names

SHORT = Settings(lease_s=100, settle_s=1)


async def abandon(handle: Handle) -> None:
    """The process is gone: nothing is drained, nothing given back; only its tasks end."""
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}), return_exceptions=True)
    gone = await asyncio.gather(handle, return_exceptions=True)
    assert isinstance(gone[0], asyncio.CancelledError)


def stuck_on_the_second_step(world: World, second: asyncio.Event) -> Any:
    a = world.action("a", result="A")

    @action("test.second", idempotent=True)
    async def second_step(n: int) -> int:
        world.note("second")
        await second.wait()
        return n

    @second_step.compensation
    async def unsecond(done: Done) -> None:
        world.note("unsecond")

    @saga("test.stuck")
    async def stuck(s: Work, n: int) -> Any:
        return [await s.do(a), await s.do(second_step, n)]

    return stuck


def test_a_saga_goes_on_from_its_last_durable_step_in_another_process() -> None:
    world, memory, clock = World(), Memory(), QuickClock()
    registry = Registry()

    async def whole() -> list[Ended]:
        second = asyncio.Event()
        stuck = stuck_on_the_second_step(world, second)
        first = coordinator(memory, settings=SHORT, clock=clock, registry=registry)
        await first.__aenter__()
        handle = await first.start(stuck, 7)
        while "second" not in world.seen:
            await asyncio.sleep(0)
        await abandon(handle)
        clock.advance(101)
        second.set()
        async with coordinator(memory, settings=SHORT, clock=clock, registry=registry) as later:
            return await later.resume()

    (ended,) = asyncio.run(whole())
    assert (ended.status, ended.result) == ("completed", ["A", 7])
    assert world.seen == ["a", "second", "second"]


def test_a_saga_that_a_living_worker_drives_is_not_resumed_by_another() -> None:
    world, memory, clock = World(), Memory(), QuickClock()
    registry = Registry()

    async def whole() -> tuple[list[Ended], Ended]:
        second = asyncio.Event()
        stuck = stuck_on_the_second_step(world, second)
        async with (
            coordinator(memory, settings=SHORT, clock=clock, registry=registry) as one,
            coordinator(memory, settings=SHORT, clock=clock, registry=registry) as other,
        ):
            handle = await one.start(stuck, 7)
            while "second" not in world.seen:
                await asyncio.sleep(0)
            found = await other.resume()
            second.set()
            return found, await handle

    found, ended = asyncio.run(whole())
    assert (found, ended.status) == ([], "completed")


def test_a_worker_whose_time_ran_out_does_not_take_its_own_sagas_from_itself() -> None:
    """The machine slept, and nobody took over: its sagas are its own as before, and not free for it to claim."""
    world, memory, clock = World(), Memory(), QuickClock()

    async def whole() -> tuple[list[Ended], Ended]:
        second = asyncio.Event()
        stuck = stuck_on_the_second_step(world, second)
        async with coordinator(memory, settings=SHORT, clock=clock) as one:
            handle = await one.start(stuck, 7)
            while "second" not in world.seen:
                await asyncio.sleep(0)
            clock.advance(SHORT.lease_s + 1)
            found = await asyncio.wait_for(one.resume(), 60)
            second.set()
            return found, await handle

    found, ended = asyncio.run(whole())
    assert (found, ended.status, world.seen) == ([], "completed", ["a", "second"])


def test_a_worker_that_lost_its_lease_cannot_write_and_the_other_one_s_history_stands() -> None:
    world, memory, clock = World(), Memory(), QuickClock()
    registry = Registry()

    async def whole() -> tuple[list[Ended], list[str]]:
        second = asyncio.Event()
        stuck = stuck_on_the_second_step(world, second)
        zombie = coordinator(memory, settings=SHORT, clock=clock, registry=registry)
        await zombie.__aenter__()
        handle = await zombie.start(stuck, 7)
        while "second" not in world.seen:
            await asyncio.sleep(0)
        clock.advance(101)
        async with coordinator(memory, settings=SHORT, clock=clock, registry=registry) as taker:
            resumed = asyncio.ensure_future(taker.resume())
            while world.seen.count("second") < 2:
                await asyncio.sleep(0)
            second.set()
            ended = await resumed
            with pytest.raises(LeaseLostError):
                await handle
            entries = names((await taker.show(ended[0].id)).entries)
            await zombie.close()
            return ended, entries

    ended, entries = asyncio.run(whole())
    assert [each.status for each in ended] == ["completed"]
    assert entries.count("saga.completed") == 1
    assert "late_success.enrolled" not in entries


def test_a_take_over_that_nobody_waits_for_is_said_once_and_not_as_a_forgotten_exception(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world, memory, clock = World(), Memory(), QuickClock()
    registry = Registry()
    forgotten: list[str] = []

    async def whole() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, found: forgotten.append(found["message"]))
        second = asyncio.Event()
        stuck = stuck_on_the_second_step(world, second)
        async with coordinator(memory, settings=SHORT, clock=clock, registry=registry) as zombie:
            _ = await zombie.start(stuck, 7, id="s")
            while "second" not in world.seen:
                await asyncio.sleep(0)
            clock.advance(101)
            async with coordinator(memory, settings=SHORT, clock=clock, registry=registry) as taker:
                resumed = asyncio.ensure_future(taker.resume())
                while world.seen.count("second") < 2:
                    await asyncio.sleep(0)
                second.set()
                await resumed
                while "taken over" not in caplog.text:
                    await asyncio.sleep(0)
        gc.collect()
        await asyncio.sleep(0)

    asyncio.run(whole())
    gc.collect()
    said = [record for record in caplog.records if record.name.startswith("amends")]
    assert forgotten == []
    assert sum("taken over" in record.getMessage() for record in said) == 1
    assert not any(record.exc_info for record in said)


@pytest.mark.parametrize("late_s", [0.0, 20.0])
def test_a_worker_renews_by_the_time_however_long_its_beats_take(late_s: float) -> None:
    """Each beat waits for a slow journal; and one renewal in two fails, because it is held by another program."""
    clock, memory = QuickClock(), Memory()
    journal = MemoryJournal(clock, memory)
    beats: list[Callable[[], None]] = []
    fails = [False]

    class Still:
        def __init__(self, *, renew: Callable[[], None], **_: object) -> None:
            beats.append(renew)

        def start(self) -> None: ...

        def stop(self) -> None: ...

    def renew(worker: str, ttl_s: float) -> None:
        clock.advance(late_s)
        fails.append(not fails[-1])
        if fails[-1]:
            raise JournalBusyError("held")
        MemoryJournal.renew(journal, worker, ttl_s)

    async def whole() -> None:
        journal.renew = renew  # type: ignore[method-assign] # as slow as a lock that is fought for
        made = Coordinator(journal=journal, gate=BuiltinGate(), clock=clock, settings=SHORT, heart=Still)
        async with made:
            (life,) = memory.workers.values()
            for _ in range(500):
                clock.advance(1)
                assert clock.elapsed() < life.until
                with contextlib.suppress(JournalBusyError):
                    beats[0]()
                (life,) = memory.workers.values()
            assert late_s or 30 <= len(fails) <= 60  # and not at each beat

    asyncio.run(whole())


@pytest.mark.parametrize("trouble", [None, JournalFullError("no room"), JournalBusyError("held")])
def test_a_late_success_of_a_lost_worker_is_taken_back_when_its_saga_had_rolled_back(
    trouble: JournalError | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the journal cannot take the report at first: nobody else could tell of it."""
    world, memory, clock = World(), Memory(), QuickClock()
    registry = Registry()
    released = asyncio.Event()
    begun = asyncio.Event()

    @action("test.zombie")
    async def once() -> str:
        begun.set()
        await released.wait()
        world.note("landed")
        return "late"

    @once.compensation
    async def unonce(done: Done) -> None:
        world.note(f"unonce {done.certain}")

    @saga("test.zombies")
    async def zombies(s: Work) -> Any:
        return await s.do(once)

    async def whole() -> Any:
        zombie = coordinator(memory, settings=SHORT, clock=clock, registry=registry)
        await zombie.__aenter__()
        handle = await zombie.start(zombies)
        await begun.wait()
        clock.advance(101)
        async with coordinator(memory, settings=SHORT, clock=clock, registry=registry) as taker:
            ended = await taker.resume()
            assert [each.status for each in ended] == ["rolled_back"]
            plain, left = zombie.journal.append, [trouble] if trouble else []

            async def refuses_once(saga_id: SagaId, events: Any, **how: Any) -> Any:
                if how.get("lease") is None and left:
                    raise left.pop()
                return await plain(saga_id, events, **how)

            monkeypatch.setattr(zombie.journal, "append", refuses_once)
            released.set()
            with pytest.raises(JournalConflictError):
                await handle
            for _ in range(50):
                await asyncio.sleep(0)
            assert not left
            found = await taker.show(handle.id)
            await zombie.close()
            return found.status, names(found.entries), await taker.incidents()

    status, entries, incidents = asyncio.run(whole())
    assert world.seen == ["unonce False", "landed"]
    assert "late_success.enrolled" in entries
    assert status == "incident"
    assert [(one.kind, one.left) for one in incidents] == [("outcome_unknown", ("1",))]


class SlowClaims(MemoryJournal):
    """Carries out a claim by name when it is let, however much was asked later."""

    def __init__(self, clock: QuickClock) -> None:
        super().__init__(clock)
        self.claimed, self.lets = asyncio.Event(), asyncio.Event()

    async def claim(self, worker: str, **what: Any) -> Any:
        if what.get("saga") is not None:
            self.claimed.set()
            await self.lets.wait()
        return await super().claim(worker, **what)


def test_what_never_got_on_record_is_not_taken_from_whoever_begins_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first write was refused, so `resume` looks after it; meanwhile somebody starts it once more."""
    world, clock = World(), QuickClock()
    begun, released = asyncio.Event(), asyncio.Event()

    @action("test.once")
    async def once() -> None:
        world.note("once")
        begun.set()
        await released.wait()

    @once.compensation
    async def unonce(done: Done) -> None:
        world.note("unonce")

    @saga("test.again")
    async def again(s: Work) -> None:
        await s.do(once)

    async def refused(*_what: object, **_how: object) -> None:
        raise JournalBusyError("held")

    async def whole() -> tuple[Ended, list[str]]:
        journal = SlowClaims(clock)
        async with Coordinator(
            journal=journal, gate=BuiltinGate(), clock=clock, settings=SHORT, registry=Registry()
        ) as on:
            with monkeypatch.context() as patch:
                patch.setattr(journal, "append", refused)
                with pytest.raises(JournalBusyError):
                    await on.run(again, id="s")
            resumed, claimed = asyncio.ensure_future(on.resume()), asyncio.ensure_future(journal.claimed.wait())
            await asyncio.wait({resumed, claimed}, return_when=asyncio.FIRST_COMPLETED)
            handle = await on.start(again, id="s")
            await begun.wait()
            journal.lets.set()
            for _ in range(50):
                await asyncio.sleep(0)
            released.set()
            ended = await handle
            assert await resumed == []
            claimed.cancel()
            return ended, names((await on.show("s")).entries)

    ended, entries = asyncio.run(whole())
    assert ended.status == "completed"
    assert world.seen == ["once"]
    assert entries == ["saga.started", "action.dispatched", "attempt.succeeded", "saga.completed"]


def test_a_saga_under_whose_driver_the_journal_failed_is_not_forgotten_when_it_fails_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its second write is refused, and then the claim by which `resume` would take it up again."""
    world = World()
    first, second = world.action("first"), world.action("second")
    refusals = {"append": [False, True], "claim": [True]}  # of claims, those by name

    @saga("test.two")
    async def two(s: Work) -> None:
        await s.do(first)
        await s.do(second)

    def hindered(name: str, plain: Any) -> Any:
        async def call(*what: Any, **how: Any) -> Any:
            is_meant = name == "append" or "saga" in how
            if is_meant and refusals[name] and refusals[name].pop(0):
                raise JournalBusyError("held")
            return await plain(*what, **how)

        return call

    async def whole() -> list[Ended]:
        async with coordinator() as on:
            for name in refusals:
                monkeypatch.setattr(on.journal, name, hindered(name, getattr(on.journal, name)))
            with pytest.raises(JournalBusyError):
                await on.run(two, id="s")
            with pytest.raises(JournalBusyError):
                await on.resume()
            return await on.resume()

    (ended,) = asyncio.run(whole())
    assert (ended.id, ended.status) == ("s", "rolled_back")
    assert world.seen == ["first", "unfirst?"]


def test_a_closing_coordinator_lets_a_running_attempt_finish_and_records_its_outcome(tmp_path: Path) -> None:
    world = World()
    path = str(tmp_path / "journal.db")
    begun, released = asyncio.Event(), asyncio.Event()
    b = world.action("b")

    @action("test.draining")
    async def draining() -> str:
        begun.set()
        await released.wait()
        world.note("finished")
        return "kept"

    @draining.compensation
    async def undrain(done: Done) -> None: ...

    @saga("test.drains")
    async def drains(s: Work) -> Any:
        return [await s.do(draining), await s.do(b)]

    async def whole() -> tuple[list[str], list[Ended]]:
        first = await opened_at(path)
        handle = await first.start(drains)
        await begun.wait()
        closing = asyncio.ensure_future(first.close())
        await asyncio.sleep(0)
        released.set()
        await closing
        second = await opened_at(path)
        entries = names((await second.show(handle.id)).entries)
        ended = await second.resume()
        await second.close()
        return entries, ended

    entries, ended = asyncio.run(whole())
    assert entries == ["saga.started", "action.dispatched", "attempt.succeeded"]
    assert world.seen == ["finished", "b"]
    assert [(each.status, each.result) for each in ended] == [("completed", ["kept", None])]


async def opened_at(path: str) -> Coordinator:
    import amends

    return await amends.Coordinator.open(path, signals=False)


def resumed_with(world: World, first: Any, then: Any, *args: Any) -> tuple[Ended, Any]:
    """Run `first` until it is stuck, lose the process, and resume with `then` under the same name."""
    memory, clock = Memory(), QuickClock()
    registry = Registry()

    async def whole() -> tuple[Ended, Any]:
        one = coordinator(memory, settings=SHORT, clock=clock, registry=registry)
        await one.__aenter__()
        handle = await one.start(first, *args)
        while "stuck" not in world.seen:
            await asyncio.sleep(0)
        await abandon(handle)
        clock.advance(101)
        registry.add_definition(then)
        async with coordinator(memory, settings=SHORT, clock=clock, registry=registry) as later:
            (ended,) = await later.resume()
            return ended, await later.incidents()

    return asyncio.run(whole())


def stuck_action(world: World) -> Any:
    @action("test.stops", idempotent=True)
    async def stops(n: int = 0) -> None:
        world.note("stuck")
        if world.seen.count("stuck") == 1:
            await asyncio.Event().wait()

    @stops.compensation
    async def unstop(done: Done) -> None: ...

    return stops


@pytest.mark.parametrize("change", ["other arguments", "another action", "fewer steps"])
def test_code_that_asks_for_something_else_stops_that_saga_as_diverged(change: str) -> None:
    world = World()
    a, b, stops = world.action("a"), world.action("b"), stuck_action(world)

    @saga("test.changing")
    async def first(s: Work) -> None:
        await s.do(a, 1)
        await s.do(stops)

    @saga("test.changing")
    async def then(s: Work) -> None:
        if change == "other arguments":
            await s.do(a, 2)
        elif change == "another action":
            await s.do(b, 1)
        else:
            await s.do(a, 1)

    ended, incidents = resumed_with(world, first, then)
    assert ended.status == "incident"
    assert incidents[0].kind == "diverged"
    assert "b" not in world.seen
    assert world.seen.count("a(1)") == 1
    assert "a(2)" not in world.seen


def test_branches_that_come_back_in_another_order_find_their_own_steps() -> None:
    world = World()
    stops = stuck_action(world)
    order = [["x", "y"], ["y", "x"]]
    acts = {name: world.action(name, result=name.upper()) for name in "xy"}

    def make() -> Any:
        @saga("test.racing")
        async def racing(s: Work) -> list[str]:
            turns = order.pop(0)
            go = {name: asyncio.Event() for name in "xy"}
            go[turns[0]].set()

            async def branch(name: str) -> str:
                await go[name].wait()
                result: str = await s.do(acts[name])
                go[turns[1]].set()
                return result

            found = await asyncio.gather(branch("x"), branch("y"))
            await s.do(stops)
            return list(found)

        return racing

    ended, _ = resumed_with(world, make(), make())
    assert (ended.status, ended.result) == ("completed", ["X", "Y"])
    assert world.seen == ["x", "y", "stuck", "stuck"]


def test_a_new_branch_waits_for_a_remembered_one_that_is_merely_late() -> None:
    world = World()
    released: list[asyncio.Event] = []

    @action("test.stops_first", idempotent=True)
    async def stops(name: str) -> str:
        world.note(f"{name}")
        if name == "x" and world.seen.count("x") == 1:
            world.note("stuck")
            await asyncio.Event().wait()
        return name

    @stops.compensation
    async def unstop(done: Done) -> None: ...

    def make(*, x_first: bool) -> Any:
        @saga("test.late_branch")
        async def late_branch(s: Work) -> list[str]:
            gate = asyncio.Event()
            released.append(gate)

            async def branch(name: str, *, waits: bool) -> str:
                if waits:
                    await gate.wait()
                elif not x_first:
                    asyncio.get_running_loop().call_later(0.01, gate.set)
                return await s.do(stops, name)

            return list(await asyncio.gather(branch("x", waits=not x_first), branch("y", waits=x_first)))

        return late_branch

    ended, _ = resumed_with(world, make(x_first=True), make(x_first=False))
    assert (ended.status, ended.result) == ("completed", ["x", "y"])
    assert world.seen == ["x", "stuck", "x", "y"]
