"""Actions as tools of an agent: in a session, in a thread, and by themselves; and a framework's own tools as steps."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest
from jsonschema import Draft202012Validator

import amends
from amends import Coordinator, Done, Fatal, Secret, Settings, StepDeniedError, action
from amends.core.transitions import SagaStatus
from amends.errors import ApprovalPending, DeclarationError, DirectCallError, RefusedError, StepFatalError
from amends.runtime.saga.model_text import text_for_model
from amends.runtime.saga.session import Session
from amends.runtime.saga.tool import AGENT_TOOLS, action_of, calling, do_foreign, is_ours, topic_of
from amends.runtime.saga.work import Work, saga
from tests.runtime.support import World

QUICK = Settings(poll_s=0.05, park_s=0.05)
ASKS = "version: v1\nrules:\n  - {id: ask, when: {topic: test.pay}, decision: require_human, expires: %s}\n"
Told = Callable[[Coordinator], Coroutine[Any, Any, None]]


def tell(path: Path, story: Told, policy: str = "", env: str = "development") -> None:
    (path / "policy.yaml").write_text(policy or "version: v1\nrules: []\n")

    async def whole() -> None:
        async with Coordinator.open(
            str(path / "amends.db"), settings=QUICK, env=env, policy=path / "policy.yaml"
        ) as coordinator:
            await story(coordinator)

    asyncio.run(asyncio.wait_for(whole(), 30))


@action("tool.note")
async def note(to: str, times: int = 1) -> str:
    """Write a note.

    It is short.
    """
    return f"{to} x{times}"


@note.compensation
async def unnote(done: Done) -> None: ...


@action("tool.shout", no_rollback="it was heard")
def shout(what: str) -> str:
    """Shout."""
    return what.upper()


@action("tool.broken")
async def broken() -> None:
    raise Fatal("the pen is broken", happened=False)


@broken.compensation
async def unbroken(done: Done) -> None: ...


def test_a_tool_looks_like_its_action() -> None:
    asynchronous, plain = amends.tool(note), amends.tool(shout)
    assert inspect.signature(asynchronous) == inspect.signature(note.parts.function)
    assert inspect.iscoroutinefunction(asynchronous)
    assert not inspect.iscoroutinefunction(plain)
    assert (plain.__name__, plain.__doc__) == ("shout", "Shout.")
    assert inspect.get_annotations(asynchronous, eval_str=True) == {"to": str, "times": int, "return": str}
    assert action_of(asynchronous) is note
    assert is_ours(plain)
    assert not is_ours(len)
    with pytest.raises(DeclarationError, match="is not an action"):
        amends.tool(cast("Any", len))


def test_the_schema_of_an_action_is_json_schema_for_a_tool() -> None:
    @action("tool.typed")
    async def typed(to: list[str], key: Secret, cents: int = 5, note: str | None = None) -> None:
        """Pay."""

    told = typed.schema()
    assert (told["name"], told["description"]) == ("tool_typed", "Pay.")
    assert sorted(told["parameters"]["properties"]) == ["cents", "note", "to"]
    assert told["parameters"]["required"] == ["to"]
    Draft202012Validator.check_schema(told["parameters"])
    jsonschema.validate({"to": ["a"], "cents": 5, "note": None}, told["parameters"])


def test_in_a_session_it_is_a_step_and_its_call_id_is_the_adapter_s(tmp_path: Path) -> None:
    async def story(coordinator: Coordinator) -> None:
        async with coordinator.session("agent", id="t-1") as s:
            assert await amends.tool(note)("Ann", times=2) == "Ann x2"
            with calling(s, "c1"):
                assert await amends.tool(note)("Bob") == "Bob x1"
                assert await amends.tool(note)("Bob") == "Bob x1"
            assert await s.tool(note)("Cid") == "Cid x1"
            assert [(one.call, one.result) for one in s.steps] == [("", "Ann x2"), ("c1", "Bob x1"), ("", "Cid x1")]

    tell(tmp_path, story)


def test_a_plain_tool_waits_in_its_thread_and_not_on_the_loop_s(tmp_path: Path) -> None:
    async def story(coordinator: Coordinator) -> None:
        async with coordinator.session("agent", id="t-1") as s:
            with calling(s, "c1"):
                assert await asyncio.to_thread(amends.tool(shout), "hey") == "HEY"
                with pytest.raises(RefusedError, match=r"tool.shout is a plain function.*in a thread"):
                    amends.tool(shout)("hey")
            assert [(one.call, one.topic) for one in s.steps] == [("c1", "tool.shout")]

    tell(tmp_path, story)


def test_an_async_tool_may_be_called_on_another_loop(tmp_path: Path) -> None:
    async def story(coordinator: Coordinator) -> None:
        async with coordinator.session("agent", id="t-1") as s:
            told = await asyncio.to_thread(lambda: asyncio.run(called("Ann")))
            assert told == "Ann x1"
            assert [one.topic for one in s.steps] == ["tool.note"]

    async def called(to: str) -> str:
        return await amends.tool(note)(to)

    tell(tmp_path, story)


def test_outside_of_a_session_it_is_one_of_a_single_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(coordinator: Coordinator) -> None:
        assert await amends.tool(note, coordinator=coordinator)("Ann") == "Ann x1"
        assert await asyncio.to_thread(amends.tool(shout, coordinator=coordinator), "hey") == "HEY"
        with pytest.raises(RefusedError, match="in a thread"):
            amends.tool(shout, coordinator=coordinator)("hey")
        rows = [row async for row in coordinator.list() if not row.definition.startswith("amends.")]
        assert [(row.definition, row.status) for row in rows] == [
            ("tool.shout", SagaStatus.COMPLETED),
            ("tool.note", SagaStatus.COMPLETED),
        ]

    tell(tmp_path, story)
    monkeypatch.chdir(tmp_path)
    assert amends.tool(shout)("there") == "THERE"
    assert asyncio.run(amends.tool(note)("Bob")) == "Bob x1"
    with pytest.raises(StepFatalError, match="the pen is broken"):
        asyncio.run(amends.tool(broken)())

    async def after(coordinator: Coordinator) -> None:
        assert [row.status async for row in coordinator.list(definition="tool.broken")] == [SagaStatus.ROLLED_BACK]
        assert len([row async for row in coordinator.list(definition="tool.shout")]) == 2

    tell(tmp_path, after)


def test_in_a_saga_s_function_and_in_an_action_it_is_what_the_action_is(tmp_path: Path) -> None:
    @action("tool.outer", read_only=True)
    async def outer() -> str:
        return await amends.tool(note)("in")

    @saga("tool.saga")
    async def whole(s: Work) -> str:
        with pytest.raises(DirectCallError):
            await amends.tool(note)("direct")
        return await s.do(outer)

    async def story(coordinator: Coordinator) -> None:
        assert (await coordinator.run(whole)).result == "in x1"
        async with coordinator.session("agent") as s:
            with calling(s, "c1"):
                assert await amends.tool(outer)() == "in x1"
            assert len(s.steps) == 1

    tell(tmp_path, story)


async def ask(s: Session, pay: Any, call: str = "c1") -> Any:
    with calling(s, call):
        return await cast("Any", amends.tool(pay))(5)


def test_who_does_not_wait_for_people_is_told_whom_to_ask_and_goes_on_later(tmp_path: Path) -> None:
    world = World()
    pay = world.action("pay", result=7)

    async def story(coordinator: Coordinator) -> None:
        with pytest.raises(ApprovalPending) as asked:
            async with coordinator.session("agent", id="t-1", actor="agent:a") as s:
                await ask(s, pay)
        told = asked.value
        assert (told.approval, told.topic, told.arguments, told.rule) == ("t-1/1", "test.pay", {"n": 5}, "ask")
        assert "test.pay has not been done" in text_for_model(told)
        assert (await coordinator.show("t-1")).status is SagaStatus.WAITING
        async with coordinator.session("agent", id="t-1") as s:
            with pytest.raises(ApprovalPending):
                await ask(s, pay)
            await coordinator.grant(told.approval, by="person:ann", digest=told.digest)
            assert await ask(s, pay) == 7
            with pytest.raises(RefusedError):
                await coordinator.grant(told.approval, by="person:bob")
        assert (await coordinator.show("t-1")).status is SagaStatus.COMPLETED

    tell(tmp_path, story, ASKS % "1h")
    assert world.seen == ["pay(5)"]


def test_what_is_refused_or_expired_is_denied_while_nobody_has_the_session_open(tmp_path: Path) -> None:
    world = World()
    pay = world.action("pay")

    async def story(coordinator: Coordinator) -> None:
        for thread in ("refused", "expired"):
            with pytest.raises(ApprovalPending):
                async with coordinator.session("agent", id=thread, actor="agent:a") as s:
                    await ask(s, pay)
        await coordinator.refuse("refused/1", by="person:ann", why="too dear")
        async with coordinator.session("agent", id="refused") as s:
            with pytest.raises(StepDeniedError, match="person:ann refused it: too dear") as denied:
                await ask(s, pay)
            assert text_for_model(denied.value).startswith("Denied: test.pay was not done. person:ann refused it: too")
        working = asyncio.ensure_future(coordinator.work())
        while [row async for row in coordinator.approvals()]:
            await asyncio.sleep(0.05)
        working.cancel()
        assert (await coordinator.show("expired")).row.entries < 12
        async with coordinator.session("agent", id="expired") as s:
            with pytest.raises(StepDeniedError, match="in time"):
                await ask(s, pay)

    tell(tmp_path, story, ASKS % "1s")
    assert world.seen == []


def test_what_was_asked_and_is_not_asked_for_again_does_not_keep_a_session_from_its_end(tmp_path: Path) -> None:
    world = World()
    pay = world.action("pay")

    async def story(coordinator: Coordinator) -> None:
        async with coordinator.session("agent", id="t-1", actor="agent:a") as s:
            with pytest.raises(ApprovalPending):
                await ask(s, pay)
        assert (await coordinator.show("t-1")).status is SagaStatus.COMPLETED
        assert [row async for row in coordinator.approvals()] == []

    tell(tmp_path, story, ASKS % "1h")
    assert world.seen == []


def test_a_framework_s_own_tool_is_an_undeclared_step(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def search(**named: Any) -> Any:
        return f"found {named['words']}"

    def add(**named: int) -> int:
        return sum(named.values())

    async def story(coordinator: Coordinator) -> None:
        async with coordinator.session("agent", id="t-1") as s:
            for call in ("c1", "c2", "c1"):
                assert await do_foreign(s, "Web Search!", search, {"words": "a"}, call=call) == "found a"
            assert await do_foreign(s, "Sum", add, {"a": 1, "b": 2}, call="c3") == 3
            assert [(one.topic, one.call) for one in s.steps] == [
                ("web_search_", "c1"),
                ("web_search_", "c2"),
                ("sum", "c3"),
            ]
            (step, *_) = (await coordinator.show("t-1")).saga.steps.values()
            assert step.args == {"words": "a"}

    with caplog.at_level(logging.WARNING, "amends.gate"):
        tell(tmp_path, story)
    assert len([one for one in caplog.messages if "Web Search!" in one]) == 1
    assert (topic_of("_x"), topic_of("…"), topic_of("A.b")) == ("x", "tool", "a_b")


def test_production_refuses_a_tool_that_nobody_declared(tmp_path: Path) -> None:
    async def search() -> str:
        raise AssertionError("it was to be denied")

    async def story(coordinator: Coordinator) -> None:
        async with coordinator.session("agent", id="t-1") as s:
            with pytest.raises(StepDeniedError) as denied:
                await do_foreign(s, "search", search, {}, call="c1")
        assert text_for_model(denied.value).startswith("Denied: search was not done.")

    tell(tmp_path, story, env="production")


def test_an_agent_sees_its_steps_and_takes_them_back(tmp_path: Path) -> None:
    world = World()
    pay, book = world.action("pay"), world.action("book")
    status, checkpoint, undo = AGENT_TOOLS

    async def story(coordinator: Coordinator) -> None:
        with pytest.raises(RefusedError, match="no session is open"):
            await status()
        async with coordinator.session("agent", id="t-1") as s:
            with calling(s, "c0"):
                assert await status() == "No step has been taken yet."
                assert await checkpoint("start") == "Marked: start."
                await s.do(book)
                await s.do(pay)
                told = await undo("start", "too dear")
                assert told == (
                    "Taken back: test.pay (step 3), test.book (step 2). Why: too dear. All that came before stands: "
                    "go another way."
                )
                assert await status() == "2 test.book: compensated\n3 test.pay: compensated"

    tell(tmp_path, story)
    assert world.seen == ["book", "pay", "unpay", "unbook"]


def test_nobody_s_exception_is_told_but_by_its_class() -> None:
    assert text_for_model(ValueError("the password hunter2 is wrong")) == "Failed: it raised ValueError."
