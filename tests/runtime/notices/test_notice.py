"""What is told of an entry: enough to know where to look, and nothing of what was done or with what."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest

from amends import Fatal, Registry, Secret, Settings, Work, register, saga
from amends.core.events import DrillMissed, IncidentOpened
from amends.core.events.people import IncidentKind
from amends.core.words.values import SagaId, StepId
from amends.errors import InputError
from amends.journal.codec import WIRE
from amends.journal.memory import Memory
from amends.notify.notice import _TOLD, TYPES, Notice, checked_types, notice_of, wire_names
from amends.runtime.declare.names import login
from tests.runtime.support import QuickClock, World, coordinator

CANARY = "canary-4711"
SETTINGS = Settings(lease_s=1_000_000, settle_s=1, park_s=0.001, drain_s=0.01)


def everything_told() -> dict[str, Notice]:
    """One notice of each type, from sagas whose every value is a canary."""
    world, memory, clock = World(), Memory(), QuickClock()
    send = world.action("send", no_rollback="a mail cannot be unsent", result=CANARY)

    def leak(done: Any) -> None:
        raise RuntimeError(f"the line is dead for {done.args['password'].reveal()}")

    def log_in(password: Secret, user: str) -> str:
        return CANARY

    used = register("test.log_in", log_in, compensation=leak, compensation_retries=1)

    def mend(done: Any) -> None: ...

    def break_down(user: str) -> None:
        raise Fatal("it is broken", happened=False)

    broken = register("test.break", break_down, compensation=mend)

    @saga("test.mail")
    async def mail(s: Work, to: str) -> str:
        return await s.do_named(send, {"n": 1}) or to

    @saga("test.jam")
    async def jam(s: Work, to: str) -> None:
        await s.do(used, Secret(CANARY), CANARY)
        await s.do(broken, CANARY)

    async def whole() -> dict[str, Notice]:
        made = coordinator(memory, env="production", settings=SETTINGS, clock=clock, registry=Registry())
        async with made as desk:
            handles = [await desk.start(mail, CANARY, id=f"mail-{number}") for number in range(4)]
            for handle in handles:
                await handle.halt()
            await desk.grant("mail-0/1", by="person:ana", why="fine")
            await desk.refuse("mail-1/1", by="person:ana", why="too late at night")
            await desk.cancel("mail-2", why="no longer needed")
            clock.advance(90_000)
            await desk.drive("mail-3")
            assert (await desk.run(jam, CANARY, id="jam")).status == "incident"
            await desk.retry_incident("jam/1", by="person:ana")
            await desk.resolve_incident("jam/2", reason="done by hand", by="person:ana")
            missed = DrillMissed(saga="test.mail", target="m:mail", last_at=1, every_s=60.0, by=login())
            await desk._engine.pauses.keep(lambda: missed)
            found = [one async for one in desk.journal.log(names=wire_names(TYPES))]
            notices = [await notice_of(desk.journal, one) for one in found]
            again = [await notice_of(desk.journal, one) for one in found]
            assert notices == again
            assert [one.body for one in notices] == [one.body for one in again]
            assert len({one.id for one in notices}) == len(notices)
            whole = b"".join([one.body for one in notices])
            assert CANARY.encode() not in whole
            return {one.type: one for one in reversed(notices)}

    return asyncio.run(whole())


@pytest.fixture(name="told", scope="module")
def _told() -> dict[str, Notice]:
    return everything_told()


def test_there_is_something_to_tell_of_every_type(told: dict[str, Notice]) -> None:
    assert sorted(told) == sorted(TYPES)
    assert {name.partition("/")[0] for name, kind in WIRE.items() if kind in _TOLD} == set(TYPES)


def test_an_approval_that_is_asked_for(told: dict[str, Notice]) -> None:
    notice = told["approval.requested"]
    assert notice.about == "mail-0/1"
    assert notice.data == {
        "saga": "mail-0",
        "definition": "test.mail",
        "env": "production",
        "actor": login(),
        "approval": "mail-0/1",
        "step": "1",
        "topic": "test.send",
        "rule": "builtin-irreversible",
        "why": notice.data["why"],
        "needs": [{"approvals": 1, "approvers": []}],
        "expires_at": notice.at + 86_400_000,
    }


def test_an_incident_that_was_opened(told: dict[str, Notice]) -> None:
    notice = told["incident.opened"]
    common = {"saga": "jam", "definition": "test.jam", "env": "production", "actor": login()}
    assert notice.data == {
        **common,
        "incident": "jam/1",
        "kind": "compensation_failed",
        "step": "1",
        "topic": "test.log_in",
        "why": notice.data["why"],
        "left": [{"step": "1", "topic": "test.log_in"}],
        "left_count": 1,
    }
    assert str(notice.data["why"]).startswith("RuntimeError: the line is dead for [secret] (tests/runtime/notices/")
    assert told["incident.retried"].data == {**common, "incident": "jam/1", "by": "person:ana"}
    assert told["incident.resolved"].data == {
        **common, "incident": "jam/2", "by": "person:ana", "why": "done by hand"
    }  # fmt: skip


def test_a_drill_that_was_missed(told: dict[str, Notice]) -> None:
    notice = told["drill.missed"]
    assert notice.about == "m:mail"
    assert {name: notice.data[name] for name in ("saga", "drilled", "target", "last_at", "every_s", "why")} == {
        "saga": "amends.control",
        "drilled": "test.mail",
        "target": "m:mail",
        "last_at": 1,
        "every_s": 60.0,
        "why": "test.mail was not drilled in time: amends drill m:mail --quick",
    }


@pytest.mark.parametrize(
    ("type_", "about", "more"),
    [
        ("approval.granted", "mail-0/1", {"by": "person:ana", "why": "fine"}),
        ("approval.refused", "mail-1/1", {"by": "person:ana", "why": "too late at night"}),
        ("approval.voided", "mail-2/1", {"why": "the saga is taken back"}),
        ("approval.expired", "mail-3/1", {}),
    ],
)
def test_how_an_approval_was_answered(told: dict[str, Notice], type_: str, about: str, more: dict[str, str]) -> None:
    data = told[type_].data
    assert (data["approval"], data["topic"]) == (about, "test.send")
    if type_ == "approval.voided":
        more = {"why": str(data["why"])}
    assert {name: data[name] for name in ("by", "why") if name in data} == more


def test_what_is_sent_is_canonical_json_with_the_time_it_happened() -> None:
    notice = Notice(id="amends_7_ab", type="incident.opened", at=1_700_000_000_007, about="s/1", data={"saga": "ü"})
    assert json.loads(notice.body) == {
        "id": "amends_7_ab",
        "type": "incident.opened",
        "timestamp": "2023-11-14T22:13:20.007Z",
        "data": {"saga": "ü"},
    }
    assert notice.body.startswith('{"data":{"saga":"ü"},"id"'.encode())


def test_long_texts_and_long_lists_are_cut() -> None:
    told = _TOLD[IncidentOpened]
    left = tuple(StepId(str(number)) for number in range(10_000))
    event = IncidentOpened(incident=1, kind=IncidentKind.DIVERGED, step=None, why="x" * 100_000, left=left)
    about, data = told(event, SagaId("s"), {})
    named = cast("list[object]", data["left"])
    assert (about, len(str(data["why"])), len(named), data["left_count"]) == ("s/1", 1001, 50, 10_000)
    notice = Notice(id="x", type="incident.opened", at=0, about=about, data=data)
    assert len(notice.body) < 20_000


def test_of_what_retention_has_removed_only_the_saga_is_told() -> None:
    world, memory, clock = World(), Memory(), QuickClock()
    send = world.action("send", no_rollback="a mail cannot be unsent")

    @saga("test.mail")
    async def mail(s: Work) -> None:
        await s.do(send)

    async def whole() -> None:
        async with coordinator(memory, env="production", settings=SETTINGS, clock=clock) as desk:
            handle = await desk.start(mail, id="m")
            await handle.halt()
            before = [await notice_of(desk.journal, one) async for one in desk.journal.log(names=wire_names(TYPES))]
            await desk.grant("m/1", by="person:ana")
            await handle
            await desk.journal.remove_payloads(by="person:ann", why="it is old", ended_before=clock.now() + 1)
            after = [await notice_of(desk.journal, one) async for one in desk.journal.log(names=wire_names(TYPES))]
            assert [one.id for one in after][:1] == [one.id for one in before]
            assert after[0].about == "m"
            assert after[0].data == {
                "saga": "m", "definition": "test.mail", "env": "production", "actor": login(), "removed": True
            }  # fmt: skip

    asyncio.run(whole())


def test_a_type_that_there_is_not_is_refused_with_the_nearest_one() -> None:
    assert checked_types(["incident.opened", "incident.opened"]) == ("incident.opened",)
    with pytest.raises(InputError, match=r"did you mean incident\.opened\?"):
        checked_types(["incident.open"])
    with pytest.raises(InputError, match="told of nothing"):
        checked_types([])
