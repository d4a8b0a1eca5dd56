"""Rollbacks, pivots and incidents: what is taken back, what is refused, and when a person is called."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from amends import (
    ChangedSince,
    Coordinator,
    Done,
    Ended,
    Fatal,
    Registry,
    Retries,
    SagaDefinition,
    Settings,
    Work,
    action,
    saga,
)
from amends.errors import PastPivotError, RefusedError, UnknownIncidentError, UnknownSagaError
from amends.journal.sqlite import SqliteJournal
from tests.runtime.support import World, coordinator, names
from tests.runtime.test_going_forward import one_after_another

QUICK = Settings(lease_s=1_000_000, settle_s=1)


def play(scene: Callable[[Coordinator], Awaitable[Any]], **options: Any) -> Any:
    async def whole() -> Any:
        async with coordinator(**options) as opened:
            return await scene(opened)

    return asyncio.run(whole())


def failing(world: World, *actions: Any) -> SagaDefinition:
    return one_after_another(*actions, world.action("end", Fatal("the end", happened=False)))


def test_a_compensation_is_retried_with_its_own_stable_key() -> None:
    world = World()
    ended = play(lambda on: on.run(failing(world, world.action("a", undo=[OSError("down"), OSError("down")]))))
    assert ended.status == "rolled_back"
    assert world.seen == ["a", "end", "una", "una", "una"]
    forward, _, *back = world.keys
    assert len(set(back)) == 1
    assert forward not in back


def test_the_first_compensation_shares_the_write_of_the_failure(tmp_path: Path) -> None:
    """It had one of its own, though the failure that it follows from had not been written yet."""
    world = World()

    async def scene() -> int:
        path = str(tmp_path / "amends.db")
        async with Coordinator.open(path, registry=Registry(), settings=QUICK, signals=False) as on:
            journal = on.journal
            assert isinstance(journal, SqliteJournal)
            before = journal.commits
            assert (await on.run(failing(world, world.action("a"), world.action("b")))).status == "rolled_back"
            return journal.commits - before

    assert asyncio.run(scene()) == 6  # of three intents forward, two back, and the end
    assert world.seen == ["a", "b", "end", "unb", "una"]


def test_a_compensation_that_cannot_be_made_to_work_is_an_incident_that_names_what_is_left() -> None:
    world = World()
    broken = world.action("b", undo=[OSError("down")] * 99, compensation_retries=2)

    async def scene(on: Coordinator) -> tuple[Ended, Any]:
        ended = await on.run(failing(world, world.action("a"), broken))
        return ended, (await on.incidents())[0]

    ended, incident = play(scene)
    assert ended.status == "incident"
    assert world.seen == ["a", "b", "end", "unb", "unb"]
    assert (incident.kind, incident.step, incident.left) == ("compensation_failed", "2", ("2", "1"))
    assert ended.incidents == (incident.id,)


def test_a_retried_incident_goes_on_where_it_stopped() -> None:
    world = World()
    broken = world.action("b", undo=[OSError("down")] * 2, compensation_retries=2)

    async def scene(on: Coordinator) -> tuple[Ended, int]:
        ended = await on.run(failing(world, world.action("a"), broken))
        again = await on.retry_incident(ended.incidents[0], by="person:ann")
        return again, len(await on.incidents())

    ended, still_open = play(scene)
    assert (ended.status, still_open) == ("rolled_back", 0)
    assert world.seen == ["a", "b", "end", "unb", "unb", "unb", "una"]


def test_a_resolved_incident_lets_the_rollback_go_on_with_the_older_steps() -> None:
    world = World()
    broken = world.action("b", undo=[Fatal("never")])

    async def scene(on: Coordinator) -> tuple[Ended, list[str]]:
        ended = await on.run(failing(world, world.action("a"), broken))
        with pytest.raises(RefusedError, match="needs a reason"):
            await on.resolve_incident(ended.incidents[0], reason=" ")
        again = await on.resolve_incident(ended.incidents[0], reason="refunded by hand", by="person:ann")
        return again, names((await on.show(ended.id)).entries)

    ended, entries = play(scene)
    assert ended.status == "rolled_back"
    assert world.seen == ["a", "b", "end", "unb", "una"]
    assert "incident.resolved" in entries


def test_an_action_may_declare_that_the_rollback_goes_on_past_its_incident() -> None:
    world = World()
    broken = world.action("b", undo=[Fatal("never")], on_incident="go_on")

    async def scene(on: Coordinator) -> tuple[Ended, Any, Ended]:
        ended = await on.run(failing(world, world.action("a"), broken))
        incident = (await on.incidents())[0]
        return ended, incident, await on.resolve_incident(incident.id, reason="by hand")

    ended, incident, resolved = play(scene)
    assert world.seen == ["a", "b", "end", "unb", "una"]
    assert (ended.status, incident.left, resolved.status) == ("incident", ("2",), "rolled_back")


def test_changed_since_is_an_incident_and_never_an_overwrite() -> None:
    world = World()

    async def scene(on: Coordinator) -> str:
        ended = await on.run(failing(world, world.action("a", undo=[ChangedSince("ann set it since")])))
        assert ended.status == "incident"
        return (await on.incidents())[0].kind

    assert play(scene) == "changed_since"
    assert world.seen == ["a", "end", "una"]


def test_a_compensation_that_runs_out_of_time_is_retried_then_an_incident() -> None:
    world = World()

    @action("test.hang_back", compensation_timeout=0.01, compensation_retries=Retries(attempts=2, first_s=0))
    async def act() -> None: ...

    @act.compensation
    async def hang(done: Done) -> None:
        world.note("hang")
        await asyncio.Event().wait()

    async def scene(on: Coordinator) -> str:
        assert (await on.run(failing(world, act))).status == "incident"
        return (await on.incidents())[0].kind

    assert play(scene) == "compensation_timed_out"
    assert world.seen == ["end", "hang", "hang"]


def test_a_rollback_window_that_closes_leaves_an_incident_that_can_be_resumed() -> None:
    world = World()
    stubborn = world.action(
        "b", undo=[OSError("down")] * 3, compensation_retries=Retries(attempts=50, first_s=40, cap_s=40)
    )

    async def scene(on: Coordinator) -> tuple[Ended, str, Ended]:
        ended = await on.run(failing(world, world.action("a"), stubborn))
        incident = (await on.incidents())[0]
        return ended, incident.kind, await on.retry_incident(incident.id)

    ended, kind, again = play(scene, settings=Settings(lease_s=1_000_000, rollback_s=60))
    assert (ended.status, kind, again.status) == ("incident", "compensation_timed_out", "rolled_back")


def test_an_undeclared_step_that_took_effect_is_named_when_the_saga_rolls_back() -> None:
    world = World()

    async def scene(on: Coordinator) -> Any:
        ended = await on.run(failing(world, world.action("a"), world.action("b", undeclared=True)))
        return ended.status, (await on.incidents())[0]

    status, incident = play(scene)
    assert status == "incident"
    assert (incident.kind, incident.left) == ("compensation_missing", ("2", "1"))


def test_past_a_pivot_a_failure_calls_a_person_and_nothing_is_taken_back() -> None:
    world = World()
    mail = world.action("mail", no_rollback="a mail cannot be unsent")

    async def scene(on: Coordinator) -> tuple[Ended, Any, Ended]:
        ended = await on.run(failing(world, world.action("a"), mail))
        incident = (await on.incidents())[0]
        return ended, incident, await on.retry_incident(incident.id)

    ended, incident, again = play(scene)
    assert (ended.status, incident.kind) == ("incident", "past_pivot")
    assert "test.mail" in incident.why
    assert "a mail cannot be unsent" in incident.why
    assert again.status == "completed"
    assert world.seen == ["a", "mail", "end", "end"]


def test_a_person_may_end_a_saga_past_its_pivot_by_hand() -> None:
    world = World()
    mail = world.action("mail", no_rollback="sent is sent")

    async def scene(on: Coordinator) -> Ended:
        ended = await on.run(failing(world, mail))
        return await on.resolve_incident(ended.incidents[0], reason="finished by hand")

    assert play(scene).status == "completed"


def test_a_saga_with_a_pivot_cannot_be_cancelled_and_the_refusal_names_it() -> None:
    world = World()

    async def scene(on: Coordinator) -> None:
        ended = await on.run(one_after_another(world.action("a"), world.action("mail", no_rollback="sent is sent")))
        with pytest.raises(PastPivotError, match=r"step 2 \(test\.mail\)"):
            await on.cancel(ended.id)

    play(scene)
    assert world.seen == ["a", "mail"]


def test_a_lost_irreversible_step_is_an_incident_and_not_a_guess() -> None:
    world = World()

    async def scene(on: Coordinator) -> Any:
        mail = world.action("mail", ConnectionError("reset"), no_rollback="sent is sent")
        ended = await on.run(one_after_another(world.action("a"), mail))
        return ended.status, (await on.incidents())[0]

    status, incident = play(scene)
    assert (status, incident.kind, incident.step) == ("incident", "outcome_unknown", "2")
    assert world.seen == ["a", "mail"]


def test_a_completed_saga_can_be_cancelled_newest_first() -> None:
    world = World()

    async def scene(on: Coordinator) -> Ended:
        ended = await on.run(one_after_another(world.action("a"), world.action("b")))
        return await on.cancel(ended.id, why="the customer changed his mind", by="person:ann")

    ended = play(scene)
    assert (ended.status, ended.cause, ended.why) == ("rolled_back", "cancelled", "the customer changed his mind")
    assert world.seen == ["a", "b", "unb", "una"]


def test_a_running_saga_that_is_cancelled_lets_the_running_step_finish_then_rolls_back() -> None:
    world = World()
    inside, go_on = asyncio.Event(), asyncio.Event()

    @action("test.running")
    async def running() -> None:
        inside.set()
        await go_on.wait()
        world.note("running")

    @running.compensation
    async def unrunning(done: Done) -> None:
        world.note(f"unrunning {done.certain}")

    async def scene(on: Coordinator) -> Ended:
        handle = await on.start(one_after_another(running, world.action("b")))
        await inside.wait()
        cancelling = asyncio.ensure_future(on.cancel(handle.id))
        await asyncio.sleep(0)
        go_on.set()
        await cancelling
        return await handle

    assert play(scene).status == "rolled_back"
    assert world.seen == ["running", "unrunning True"]


def test_a_saga_that_waits_outside_its_steps_can_be_cancelled() -> None:
    world = World()
    a, inside = world.action("a"), asyncio.Event()

    @saga("test.thinks")
    async def thinks(s: Work) -> None:
        await s.do(a)
        inside.set()
        await asyncio.Event().wait()

    async def scene(on: Coordinator) -> Ended:
        handle = await on.start(thinks)
        await inside.wait()
        return await on.cancel(handle.id)

    assert play(scene).status == "rolled_back"
    assert world.seen == ["a", "una"]


def test_cancelling_twice_is_refused_and_an_unknown_saga_is_named() -> None:
    world = World()

    async def scene(on: Coordinator) -> None:
        ended = await on.run(one_after_another(world.action("a")))
        await on.cancel(ended.id)
        with pytest.raises(RefusedError, match="rollback has begun already"):
            await on.cancel(ended.id)
        with pytest.raises(UnknownSagaError, match="no-such"):
            await on.cancel("no-such")
        with pytest.raises(UnknownIncidentError, match="no-such"):
            await on.retry_incident("no-such")
        with pytest.raises(UnknownIncidentError, match="no incident 7"):
            await on.retry_incident(f"{ended.id}/7")

    play(scene)


def test_the_before_image_reaches_the_compensation() -> None:
    roles = {"ann": "admin"}

    @action("test.set_role")
    async def set_role(user: str, role: str) -> None:
        roles[user] = role

    @set_role.before
    def old_role(user: str) -> str:
        return roles[user]

    @set_role.compensation
    async def restore(done: Done) -> None:
        if roles[done.args["user"]] != done.args["role"]:
            raise ChangedSince("someone else set it")
        roles[done.args["user"]] = done.before

    @saga("test.roles")
    async def change(s: Work) -> None:
        await s.do(set_role, "ann", "viewer")
        assert roles["ann"] == "viewer"
        raise RuntimeError("back")

    assert play(lambda on: on.run(change)).status == "rolled_back"
    assert roles == {"ann": "admin"}


def test_a_before_image_that_cannot_be_had_is_a_step_that_failed_with_certainty() -> None:
    world = World()
    a = world.action("a")

    @a.before
    async def capture(asked: Any) -> None:
        world.note(f"before {asked.step}")
        raise LookupError("no such user")

    ended = play(lambda on: on.run(one_after_another(a)))
    assert (ended.status, ended.cause) == ("rolled_back", "failed")
    assert world.seen == ["before 1"]
