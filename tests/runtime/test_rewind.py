"""Surgical rollback: checkpoints, taking a part of the work back and going on, block by block or from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from amends import Coordinator, Ended, Fatal, NotDone, Registry, SagaDefinition, StepError, Work, action, saga
from amends.core import commands as c
from amends.core.events import ActionDispatched
from amends.core.words.values import SagaId
from amends.errors import (
    DeclarationError,
    InputError,
    PastPivotError,
    RefusedError,
    UnknownCheckpointError,
)
from amends.evidence.story.timeline import timeline
from amends.journal.memory import Memory, MemoryJournal
from amends.runtime.drive.run import Run
from amends.types import Feedback, RollbackPlan
from tests.runtime.support import QuickClock, World, coordinator, names
from tests.runtime.test_going_back import play


def told(ended: Ended) -> tuple[str, Any]:
    return str(ended.status), ended.result


# -- inside the function ----------------------------------------------------------------------------------------------


def test_going_back_to_a_checkpoint_takes_back_what_came_after_it_newest_first_and_goes_on() -> None:
    world = World()
    a, b, c, d = (world.action(name) for name in "abcd")

    @saga("test.to")
    async def work(s: Work) -> list[Any]:
        await s.do(a)
        assert await s.checkpoint("before") is None
        await s.do(b)
        await s.do(c)
        back = await s.rollback_to("before", "b and c did not help")
        await s.do(d)
        return [back.why, [one.topic for one in back.taken_back]]

    ended = play(lambda on: on.run(work))
    assert told(ended) == ("completed", ["b and c did not help", ["test.c", "test.b"]])
    assert world.seen == ["a", "b", "c", "unc", "unb", "d"]


def test_the_last_steps_are_taken_back_and_what_only_reads_does_not_count() -> None:
    world = World()
    a, b, c = (world.action(name) for name in "abc")
    look = world.action("look", read_only=True)

    @saga("test.last")
    async def work(s: Work) -> None:
        for one in (a, b, c, look):
            await s.do(one)
        await s.rollback_last(2, "two too many")
        await s.do(a)

    assert play(lambda on: on.run(work)).status == "completed"
    assert world.seen == ["a", "b", "c", "look", "unc", "unb", "a"]


def test_a_failed_block_is_taken_back_and_tried_again_knowing_why() -> None:
    world = World()
    hold = world.action("hold")
    charge = world.action("charge", Fatal("declined", happened=False), result="paid")
    seen: list[Feedback | None] = []

    @saga("test.attempts")
    async def work(s: Work) -> Any:
        paid = None
        async for attempt in s.attempts("payment", max=3):
            async with attempt:
                seen.append(attempt.feedback)
                await s.do(hold, attempt.number)
                paid = await s.do(charge)
        return paid

    ended = play(lambda on: on.run(work))
    assert told(ended) == ("completed", "paid")
    assert world.seen == ["hold(1)", "charge", "unhold", "hold(2)", "charge"]
    first, second = seen
    assert first is None
    assert second is not None
    assert (second.number, second.topic, second.why) == (1, "test.charge", "test.charge (step 3): declined")
    assert [one.topic for one in second.taken_back] == ["test.hold"]
    assert str(second) == ("try 1 failed: test.charge (step 3): declined; taken back: test.hold (step 2)")


def test_after_the_last_attempt_its_exception_leaves_the_loop_and_it_is_taken_back_too() -> None:
    world = World()
    a = world.action("a")

    @saga("test.all_fail")
    async def work(s: Work) -> list[int]:
        numbers: list[int] = []
        try:
            async for attempt in s.attempts("it", max=2):
                async with attempt:
                    numbers.append(len(attempt.feedback.all) if attempt.feedback else 0)
                    await s.do(a, attempt.number)
                    raise ValueError(f"no good, {attempt.number}")
        except ValueError as exc:
            numbers.append(int(str(exc)[-1]))
        return numbers

    ended = play(lambda on: on.run(work))
    assert told(ended) == ("completed", [0, 1, 2])
    assert world.seen == ["a(1)", "una", "a(2)", "una"]


def test_a_lost_step_of_a_block_is_taken_back_as_uncertain() -> None:
    world = World()
    lost = world.action("lost", OSError("no answer"))

    @saga("test.lost_block")
    async def work(s: Work) -> None:
        async for attempt in s.attempts("it", max=2):
            async with attempt:
                await s.do(lost)

    assert play(lambda on: on.run(work)).status == "completed"
    assert world.seen == ["lost", "unlost?", "lost"]


def test_a_block_takes_back_its_own_steps_and_nothing_of_a_branch_beside_it() -> None:
    world = World()
    a, b, fails = world.action("a"), world.action("b"), world.action("fails", NotDone("no"), retries=1)
    beside = asyncio.Event()

    @saga("test.beside")
    async def work(s: Work) -> None:
        async def block() -> None:
            async for attempt in s.attempts("block", max=2):
                async with attempt:
                    await asyncio.gather(s.do(a), s.do(a, 1))
                    if attempt.number == 1:
                        await beside.wait()
                    await s.do(fails)

        async def other() -> None:
            await s.do(b)
            beside.set()
            await s.do(b, 2)

        await asyncio.gather(block(), other())

    assert play(lambda on: on.run(work)).status == "completed"
    assert sorted(world.seen) == sorted(["a", "a(1)", "b", "b(2)", "fails", "una", "una", "a", "a(1)", "fails"])
    assert "unb" not in world.seen


def test_what_still_runs_of_a_failed_block_is_settled_and_taken_back_and_begins_nothing_new() -> None:
    world = World()
    going, fails = asyncio.Event(), world.action("fails", NotDone("no"), retries=1)
    a = world.action("a")

    @saga("test.stray")
    async def work(s: Work) -> str:
        async def two() -> None:
            await s.do(a, 1)
            going.set()
            await asyncio.sleep(0)
            await s.do(a, 2)

        async def one() -> None:
            await going.wait()
            await s.do(fails)

        async for attempt in s.attempts("block", max=2):
            async with attempt:
                if attempt.number == 1:
                    await asyncio.gather(one(), two())
        return "done"

    ended = play(lambda on: on.run(work))
    assert told(ended) == ("completed", "done")
    assert world.seen.count("a(1)") + world.seen.count("a(2)") == world.seen.count("una")


def test_blocks_may_stand_inside_blocks() -> None:
    world = World()
    outer, inner = world.action("outer"), world.action("inner", NotDone("no"), None, NotDone("no"), retries=1)
    after = world.action("after", NotDone("no"), retries=1)

    @saga("test.nested")
    async def work(s: Work) -> None:
        async for attempt in s.attempts("outer", max=2):
            async with attempt:
                await s.do(outer)
                async for again in s.attempts("inner", max=2):
                    async with again:
                        await s.do(inner, again.number)
                await s.do(after)

    assert play(lambda on: on.run(work)).status == "completed"
    assert world.seen == [
        *("outer", "inner(1)", "inner(2)", "after", "uninner", "unouter"),
        *("outer", "inner(1)", "inner(2)", "after"),
    ]


def test_a_name_that_is_used_again_means_the_newest_place() -> None:
    world = World()
    a = world.action("a")

    @saga("test.twice")
    async def work(s: Work) -> None:
        for n in (1, 2):
            await s.checkpoint("turn")
            await s.do(a, n)
        await s.rollback_to("turn", "the second one only")

    assert play(lambda on: on.run(work)).status == "completed"
    assert world.seen == ["a(1)", "a(2)", "una"]


# -- called again -----------------------------------------------------------------------------------------------------


def test_called_again_each_rollback_is_answered_from_the_journal() -> None:
    """The steps that were taken back still answer with what they gave, up to the place where they were taken back."""
    world, memory, registry, clock = World(), Memory(), Registry(), QuickClock()
    a = world.action("a", result="first")
    seen: list[list[Any]] = []

    @saga("test.again")
    async def work(s: Work) -> None:
        story: list[Any] = []
        seen.append(story)
        story.append(await s.do(a))
        await s.checkpoint("here")
        async for attempt in s.attempts("block", max=3):
            async with attempt:
                story.append(str(attempt.feedback))
                story.append(await s.do(a, attempt.number))
                if attempt.number < 3:
                    raise ValueError("try again")
        story.append(str(await s.rollback_to("here", "why not")))
        story.append(str(await s.rollback_last(1, "that too")))
        story.append("the end")
        if len(seen) < 3:
            await asyncio.Event().wait()

    async def until_the_end(times: int) -> list[Ended]:
        async with coordinator(memory, registry=registry, clock=clock) as on:
            if not seen:
                _ = await on.start(work, id="s")
            driven = asyncio.ensure_future(on.resume())
            while len(seen) < times or seen[-1][-1:] != ["the end"]:
                await asyncio.sleep(0)
            return await driven if times == 3 else []

    assert asyncio.run(until_the_end(1)) == []
    assert asyncio.run(until_the_end(2)) == []
    (ended,) = asyncio.run(until_the_end(3))
    assert ended.status == "completed"
    assert seen[0] == seen[1] == seen[2]
    assert world.seen == ["a", "a(1)", "una", "a(2)", "una", "a(3)", "una", "una"]


def test_what_a_failed_block_waited_for_is_not_waited_for_any_more() -> None:
    """Else the next signal of that name would go to a branch that nobody listens in."""
    world = World()
    fails = world.action("fails", NotDone("no"), retries=1)

    @saga("test.waits")
    async def work(s: Work) -> Any:
        async for attempt in s.attempts("block", max=2):
            async with attempt:
                if attempt.number == 1:
                    await asyncio.gather(s.wait_for("go"), s.do(fails))
        return await s.wait_for("go")

    async def scene(on: Coordinator) -> Ended:
        handle = await on.start(work, id="s")
        while "fails" not in world.seen:
            await asyncio.sleep(0)
        while names((await on.show("s")).entries)[-2:] != ["checkpoint.made", "wait.started"]:
            await asyncio.sleep(0)
        await on.signal("s", "go", "now")
        return await handle

    assert told(play(scene)) == ("completed", "now")


def test_a_signal_that_was_taken_up_after_the_checkpoint_is_there_again_after_going_back_to_it() -> None:
    world = World()
    a = world.action("a")

    @saga("test.signals")
    async def work(s: Work) -> Any:
        feedback = await s.checkpoint("start")
        if feedback is None:
            await s.do(a)
            await s.sleep(0.5)
        return await s.wait_for("go")

    async def scene(on: Coordinator) -> tuple[Ended, Ended, list[str]]:
        handle = await on.start(work, id="s")
        await on.signal("s", "go", "now", early=True)
        first, again = await handle, await on.rollback("s", to="start")
        return first, again, [line.text for line in timeline((await on.show("s")).entries)]

    first, again, lines = play(scene)
    assert told(first) == told(again) == ("completed", "now")
    assert [line for line in lines if "signal 1," in line or line.endswith("signal 1")] == [
        "goes on with signal 1",
        "goes on with signal 1, again",
    ]
    assert world.seen == ["a", "una"]


# -- incidents --------------------------------------------------------------------------------------------------------


def test_a_rewind_that_cannot_be_finished_is_an_incident_and_goes_on_when_a_person_retries_it() -> None:
    world = World()
    a = world.action("a", undo=[OSError("down")] * 2, compensation_retries=2)
    b = world.action("b")

    @saga("test.stuck")
    async def work(s: Work) -> str:
        await s.checkpoint("here")
        await s.do(a)
        await s.do(b)
        await s.rollback_to("here", "away with it")
        await s.do(b)
        return "done"

    async def scene(on: Coordinator) -> tuple[Ended, Any, Ended]:
        stuck = await on.run(work)
        (incident,) = await on.incidents()
        return stuck, incident, await on.retry_incident(incident.id, by="person:ann")

    stuck, incident, ended = play(scene)
    assert stuck.status == "incident"
    assert (incident.kind, incident.step) == ("compensation_failed", "2")
    assert told(ended) == ("completed", "done")
    assert world.seen == ["a", "b", "unb", "una", "una", "una", "b"]


def test_a_person_may_vouch_for_a_step_of_a_rewind_and_the_work_goes_on() -> None:
    world = World()
    a = world.action("a", undo=[OSError("down")] * 9, compensation_retries=1)

    @saga("test.vouched")
    async def work(s: Work) -> list[str]:
        await s.do(a)
        back = await s.rollback_last(1, "away with it")
        return [one.step for one in back.taken_back]

    async def scene(on: Coordinator) -> Ended:
        await on.run(work)
        (incident,) = await on.incidents()
        return await on.resolve_incident(incident.id, reason="done by hand", by="person:ann")

    assert told(play(scene)) == ("completed", ["1"])


def test_a_saga_that_is_cancelled_in_the_middle_of_a_rewind_rolls_back_wholly() -> None:
    world = World()
    a = world.action("a")
    b = world.action("b", undo=[OSError("down")] * 9, compensation_retries=1)

    @saga("test.superseded")
    async def work(s: Work) -> None:
        await s.do(a)
        await s.do(b)
        await s.rollback_last(1, "away with it")

    async def scene(on: Coordinator) -> Ended:
        stuck = await on.run(work)
        assert stuck.status == "incident"
        again = await on.cancel(stuck.id, by="person:ann")
        assert again.status == "incident"
        return await on.resolve_incident(again.incidents[0], reason="by hand", by="person:ann")

    assert play(scene).status == "rolled_back"
    assert world.seen == ["a", "b", "unb", "unb", "una"]


def test_cancelling_tries_again_what_a_rewind_could_not_take_back() -> None:
    world = World()
    a = world.action("a")
    b = world.action("b", undo=[OSError("down")] * 2, compensation_retries=2)

    @saga("test.tried_again")
    async def work(s: Work) -> None:
        await s.do(a)
        await s.do(b)
        await s.rollback_last(1, "away with it")

    async def scene(on: Coordinator) -> tuple[Ended, Any]:
        stuck = await on.run(work)
        ended = await on.cancel(stuck.id, by="person:ann")
        return ended, await on.incidents(open_only=False)

    ended, (incident,) = play(scene)
    assert (ended.status, incident.status) == ("rolled_back", "retried")
    assert world.seen == ["a", "b", "unb", "unb", "unb", "una"]


# -- refusals ---------------------------------------------------------------------------------------------------------


def refusing(call: Any) -> SagaDefinition:
    world = World()
    a, mail = world.action("a"), world.action("mail", no_rollback="a mail cannot be unsent")

    @saga("test.refusing")
    async def work(s: Work) -> str:
        await s.checkpoint("start")
        await s.do(a)
        await s.do(mail)
        await s.checkpoint("after")
        try:
            await call(s)
        except (RefusedError, UnknownCheckpointError, InputError) as exc:
            return f"{type(exc).__name__}: {exc}"
        return "it was allowed"

    return work


async def _elsewhere(s: Work) -> None:
    await asyncio.create_task(s.rollback_to("start", ""))


REFUSED: list[tuple[Callable[[Work], Awaitable[object]], str]] = [
    (lambda s: s.rollback_to("end", ""), "UnknownCheckpointError: .*'end'; there are: 'start', 'after'"),
    (lambda s: s.rollback_to("start", ""), r"PastPivotError: .*mail.*irreversible \(a mail cannot be unsent\)"),
    (lambda s: s.rollback_last(1, ""), "PastPivotError: .*mail"),
    (lambda s: s.rollback_last(0, ""), "InputError: .*at least 1 step"),
    (lambda s: s.rollback_last(3, ""), "RefusedError: .*only 2 steps .* ask for fewer"),
    (lambda s: s.checkpoint(""), "InputError: '' is not a checkpoint's name"),
    (_elsewhere, "RefusedError: .*another branch"),
]


@pytest.mark.parametrize(("call", "says"), REFUSED)
def test_what_cannot_be_taken_back_is_refused_and_says_what_to_do(call: Any, says: str) -> None:
    import re

    ended = play(lambda on: on.run(refusing(call)))
    assert re.search(says, ended.result), ended.result


def test_a_block_with_a_pivot_in_it_is_not_tried_again() -> None:
    world = World()
    mail = world.action("mail", no_rollback="a mail cannot be unsent")

    @saga("test.pivot_block")
    async def work(s: Work) -> None:
        async for attempt in s.attempts("block", max=3):
            async with attempt:
                await s.do(mail)
                raise ValueError("too late")

    ended = play(lambda on: on.run(work))
    assert ended.status == "incident"
    assert "too late" in ended.why
    assert "a mail cannot be unsent" in ended.why
    assert world.seen == ["mail"]


def test_above_a_pivot_a_block_is_taken_back_like_any_other() -> None:
    world = World()
    mail, a = world.action("mail", no_rollback="sent"), world.action("a")

    @saga("test.above_pivot")
    async def work(s: Work) -> None:
        await s.do(mail)
        async for attempt in s.attempts("block", max=2):
            async with attempt:
                await s.do(a)
                if attempt.number == 1:
                    raise ValueError("no")

    assert play(lambda on: on.run(work)).status == "completed"
    assert world.seen == ["mail", "a", "una", "a"]


def test_a_loop_of_attempts_that_does_not_enter_them_is_told_so() -> None:
    @saga("test.not_entered")
    async def work(s: Work) -> None:
        with pytest.raises(InputError, match="at least 1 attempt"):
            s.attempts("x", max=0)
        async for _ in s.attempts("x", max=3):
            pass

    ended = play(lambda on: on.run(work))
    assert "async with attempt" in ended.why
    assert DeclarationError.__name__ in ended.why


# -- from outside -----------------------------------------------------------------------------------------------------


def shipping(world: World, heard: list[str | None]) -> SagaDefinition:
    pack, ship, bill = world.action("pack", result="box"), world.action("ship"), world.action("bill")

    @saga("test.shipping")
    async def work(s: Work) -> list[str]:
        box = await s.do(pack)
        feedback = await s.checkpoint("packed")
        heard.append(None if feedback is None else str(feedback))
        await s.do(ship)
        await s.do(bill)
        return [box, "by post" if feedback is None else "by courier"]

    return work


def test_from_outside_a_completed_saga_goes_back_to_a_checkpoint_and_does_the_rest_anew() -> None:
    world, heard = World(), list[str | None]()

    async def scene(on: Coordinator) -> tuple[Ended, Ended, list[str]]:
        first = await on.run(shipping(world, heard), id="s")
        again = await on.rollback("s", to="packed", why="wrong address", by="person:ann")
        history = await on.show("s")
        return first, again, [str(step.id) for step in history.saga.steps.values()]

    first, again, steps = play(scene)
    assert told(first) == ("completed", ["box", "by post"])
    assert told(again) == ("completed", ["box", "by courier"])
    assert world.seen == ["pack", "ship", "bill", "unbill", "unship", "ship", "bill"]
    assert len(set(world.keys)) == len(world.keys)
    assert steps == ["1", "3", "4", "3~2", "4~2"]
    assert heard == [None, "try 1 failed: wrong address; taken back: test.bill (step 4), test.ship (step 3)"]


def test_from_outside_the_last_steps_go_and_are_done_anew() -> None:
    world, heard = World(), list[str | None]()

    async def scene(on: Coordinator) -> Ended:
        await on.run(shipping(world, heard), id="s")
        await on.rollback("s", last=1)
        return await on.rollback("s", last=2)

    assert told(play(scene)) == ("completed", ["box", "by post"])
    assert world.seen == ["pack", "ship", "bill", "unbill", "bill", "unbill", "unship", "ship", "bill"]
    assert heard == [None, None, None]


def test_from_outside_a_running_saga_is_stopped_goes_back_and_goes_on() -> None:
    world, heard = World(), list[str | None]()
    stuck = world.action("stuck", *[NotDone("not yet")] * 3)
    a = world.action("a")

    @saga("test.running")
    async def work(s: Work) -> str:
        feedback = await s.checkpoint("start")
        heard.append(None if feedback is None else feedback.why)
        await s.do(a)
        if feedback is None:
            await s.do(stuck)
            await asyncio.Event().wait()
        return "went another way"

    async def scene(on: Coordinator) -> Ended:
        handle = await on.start(work, id="s")
        while world.seen.count("stuck") < 4:
            await asyncio.sleep(0)
        rolled = await on.rollback("s", to="start", why="go another way")
        assert rolled == await handle
        return rolled

    assert told(play(scene)) == ("completed", "went another way")
    assert heard == [None, "go another way"]
    assert world.seen == ["a", "stuck", "stuck", "stuck", "stuck", "unstuck", "una", "a"]


def test_a_plan_says_what_would_be_taken_back_and_changes_nothing() -> None:
    world, heard = World(), list[str | None]()

    async def scene(on: Coordinator) -> tuple[RollbackPlan, RollbackPlan, int, int]:
        await on.run(shipping(world, heard), id="s")
        before = len((await on.show("s")).entries)
        part, whole = await on.rollback("s", to="packed", plan=True), await on.rollback("s", plan=True)
        return part, whole, before, len((await on.show("s")).entries)

    part, whole, before, after = play(scene)
    assert before == after
    assert [(one.order, one.topic) for one in part.steps] == [(1, "test.bill"), (2, "test.ship")]
    assert [one.topic for one in whole.steps] == ["test.bill", "test.ship", "test.pack"]
    assert part.is_clean
    assert str(part) == (
        "saga s, back to checkpoint 'packed': 2 steps would be taken back\n"
        "  1. test.bill (step 4): undo\n"
        "  2. test.ship (step 3): undo"
    )


def test_a_plan_names_what_cannot_be_taken_back() -> None:
    world = World()
    bare, mail = world.action("bare", undeclared=True), world.action("mail", no_rollback="sent is sent")

    @saga("test.cannot")
    async def work(s: Work) -> None:
        await s.do(bare)
        await s.do(mail)

    async def scene(on: Coordinator) -> RollbackPlan:
        await on.run(work, id="s")
        with pytest.raises(PastPivotError, match="irreversible"):
            await on.rollback("s", last=1)
        with pytest.raises(PastPivotError, match="irreversible"):
            await on.rollback("s")
        return await on.rollback("s", last=2, plan=True)

    plan = play(scene)
    assert not plan.is_clean
    assert "sent is sent" in plan.refused
    assert [one.why_not for one in plan.steps] == [
        "irreversible: sent is sent",
        "no compensation is declared; a person would be called",
    ]


def test_from_outside_too_what_makes_no_sense_is_refused() -> None:
    world, heard = World(), list[str | None]()

    async def scene(on: Coordinator) -> None:
        await on.run(shipping(world, heard), id="s")
        with pytest.raises(UnknownCheckpointError, match="no checkpoint 'nowhere'; there are: 'packed'"):
            await on.rollback("s", to="nowhere")
        with pytest.raises(InputError, match="at least 1 step"):
            await on.rollback("s", last=0)
        with pytest.raises(RefusedError, match="only 3 steps stand"):
            await on.rollback("s", last=4)
        with pytest.raises(InputError, match="not both"):
            await on.rollback("s", to="packed", last=1)
        assert (await on.rollback("s", why="all of it")).status == "rolled_back"
        with pytest.raises(RefusedError, match="rollback has begun already"):
            await on.rollback("s", to="packed")
        with pytest.raises(RefusedError, match="rolled back already"):
            await on.rollback("s", plan=True)

    play(scene)
    assert world.seen == ["pack", "ship", "bill", "unbill", "unship", "unpack"]


def test_a_checkpoint_in_a_part_that_was_taken_back_is_no_place_to_go_back_to() -> None:
    world = World()
    a = world.action("a")

    @saga("test.gone")
    async def work(s: Work) -> None:
        async for attempt in s.attempts("block", max=2):
            async with attempt:
                await s.do(a)
                await s.checkpoint(f"inside {attempt.number}")
                if attempt.number == 1:
                    raise ValueError("no")

    async def scene(on: Coordinator) -> Ended:
        await on.run(work, id="s")
        with pytest.raises(RefusedError, match="was taken back since; roll back further"):
            await on.rollback("s", to="inside 1")
        return await on.rollback("s", to="inside 2")

    assert play(scene).status == "completed"


def test_an_incident_may_be_left_by_going_back_to_a_checkpoint() -> None:
    world = World()
    a, b = world.action("a"), world.action("b", OSError("no answer"), undeclared=True)

    @saga("test.left")
    async def work(s: Work) -> str:
        await s.do(a)
        feedback = await s.checkpoint("here")
        if feedback is None:
            try:
                await s.do(b)
            except StepError:
                await s.rollback_to("here", "it may stand")
        return "done"

    async def scene(on: Coordinator) -> tuple[Ended, Ended]:
        stuck = await on.run(work, id="s")
        (incident,) = await on.incidents()
        ended = await on.resolve_incident(incident.id, reason="seen to", by="person:ann")
        return stuck, ended

    stuck, ended = play(scene)
    assert (stuck.status, ended.status, ended.result) == ("incident", "completed", "done")


def test_a_paused_saga_is_taken_back_to_a_place_and_is_paused_there_until_it_is_let_go_on() -> None:
    world = World()
    a, b = world.action("a"), world.action("b")

    @saga("test.paused_back")
    async def work(s: Work) -> str:
        await s.do(a)
        told = await s.checkpoint("cp")
        await s.do(b)
        if told is None:
            await s.wait_for("never")
        return "done"

    async def scene(on: Coordinator) -> tuple[str, str, list[str], Ended]:
        handle = await on.start(work, id="s")
        await handle.halt()
        await on.pause(saga="s", why="a look", by="person:kim")
        back = await on.rollback("s", to="cp", why="another way", by="person:kim")
        seen = list(world.seen)
        await on.unpause(saga="s", by="person:kim")
        return str(back.status), back.why, seen, await handle

    status, why, seen, ended = play(scene)
    assert (status, why, seen) == ("paused", "a look", ["a", "b", "unb"])
    assert (ended.status, ended.result, world.seen) == ("completed", "done", ["a", "b", "unb", "b"])


def test_a_branch_whose_intent_was_dropped_does_not_act_on_the_one_of_the_next_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its worker stood still while another had the saga go back; the function called again asks for the same step."""
    memory, seen = Memory(), list[str]()
    asked, back, wakes = asyncio.Event(), asyncio.Event(), asyncio.Event()
    commits: list[Run] = []
    append, commit = MemoryJournal.append, Run.commit_to_dispatch

    def appended_late(self: MemoryJournal, saga: SagaId, events: Any, **how: Any) -> Any:
        if not asked.is_set() and any(isinstance(event, ActionDispatched) for event in events):

            async def later() -> Any:
                asked.set()
                await back.wait()
                return await append(self, saga, events, **how)

            return asyncio.ensure_future(later())
        return append(self, saga, events, **how)

    async def committed_late(self: Run) -> None:
        commits.append(self)
        is_first = len(commits) == 1
        await commit(self)
        if is_first:
            await wakes.wait()

    @action("test.final", no_rollback="it is out")
    async def final() -> None:
        seen.append("final")
        wakes.set()
        await asyncio.sleep(0.05)

    monkeypatch.setattr(MemoryJournal, "append", appended_late)
    monkeypatch.setattr(Run, "commit_to_dispatch", committed_late)

    @saga("test.beside")
    async def work(s: Work) -> None:
        async def fails() -> None:
            await back.wait()
            await asyncio.sleep(0.2)  # until its worker has heard of it
            raise ValueError("the function is over, and the other branch goes on by itself")

        beside = fails() if await s.checkpoint("here") is None else asyncio.sleep(0)
        await asyncio.gather(s.do(final), beside)

    async def whole() -> None:
        clock = QuickClock()
        async with coordinator(memory, clock=clock) as one, coordinator(memory, clock=clock) as other:
            handle = await one.start(work, id="s")
            await asked.wait()
            goes = c.RollBackTo(to="here", last=None, by="person:ann", why="another way")
            await other._engine.request(SagaId("s"), goes)
            back.set()
            async with asyncio.timeout(20):
                assert (await handle).status == "completed"

    asyncio.run(whole())
    assert seen == ["final"]
