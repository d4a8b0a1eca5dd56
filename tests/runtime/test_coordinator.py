"""The coordinator's verbs: ids, lists, histories, observers, and a plain script without asyncio."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

import amends
from amends import Coordinator, Done, Fatal, Registry, Secret, Work, action, saga
from amends.errors import (
    InputError,
    JournalAccessError,
    PolicyError,
    RefusedError,
    SecretUnavailableError,
    UnknownSagaError,
)
from amends.journal.memory import Memory
from amends.journal.port.journal import Entry
from amends.runtime.declare.names import login
from tests.runtime.support import QuickClock, World, coordinator
from tests.runtime.test_going_forward import one_after_another


def play(scene: Callable[[Coordinator], Awaitable[Any]], **options: Any) -> Any:
    async def whole() -> Any:
        async with coordinator(**options) as opened:
            return await scene(opened)

    return asyncio.run(whole())


def test_the_same_id_twice_is_one_saga() -> None:
    world = World()
    line = one_after_another(world.action("a", result=1))

    async def scene(on: Coordinator) -> Any:
        first, second = await asyncio.gather(on.run(line, id="order-7"), on.run(line, id="order-7"))
        third = await on.run(line, id="order-7")
        return first, second, third, await on.list()

    first, second, third, rows = play(scene)
    assert first == second == third
    assert len(rows) == 1
    assert world.seen == ["a"]


def test_another_input_with_the_same_id_is_refused() -> None:
    world = World()
    a = world.action("a")

    @saga("test.takes_n")
    async def takes_n(s: Work, n: int) -> None:
        await s.do(a, n)

    async def scene(on: Coordinator) -> None:
        await on.run(takes_n, 1, id="one")
        with pytest.raises(RefusedError, match="saga one exists already"):
            await on.run(takes_n, 2, id="one")

    play(scene)
    assert world.seen == ["a(1)"]


@pytest.mark.parametrize("name", ["", "a/b", "x" * 129, "é", "a\nb"])
def test_an_id_that_cannot_be_one_is_refused(name: str) -> None:
    line = one_after_another(World().action("a"))
    with pytest.raises(InputError, match="is not a saga id"):
        play(lambda on: on.run(line, id=name))


def test_sagas_are_listed_newest_first_with_filters_and_pages() -> None:
    world = World()
    good = one_after_another(world.action("a"))
    bad = one_after_another(world.action("b", *[Fatal("no")] * 9))

    async def scene(on: Coordinator) -> None:
        ids = [(await on.run(good if n % 2 else bad, labels={"n": str(n)})).id for n in range(6)]
        assert [row.id async for row in on.list(limit=2)] == ids[::-1]
        assert [row.id for row in await on.list(status="completed")] == ids[5::-2]
        assert [row.id for row in await on.list(status=("rolled_back", "incident"))] == ids[4::-2]
        assert [row.id for row in await on.list(topic="test.b")] == ids[4::-2]
        assert await on.list(env="production") == []
        assert await on.list(labels={"team": "nobody"}) == []
        assert await on.list(ended_until=1) == await on.list(started_from=2**50) == []
        first = on.list(limit=4)
        assert [row.id for row in await first] == ids[:-5:-1]
        rest = on.list(limit=4, page=first.next)
        assert ([row.id for row in await rest], rest.next) == (ids[-5::-1], None)
        row = (await on.list(limit=1))[0]
        assert (row.labels, row.definition, row.actor) == ({"n": "5"}, "test.line", login())
        with pytest.raises(InputError, match="'done' is not a status; they are running"):
            await on.list(status="done")

    play(scene)


def test_a_history_reads_as_a_timeline() -> None:
    line = one_after_another(World().action("a", result=1))

    async def scene(on: Coordinator) -> list[str]:
        return [each.text for each in (await on.show((await on.run(line)).id)).timeline]

    assert play(scene)[-2:] == ["succeeded: 1", "completed: [1]"]


def test_an_unknown_saga_is_named() -> None:
    with pytest.raises(UnknownSagaError, match="no saga has the id nope"):
        play(lambda on: on.show("nope"))


def test_a_saga_is_there_for_whoever_looks_as_soon_as_it_was_started() -> None:
    world = World()
    line = one_after_another(world.action("a"))

    async def scene(on: Coordinator) -> None:
        handle = await on.start(line, id="shown")
        assert (await on.show(handle.id)).row.definition == line.name
        _ = await on.start(line, id="planned")
        assert (await on.rollback("planned", plan=True)).saga == "planned"
        _ = await on.start(line, id="held")
        await on.retain("held", why="the auditors ask")
        assert (await handle).status == "completed"
        assert [entry.name for entry in (await on.show("shown")).entries] == [
            "saga.started/1",
            "action.dispatched/1",
            "attempt.succeeded/1",
            "saga.completed/1",
        ]

    play(scene)


def test_a_saga_that_another_process_began_first_is_shown_as_that_one_began_it() -> None:
    world, memory, clock, registry = World(), Memory(), QuickClock(), Registry()
    line = one_after_another(world.action("a"))

    async def whole() -> None:
        async with (
            coordinator(memory, clock=clock, registry=registry) as here,
            coordinator(memory, clock=clock, registry=registry) as there,
        ):
            mine, theirs = await here.start(line, id="s"), await there.start(line, id="s")
            shown = await there.show("s"), await here.show("s")
            assert shown[0].entries[0] == shown[1].entries[0]
            assert [(await mine).status, (await theirs).status] == ["completed", "completed"]

    asyncio.run(whole())
    assert world.seen == ["a"]


def test_observers_hear_of_each_durable_entry_and_their_faults_stop_there(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[str] = []
    line = one_after_another(World().action("a"))

    def faulty(entry: Entry) -> None:
        raise ValueError(entry.number)

    async def scene(on: Coordinator) -> None:
        on.observe(faulty)
        stop = on.observe(lambda entry: heard.append(entry.name))
        await on.run(line)
        stop()
        stop()
        await on.run(line)

    with caplog.at_level(logging.ERROR):
        play(scene)
    assert heard == ["saga.started/1", "action.dispatched/1", "attempt.succeeded/1", "saga.completed/1"]
    assert "an observer failed on entry 1" in caplog.text


def test_labels_and_inputs_that_cannot_be_stored_are_refused() -> None:
    line = one_after_another(World().action("a"))

    @saga("test.any")
    async def anything(s: Work, x: Any) -> None: ...

    async def scene(on: Coordinator) -> None:
        with pytest.raises(InputError, match="label"):
            await on.run(line, labels=cast("Any", {"n": 1}))
        with pytest.raises(InputError, match=r"input\.x is a set"):
            await on.run(anything, {1})
        with pytest.raises(InputError, match="is not a saga"):
            await on.run(cast("Any", print))
        assert await on.list() == []

    play(scene)


def test_a_closed_coordinator_refuses_and_closing_twice_is_fine() -> None:
    line = one_after_another(World().action("a"))

    async def whole() -> None:
        opened = coordinator()
        async with opened:
            pass
        await opened.close()
        with pytest.raises(RefusedError, match="is closed"):
            await opened.run(line)

    asyncio.run(whole())


def test_a_saga_result_that_cannot_be_stored_rolls_back() -> None:
    world = World()
    a = world.action("a")

    @saga("test.returns_a_set")
    async def returns(s: Work) -> Any:
        await s.do(a)
        return {1}

    ended = play(lambda on: on.run(returns))
    assert (ended.status, ended.cause) == ("rolled_back", "error")
    assert world.seen == ["a", "una"]


def test_a_plain_script_needs_no_event_loop(tmp_path: Path) -> None:
    line = one_after_another(World().action("a", result=5))
    ended = amends.run(line, journal=str(tmp_path / "amends.db"), id="script")
    assert (ended.status, ended.result) == ("completed", [5])


def test_a_plain_script_is_judged_by_its_policy_and_run_again_goes_on_with_its_saga(tmp_path: Path) -> None:
    world, journal = World(), str(tmp_path / "amends.db")
    rules = tmp_path / "policy.yaml"
    rules.write_text("version: v1\nrules:\n  - {id: no-b, when: {topic: test.b}, decision: deny}\n")
    line = one_after_another(world.action("a"), world.action("b"))
    denied = amends.run(line, journal=journal, policy=rules, id="script", actor="agent:bot")
    assert (denied.status, denied.cause) == ("rolled_back", "denied")
    assert amends.run(line, journal=journal, id="script", actor="agent:bot").status == "rolled_back"
    assert world.seen == ["a", "una"]
    with pytest.raises(PolicyError):
        amends.run(line, journal=journal, policy=tmp_path / "none.yaml")


def test_a_running_loop_is_told_to_await_instead() -> None:
    async def inside() -> None:
        amends.run(one_after_another(World().action("a")))

    with pytest.raises(RefusedError, match=r"await coordinator\.run"):
        asyncio.run(inside())


def test_an_address_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    line = one_after_another(World().action("a"))
    with pytest.raises(InputError, match="mysql:// is no journal"):
        amends.run(line, journal="mysql://x")
    with pytest.raises(JournalAccessError):
        amends.run(line, journal=str(tmp_path / "no" / "such" / "dir" / "amends.db"))
    assert amends.run(line, journal=f"sqlite:///{tmp_path}/amends.db").status == "completed"


def test_a_secret_never_reaches_the_file_the_log_or_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    canaries = ["canary-one-7f3a", "canary-two-91bc"]
    monkeypatch.setenv("TEST_TOKEN", canaries[1])
    seen: list[str] = []

    @action("test.login")
    async def login(user: str, password: Secret, token: Secret) -> Secret:
        seen.append(password.reveal() + token.reveal())
        raise ConnectionError(f"bad password {password.reveal()} or {token.reveal()}")

    @login.compensation
    async def logout(done: Done) -> None:
        seen.append(done.args["password"].reveal())
        seen.append(repr(done.args))

    @saga("test.logs_in")
    async def logs_in(s: Work, password: Secret) -> None:
        await s.do(login, "ann", password, Secret.env("TEST_TOKEN"))

    caplog.set_level(logging.DEBUG)
    ended = amends.run(logs_in, Secret(canaries[0]), journal=str(tmp_path / "amends.db"))
    assert ended.status in {"rolled_back", "incident"}
    assert "[secret]" in ended.why
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    for canary in canaries:
        assert canary.encode() not in stored
        assert canary not in caplog.text
        assert canary not in ended.why


def test_a_secret_whose_value_is_gone_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Secret.kept("sha256:00")
    with pytest.raises(SecretUnavailableError, match=r"Secret\.env"):
        kept.reveal()
    monkeypatch.delenv("NOT_THERE", raising=False)
    with pytest.raises(SecretUnavailableError, match="NOT_THERE"):
        Secret.env("NOT_THERE").reveal()
    assert str(Secret("x")) == "Secret(…)"
