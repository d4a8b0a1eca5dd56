"""Documents: no change is lost, a rollback restores exactly, and what is not final only its own saga sees."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import pytest

from amends import (
    Coordinator,
    Done,
    Ended,
    Fatal,
    Registry,
    SagaDefinition,
    Secret,
    Settings,
    StepError,
    StepFatalError,
    Work,
    action,
    child,
    saga,
)
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.errors import DocumentConflictError, InputError, JournalConflictError, NotJsonError, TooLargeError
from amends.journal.memory import Memory
from amends.runtime.declare.names import login
from tests.runtime.support import QuickClock, coordinator, names

QUICK = Settings(park_s=0.05, poll_s=0.1, document_bytes=1000)
BOT = "agent:bot"


def play(path: Path, scene: Callable[[Coordinator], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        async with (
            asyncio.timeout(60),
            Coordinator.open(str(path / "j.db"), settings=QUICK, registry=Registry()) as opened,
        ):
            await scene(opened)

    asyncio.run(whole())


def doing(body: Callable[[Work], Coroutine[Any, Any, Any]], name: str = "with.documents") -> SagaDefinition:
    async def function(s: Work) -> Any:
        return await body(s)

    return saga(name)(function)


async def body_of(on: Coordinator, name: str) -> Any:
    found = await on.documents.get(name)
    return None if found is None else found.body


async def bodies(on: Coordinator, name: str) -> list[Any]:
    return [one.body async for one in on.documents.history(name)]


def test_what_a_saga_writes_is_final_when_it_has_completed(tmp_path: Path) -> None:
    async def scene(on: Coordinator) -> None:
        async def work(s: Work) -> Any:
            assert await s.state.get("notes") is None
            assert await s.state.set("notes", {"seen": 1}) == 1
            assert await body_of(on, "agent:bot/notes") is None
            await s.documents.set("shared/prices", [1, 2])
            return await s.state.get("notes")

        ended = await on.run(doing(work), actor=BOT, id="s1")
        assert (ended.status, ended.result) == ("completed", {"seen": 1})
        found = await on.documents.get("agent:bot/notes")
        assert found is not None
        assert (found.version, found.body, found.saga, found.by, found.final) == (1, {"seen": 1}, "s1", BOT, True)
        assert [one.name for one in await on.documents.list()] == ["agent:bot/notes", "shared/prices"]
        assert [one.name for one in await on.documents.list("shared/")] == ["shared/prices"]
        assert await on.locks() == []

    play(tmp_path, scene)


def test_a_rollback_restores_exactly_what_was_there(tmp_path: Path) -> None:
    async def scene(on: Coordinator) -> None:
        await on.documents.put("kept", {"n": [1, 2.5, "ä"]})
        await on.documents.put("gone", 1)

        async def work(s: Work) -> None:
            await s.documents.set("kept", 1)
            await s.documents.set("kept", 2)
            await s.documents.delete("gone")
            await s.documents.set("new", 1)
            raise Fatal("no")

        ended = await on.run(doing(work), id="s1")
        assert ended.status == "rolled_back"
        assert await body_of(on, "kept") == {"n": [1, 2.5, "ä"]}
        assert await bodies(on, "kept") == [{"n": [1, 2.5, "ä"]}, 1, 2, 1, {"n": [1, 2.5, "ä"]}]
        assert await body_of(on, "gone") == 1
        assert await body_of(on, "new") is None
        assert await bodies(on, "new") == [1, None]

    play(tmp_path, scene)


def test_a_conflicting_change_by_another_is_a_clear_conflict(tmp_path: Path) -> None:
    async def scene(on: Coordinator) -> None:
        gate, holds = asyncio.Event(), asyncio.Event()

        async def slow(s: Work) -> None:
            await s.documents.set("d", "slow")
            holds.set()
            await gate.wait()

        async def other(s: Work) -> None:
            assert await s.documents.get("d") is None
            await s.documents.set("d", "other")

        first = await on.start(doing(slow, "slow"), id="s1")
        await holds.wait()
        second = await on.run(doing(other, "other"), id="s2")
        assert (second.status, second.cause) == ("rolled_back", "error")
        assert second.why.startswith("DocumentConflictError: saga s1 holds document:d")
        with pytest.raises(DocumentConflictError, match="is being changed by saga s1, which has not ended"):
            await on.documents.put("d", "outside")
        gate.set()
        assert (await first).status == "completed"
        assert await bodies(on, "d") == ["slow"]

    play(tmp_path, scene)


def test_what_was_read_must_be_unchanged_when_it_is_written(tmp_path: Path) -> None:
    async def scene(on: Coordinator) -> None:
        await on.documents.put("count", 1)

        async def work(s: Work) -> str:
            seen = await s.documents.get("count")
            if (await body_of(on, "count")) == 1:
                await on.documents.put("count", 10)
            try:
                await s.documents.set("count", seen + 1)
            except DocumentConflictError:
                return str(await s.documents.update("count", lambda n: n + 1))
            return "a lost update"

        ended = await on.run(doing(work))
        assert (ended.status, ended.result) == ("completed", "11")
        assert await bodies(on, "count") == [1, 10, 11]

    play(tmp_path, scene)


def test_many_sagas_that_wait_for_their_turn_lose_no_update(tmp_path: Path) -> None:
    async def scene(on: Coordinator) -> None:
        async def work(s: Work) -> None:
            await s.lock("document:count")
            await s.documents.update("count", lambda n: n + 1, 0)
            if int(str(s.id)) % 3 == 0:
                raise Fatal("not this one")

        counting = doing(work)
        handles = [await on.start(counting, id=str(n)) for n in range(30)]
        ended: list[Ended] = [await handle for handle in handles]
        done = sum(one.status == "completed" for one in ended)
        assert done == 20
        assert await body_of(on, "count") == done
        versions = [one.version async for one in on.documents.history("count")]
        assert versions == list(range(1, len(versions) + 1))

    play(tmp_path, scene)


def test_taking_back_a_completed_saga_does_not_overwrite_what_came_since(tmp_path: Path) -> None:
    async def scene(on: Coordinator) -> None:
        async def work(s: Work) -> None:
            await s.documents.set("a", 1)
            await s.documents.set("b", 1)

        await on.run(doing(work), id="s1")
        await on.documents.put("a", "mine", expect=1)
        ended = await on.cancel("s1", why="no")
        assert ended.status == "incident"
        (incident,) = await on.incidents()
        assert (incident.kind, incident.step) == ("changed_since", "1")
        assert f"it was changed since by {login()}" in incident.why
        assert (await body_of(on, "a"), await body_of(on, "b")) == ("mine", None)

    play(tmp_path, scene)


def test_changes_are_steps_that_are_judged_and_on_record(tmp_path: Path) -> None:
    async def scene(on: Coordinator) -> None:
        async def work(s: Work) -> None:
            await s.state.update("n", lambda n: n + 1, 0)

        await on.run(doing(work), actor=BOT, id="s1")
        history = await on.show("s1")
        assert names(history.entries) == [
            "saga.started",
            "action.dispatched",
            "attempt.succeeded",
            "action.dispatched",
            "attempt.succeeded",
            "saga.completed",
        ]
        steps = list(history.saga.steps.values())
        assert [step.topic for step in steps] == ["amends.document.get", "amends.document.set"]
        assert steps[1].args == {"name": "agent:bot/n", "body": 1, "expect": 0}
        assert steps[1].contract.reversibility == "reversible"

    play(tmp_path, scene)


def test_what_cannot_be_kept_is_refused_before_anything_happens(tmp_path: Path) -> None:
    async def scene(on: Coordinator) -> None:
        told: list[str] = []

        async def work(s: Work) -> None:
            for name, body in (("big", "x" * 1000), ("odd", {1, 2}), ("safe", {"k": Secret("s3")}), ("a//b", 1)):
                try:
                    await s.documents.set(name, body)
                except InputError as exc:
                    told.append(f"{type(exc).__name__}: {exc}")

        assert (await on.run(doing(work), id="s1")).status == "completed"
        assert told[0].startswith("TooLargeError: document big takes 1002 bytes as JSON, and at most 1000 are kept")
        assert told[1].startswith("NotJsonError: document odd is a set")
        assert told[2].startswith("InputError: document safe cannot hold a secret")
        assert told[3].startswith("InputError: 'a//b' cannot name a document")
        assert len((await on.show("s1")).saga.steps) == 0
        with pytest.raises(TooLargeError):
            await on.documents.put("big", "x" * 1000)
        with pytest.raises(NotJsonError):
            await on.documents.put("odd", {1})
        with pytest.raises(InputError, match="cannot name"):
            await on.documents.get("/")

    play(tmp_path, scene)


def test_from_outside_a_change_may_expect_a_version(tmp_path: Path) -> None:
    async def scene(on: Coordinator) -> None:
        made = await on.documents.put("a", 1, expect=0, by="person:ann")
        assert (made.version, made.by) == (1, "person:ann")
        with pytest.raises(DocumentConflictError, match="version 0 was expected, and it was changed by person:ann"):
            await on.documents.put("a", 2, expect=0)
        await on.documents.delete("a", expect=1)
        assert await on.documents.get("a") is None
        assert (await on.documents.put("a", 3, expect=0)).version == 3

    play(tmp_path, scene)


# -- families ---------------------------------------------------------------------------------------------------------


def adds(name: str, what: str) -> SagaDefinition:
    async def function(s: Work, fails: bool = False) -> None:
        await s.documents.update("notes", lambda notes: [*notes, what], default=[])
        if fails:
            raise Fatal("no")

    return saga(name)(function)


KID, OTHER = adds("documents.kid", "kid"), adds("documents.other", "other")


def test_a_parent_and_its_children_change_a_document_one_after_the_other(tmp_path: Path) -> None:
    async def scene(on: Coordinator) -> None:
        async def work(s: Work) -> list[str]:
            await s.documents.set("notes", ["top"])
            await s.call(KID)
            await s.documents.update("notes", lambda notes: [*notes, "again"])
            await s.call(OTHER)
            assert await body_of(on, "notes") is None
            return cast("list[str]", await s.documents.get("notes"))

        ended = await on.run(doing(work), id="t")
        assert (ended.status, ended.result) == ("completed", ["top", "kid", "again", "other"])
        assert await body_of(on, "notes") == ended.result

    play(tmp_path, scene)


def test_a_family_that_goes_back_restores_exactly_what_was_there(tmp_path: Path) -> None:
    async def scene(on: Coordinator) -> None:
        await on.documents.put("notes", ["before"])

        async def work(s: Work) -> None:
            await s.call(KID)
            await s.documents.set("notes", ["top"])
            await s.call(OTHER)
            await s.checkpoint("here")
            await s.call(KID)
            await s.rollback_to("here", "no good")
            assert await s.documents.get("notes") == ["top", "other"]
            await s.documents.set("notes", ["once more"])
            raise Fatal("no")

        ended = await on.run(doing(work), id="t")
        assert (ended.status, await body_of(on, "notes")) == ("rolled_back", ["before"])
        assert await on.incidents() == []

    play(tmp_path, scene)


def test_a_family_that_had_completed_is_taken_back_too(tmp_path: Path) -> None:
    async def scene(on: Coordinator) -> None:
        async def work(s: Work) -> None:
            await s.call(KID)
            await s.documents.set("notes", ["top"])

        await on.run(doing(work), id="t")
        assert (await on.cancel("t")).status == "rolled_back"
        assert await body_of(on, "notes") is None

        await on.run(doing(work), id="u")
        await on.documents.put("notes", ["somebody else"])
        ended = await on.cancel("u")
        assert (ended.status, [one.kind for one in await on.incidents()]) == ("incident", ["changed_since"])
        assert await body_of(on, "notes") == ["somebody else"]

    play(tmp_path, scene)


def test_children_side_by_side_conflict_on_one_document_as_strangers_do(tmp_path: Path) -> None:
    async def scene(on: Coordinator) -> None:
        wrote, gate = asyncio.Event(), asyncio.Event()

        async def slow(s: Work) -> None:
            await s.documents.set("notes", ["slow"])
            wrote.set()
            await gate.wait()

        async def late(s: Work) -> str:
            await wrote.wait()
            try:
                assert await s.documents.get("notes") is None
                await s.documents.set("notes", ["late"])
            except DocumentConflictError as exc:
                return str(exc)
            finally:
                gate.set()
            return "a lost update"

        async def work(s: Work) -> list[str]:
            return await s.call_all([child(doing(slow, "slow")), child(doing(late, "late"))])

        ended = await on.run(doing(work), id="t")
        assert ended.status == "completed"
        assert "which runs beside saga" in ended.result[1]
        assert await body_of(on, "notes") == ["slow"]

    play(tmp_path, scene)


def test_a_child_that_was_rolled_back_has_left_its_parent_s_change(tmp_path: Path) -> None:
    async def scene(on: Coordinator) -> None:
        async def work(s: Work) -> list[str]:
            await s.documents.set("notes", ["top"])
            with contextlib.suppress(StepFatalError):
                await s.call(KID, True)
            return cast("list[str]", await s.documents.update("notes", lambda notes: [*notes, "again"]))

        ended = await on.run(doing(work), id="t")
        assert (ended.status, ended.result) == ("completed", ["top", "again"])

    play(tmp_path, scene)


def test_a_child_that_has_taken_its_change_back_is_not_in_the_way_of_the_next_though_it_hears_late() -> None:
    """A worker is stopped inside a child; another takes the child back, and then the first one's attempt lands."""
    memory, clock, registry = Memory(), QuickClock(), Registry()
    begun, lands, between, again = (asyncio.Event() for _ in range(4))

    @action("docs.late")
    async def late(first: bool) -> None:
        begun.set()
        if first:
            await lands.wait()

    @late.compensation
    async def unlate(done: Done) -> None:
        pass

    @action("docs.pause", read_only=True)
    async def pause() -> None:
        between.set()
        await again.wait()

    @saga("docs.kid")
    async def kid(s: Work, first: bool) -> None:
        await s.documents.set("doc", f"first: {first}")
        await s.do(late, first)

    @saga("docs.top")
    async def top(s: Work) -> None:
        with contextlib.suppress(StepError):
            await s.call(kid, first=True)
        await s.do(pause)
        await s.call(kid, first=False)

    async def whole() -> None:
        short = Settings(lease_s=100, settle_s=1)
        stopped = coordinator(memory, settings=short, clock=clock, registry=registry)
        await stopped.__aenter__()
        handle = await stopped.start(top, id="t")
        await begun.wait()
        clock.advance(101)
        async with coordinator(memory, settings=short, clock=clock, registry=registry) as taker:
            resumed = asyncio.ensure_future(taker.resume())
            await between.wait()
            assert memory.sagas[SagaId("t~1")].summary.status is SagaStatus.ROLLED_BACK
            lands.set()
            with pytest.raises(JournalConflictError):
                await handle
            async with asyncio.timeout(10):
                while memory.sagas[SagaId("t~1")].summary.status is not SagaStatus.INCIDENT:
                    await asyncio.sleep(0)
            again.set()
            await resumed
            assert {row.id: str(row.status) async for row in taker.list()} == {
                "t": "waiting",  # for a person to see to its first child
                "t~1": "incident",
                "t~3": "completed",
            }
            assert await bodies(taker, "doc") == ["first: True", None, "first: False"]
            await stopped.close()

    asyncio.run(whole())
