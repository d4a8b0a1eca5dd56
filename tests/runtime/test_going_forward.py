"""What becomes of a step that goes forward: each way an attempt can end, and what the runtime then does."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import pytest

import amends
from amends import (
    Asked,
    Done,
    Ended,
    Fatal,
    Happened,
    NotDone,
    NotHappened,
    Retries,
    Retry,
    SagaDefinition,
    Settings,
    StepDeniedError,
    StepFailedError,
    StepLostError,
    Work,
    action,
    saga,
)
from amends.core.state.saga import Saga
from amends.errors import NotJsonError
from tests.runtime.support import QuickClock, World, coordinator, names


def run(definition: SagaDefinition, *args: Any, **options: Any) -> Ended:
    async def whole() -> Ended:
        async with coordinator(**options) as opened:
            return await opened.run(definition, *args)

    return asyncio.run(whole())


def one_after_another(*actions: amends.Action[..., Any]) -> SagaDefinition:
    @saga("test.line")
    async def line(s: Work) -> list[Any]:
        return [await s.do(each) for each in actions]

    return line


def test_a_saga_whose_steps_all_succeed_is_completed_with_its_result() -> None:
    world = World()
    ended = run(one_after_another(world.action("a", result=1), world.action("b", result="two")))
    assert (ended.status, ended.result) == ("completed", [1, "two"])
    assert world.seen == ["a", "b"]


def test_a_running_saga_keeps_no_older_version_of_itself() -> None:
    """It would keep all that it held, and a long saga would grow by that at each step."""
    world, kept = World(), list[int]()
    touch = world.action("a")

    @saga("test.long")
    async def long(s: Work) -> None:
        for _ in range(20):
            await s.do(touch)
        gc.collect()
        kept.append(sum(isinstance(each, Saga) and each.id == s.id for each in gc.get_objects()))

    async def scene() -> None:
        async with coordinator() as on:
            await on.run(long, id="alone-of-its-name")

    asyncio.run(scene())
    assert kept == [1]


def test_a_fatal_failure_walks_back_newest_first_and_compensates_the_failed_step_as_uncertain() -> None:
    world = World()
    ended = run(one_after_another(world.action("a"), world.action("b"), world.action("c", Fatal("declined"))))
    assert world.seen == ["a", "b", "c", "unc?", "unb", "una"]
    assert (ended.status, ended.cause, ended.step) == ("rolled_back", "fatal", "3")
    assert "declined" in ended.why


def test_a_fatal_failure_that_certifies_that_nothing_happened_is_not_compensated() -> None:
    world = World()
    run(one_after_another(world.action("a"), world.action("b", Fatal("no", happened=False))))
    assert world.seen == ["a", "b", "una"]


def test_not_done_is_tried_again_and_the_key_stays_the_same() -> None:
    world = World()
    ended = run(one_after_another(world.action("a", NotDone("busy"), NotDone("busy"), result=7)))
    assert (ended.status, ended.result) == ("completed", [7])
    assert world.seen == ["a", "a", "a"]
    assert len(set(world.keys)) == 1


def test_not_done_for_ever_uses_up_its_attempts_and_there_is_nothing_to_take_back() -> None:
    world = World()
    busy = world.action("b", *[NotDone("busy")] * 9, retries=Retries(attempts=3))
    ended = run(one_after_another(world.action("a"), busy))
    assert world.seen == ["a", "b", "b", "b", "una"]
    assert (ended.status, ended.cause) == ("rolled_back", "failed")


def test_retry_waits_as_long_as_the_action_asks() -> None:
    clock = QuickClock()
    before = clock.elapsed()
    world = World()
    run(one_after_another(world.action("a", Retry("later", after=77.0))), clock=clock)
    assert world.seen == ["a", "a"]
    assert clock.elapsed() - before == pytest.approx(77.0, abs=0.01)


def test_any_other_exception_is_lost_and_compensated_as_uncertain() -> None:
    world = World()
    ended = run(one_after_another(world.action("a"), world.action("b", ConnectionError("reset"))))
    assert world.seen == ["a", "b", "unb?", "una"]
    assert (ended.status, ended.cause) == ("rolled_back", "lost")


def test_a_lost_attempt_of_an_idempotent_action_is_repeated_with_the_same_key() -> None:
    world = World()
    ended = run(one_after_another(world.action("a", ConnectionError("reset"), idempotent=True)))
    assert ended.status == "completed"
    assert world.seen == ["a", "a"]
    assert len(set(world.keys)) == 1


@pytest.mark.parametrize("failure", [SystemExit(3), KeyError("x"), StopIteration(), MemoryError()])
def test_whatever_an_action_raises_is_an_outcome(failure: BaseException) -> None:
    world = World()
    ended = run(one_after_another(world.action("a", failure)))
    assert ended.status == "rolled_back"
    assert world.seen == ["a", "una?"]


def test_an_atomic_action_that_raises_certainly_did_nothing() -> None:
    world = World()
    run(one_after_another(world.action("a", ValueError("constraint"), atomic=True, retries=1)))
    assert world.seen == ["a"]


def test_a_probe_that_finds_the_effect_settles_a_lost_attempt() -> None:
    world = World()
    ended = run(one_after_another(world.action("a", ConnectionError(), probe=[Happened("found")])))
    assert (ended.status, ended.result) == ("completed", ["found"])
    assert world.seen == ["a", "ask a"]


def test_a_probe_that_finds_nothing_lets_the_action_be_tried_again() -> None:
    world = World()
    ended = run(one_after_another(world.action("a", ConnectionError(), probe=[NotHappened()], result=1)))
    assert ended.status == "completed"
    assert world.seen == ["a", "ask a", "a"]


def test_a_probe_that_cannot_tell_is_asked_a_few_times_then_the_step_is_uncertain() -> None:
    world = World()
    answers: list[Any] = [OSError("down")] * 9
    ended = run(one_after_another(world.action("a", ConnectionError(), probe=answers)))
    assert ended.status == "rolled_back"
    assert world.seen == ["a", "ask a", "ask a", "ask a", "una?"]


def test_an_action_that_runs_out_of_time_is_lost() -> None:
    world = World()

    @action("test.slow", timeout=0.01)
    async def slow() -> None:
        world.note("slow")
        await asyncio.Event().wait()

    @slow.compensation
    async def unslow(done: Done) -> None:
        world.note(f"unslow {done.certain}")

    ended = run(one_after_another(slow))
    assert world.seen == ["slow", "unslow False"]
    assert "no answer in 0.01 s" in ended.why


def test_a_thread_that_lands_after_its_timeout_is_enrolled_and_taken_back_with_certainty() -> None:
    world = World()
    released = threading.Event()

    @action("test.thread", timeout=0.01)
    def slow() -> str:
        released.wait(5)
        world.note("landed")
        return "late"

    @slow.compensation
    def unslow(done: Done) -> None:
        world.note(f"unslow {done.certain} {done.result}")

    @saga("test.late")
    async def late(s: Work) -> None:
        try:
            await s.do(slow)
        finally:
            released.set()

    ended = run(late)
    assert ended.status == "rolled_back"
    assert world.seen == ["landed", "unslow True late"]


def test_a_thread_that_never_ends_is_an_incident_and_not_a_blind_compensation() -> None:
    world = World()
    released = threading.Event()

    @action("test.hangs", timeout=0.01)
    def hangs() -> None:
        released.wait(30)

    @hangs.compensation
    def unhang(done: Done) -> None:
        world.note("unhang")

    async def whole() -> Ended:
        async with coordinator(settings=Settings(lease_s=1_000_000, settle_s=0.02)) as opened:
            ended = await opened.run(one_after_another(hangs))
            released.set()
            return ended

    ended = asyncio.run(whole())
    assert ended.status == "incident"
    assert world.seen == []


def test_a_probe_that_finds_nothing_is_not_believed_while_the_attempt_still_runs_in_its_thread() -> None:
    world = World()
    released = threading.Event()

    @action("test.lands_late", timeout=0.01)
    def lands_late() -> None:
        world.note("called")
        released.wait(30)

    @lands_late.compensation
    def undo(done: Done) -> None:
        world.note("undone")

    @lands_late.probe
    def nothing_yet(asked: Asked) -> NotHappened:
        world.note("asked")
        return NotHappened()

    async def whole() -> Ended:
        async with coordinator(settings=Settings(lease_s=1_000_000, settle_s=0.01)) as opened:
            ended = await opened.run(one_after_another(lands_late))
            released.set()
            return ended

    ended = asyncio.run(whole())
    assert world.seen == ["called", "asked", "asked", "asked"]
    assert ended.status == "incident"


def test_a_task_group_that_a_step_brings_down_names_that_step() -> None:
    world = World()
    a, b = world.action("a"), world.action("b", Fatal("declined", happened=False))

    @saga("test.task_group")
    async def grouped(s: Work) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(s.do(a))
            group.create_task(s.do(b))

    ended = run(grouped)
    assert (ended.status, ended.cause, ended.step) == ("rolled_back", "fatal", "0.2/1")
    assert "declined" in ended.why
    assert world.seen == ["a", "b", "una"]


def test_an_exception_that_the_function_catches_does_not_roll_back() -> None:
    world = World()
    a, b = world.action("a", Fatal("no", happened=False)), world.action("b")

    @saga("test.catches")
    async def catches(s: Work) -> str:
        try:
            await s.do(a)
        except Fatal:
            await s.do(b)
        return "b instead"

    ended = run(catches)
    assert (ended.status, ended.result) == ("completed", "b instead")
    assert world.seen == ["a", "b"]


def test_a_caught_step_whose_outcome_nobody_knows_is_settled_before_the_saga_counts_as_complete() -> None:
    world = World()
    a, b = world.action("a", ConnectionError("reset")), world.action("b")

    @saga("test.settles")
    async def settles(s: Work) -> str:
        try:
            await s.do(a)
        except StepLostError:
            await s.do(b)
        return "done"

    ended = run(settles)
    assert (ended.status, ended.result) == ("completed", "done")
    assert world.seen == ["a", "b", "una?"]


def test_what_the_function_sees_tells_failed_from_lost() -> None:
    world = World()
    failed, lost = world.action("f", NotDone("no"), retries=1), world.action("l", OSError("gone"))
    seen: list[type] = []

    @saga("test.sees")
    async def sees(s: Work) -> None:
        for each in (failed, lost):
            try:
                await s.do(each)
            except amends.StepError as exc:
                seen.append(type(exc))

    run(sees)
    assert seen == [StepFailedError, StepLostError]
    assert issubclass(StepFailedError, NotDone)


def test_parallel_steps_are_taken_back_in_reverse_order_of_their_intents() -> None:
    world = World()
    a, b, c = world.action("a"), world.action("b"), world.action("c", Fatal("no"))

    @saga("test.parallel")
    async def parallel(s: Work) -> None:
        await asyncio.gather(s.do(a), s.do(b))
        await s.do(c)

    assert run(parallel).status == "rolled_back"
    assert world.seen == ["a", "b", "c", "unc?", "unb", "una"]


def test_a_sibling_in_flight_is_waited_for_and_taken_back_when_another_branch_fails() -> None:
    world = World()
    fatal = world.action("fatal", Fatal("no", happened=False))
    begun = asyncio.Event()

    @action("test.sibling")
    async def sibling() -> None:
        begun.set()
        await asyncio.sleep(0.02)
        world.note("sibling landed")

    @sibling.compensation
    async def unsibling(done: Done) -> None:
        world.note(f"unsibling {done.certain}")

    @saga("test.siblings")
    async def siblings(s: Work) -> None:
        async def fails() -> None:
            await begun.wait()
            await s.do(fatal)

        await asyncio.gather(s.do(sibling), fails())

    assert run(siblings).status == "rolled_back"
    assert world.seen == ["fatal", "sibling landed", "unsibling True"]


def test_a_step_that_the_function_itself_cancels_is_lost_and_seen_to() -> None:
    world = World()

    @action("test.endless")
    async def endless() -> None:
        world.note("endless")
        await asyncio.Event().wait()

    @endless.compensation
    async def unendless(done: Done) -> None:
        world.note(f"unendless {done.certain}")

    @saga("test.gives_up")
    async def gives_up(s: Work) -> str:
        try:
            async with asyncio.timeout(0.01):
                await s.do(endless)
        except TimeoutError:
            return "gave up"
        return "never"

    ended = run(gives_up)
    assert (ended.status, ended.result) == ("completed", "gave up")
    assert world.seen == ["endless", "unendless False"]


def test_an_undeclared_action_is_refused_in_production_and_nothing_is_dispatched() -> None:
    world = World()
    line = one_after_another(world.action("a"), world.action("b", undeclared=True))
    ended = run(line, env="production")
    assert (ended.status, ended.cause) == ("rolled_back", "denied")
    assert world.seen == ["a", "una"]
    assert "neither a compensation nor a no-rollback reason" in ended.why


def test_a_denied_step_can_be_caught() -> None:
    world = World()
    b = world.action("b", undeclared=True)

    @saga("test.denied")
    async def denied(s: Work) -> str:
        try:
            await s.do(b)
        except StepDeniedError:
            return "fine"
        return "never"

    assert run(denied, env="production").result == "fine"


def test_read_only_actions_are_retried_and_never_compensated() -> None:
    world = World()
    look = world.action("look", OSError("flaky"), read_only=True, result=1)
    ended = run(one_after_another(look, world.action("a", Fatal("no", happened=False))), env="production")
    assert ended.status == "rolled_back"
    assert world.seen == ["look", "look", "a"]


def test_a_result_that_cannot_be_stored_has_still_happened_and_is_taken_back_with_certainty() -> None:
    world = World()
    ended = run(one_after_another(world.action("a", result={1, 2})))
    assert ended.status == "rolled_back"
    assert "set" in ended.why
    assert world.seen == ["a", "una"]


def test_arguments_that_cannot_be_stored_are_refused_before_anything_is_dispatched() -> None:
    world = World()
    a = world.action("a")
    told: list[str] = []

    @saga("test.bad_args")
    async def bad_args(s: Work) -> None:
        try:
            await s.do(a, object())
        except NotJsonError as exc:
            told.append(str(exc))
            raise

    assert run(bad_args).status == "rolled_back"
    assert told == ["test.a: n has to be a whole number, not an object"]
    assert world.seen == []


def test_the_action_runs_with_what_is_on_record_whatever_the_caller_does_to_its_own_copy() -> None:
    seen: list[Any] = []

    @action("test.mutable", idempotent=True)
    async def mutable(items: list[int]) -> None:
        items.append(99)
        seen.append(list(items))
        if len(seen) == 1:
            raise ConnectionError

    @mutable.compensation
    async def undo(done: Done) -> None: ...

    @saga("test.mutates")
    async def mutates(s: Work) -> list[int]:
        mine = [1]
        await s.do(mutable, mine)
        return mine

    assert run(mutates).result == [1]
    assert seen == [[1, 99], [1, 99]]


def test_plain_functions_run_in_a_thread_with_the_key() -> None:
    seen: list[Any] = []

    @action("test.plain")
    def plain(a: int, *, b: str = "x") -> str:
        seen.append((a, b, amends.key(), threading.current_thread() is threading.main_thread()))
        return b

    @plain.compensation
    def undo(done: Done) -> None:
        seen.append((done.args, done.result))

    @saga("test.threads")
    async def threads(s: Work) -> None:
        await s.do(plain, 1)
        raise RuntimeError("back")

    run(threads)
    (a, b, key, on_main), undone = seen
    assert (a, b, on_main) == (1, "x", False)
    assert len(key) == 32
    assert undone == ({"a": 1, "b": "x"}, "x")


def test_one_sequential_step_is_one_append() -> None:
    world = World()

    async def whole() -> tuple[list[str], int]:
        async with coordinator() as opened:
            ended = await opened.run(one_after_another(world.action("a"), world.action("b")))
            history = await opened.show(ended.id)
            return names(history.entries), len({entry.at for entry in history.entries})

    entries, _ = asyncio.run(whole())
    assert entries == [
        "saga.started",
        "action.dispatched",
        "attempt.succeeded",
        "action.dispatched",
        "attempt.succeeded",
        "saga.completed",
    ]
