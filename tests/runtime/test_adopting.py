"""A policy is adopted while people are asked: what they are asked is void at once, and judged again, everywhere."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from amends import Coordinator, Registry, SagaDefinition, Settings, StepDeniedError, saga
from amends.bootstrap import Coordinator as Opened
from amends.core import commands as c
from amends.core.state.saga import Saga
from amends.core.words.values import SagaId
from amends.errors import PolicyNotInForceError, RefusedError
from amends.gate.load import load_policy
from amends.runtime.drive.policies import Policies
from amends.runtime.saga.work import Work
from tests.runtime.support import World, names

ASK = """
version: v1
default: allow
rules:
  - {id: ask-first, when: {topic: test.pay, phase: forward}, decision: require_human, expires: 1h}
"""
ASK_TWO = ASK.replace("ask-first", "ask-two").replace("expires: 1h", "approvals: 2")
DENY = ASK.replace("ask-first", "no-money").replace("require_human, expires: 1h", "deny")
ALLOW = "version: v1\ndefault: allow\nrules: []\n"
QUICK = Settings(park_s=0.0, poll_s=0.02, settle_s=1)
SELDOM = Settings(park_s=0.0, poll_s=30.0, settle_s=1)
PERSON = "person:ann"


def driven(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 60))

    return run


class Place:
    """A journal's file, policies beside it, and what happened in the world."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.world = World()
        self.registry = Registry()
        self.paying = paying(self.world)
        self.registry.add_definition(self.paying)

    def open(self, policy: str | None = None, *, settings: Settings = QUICK, knows: bool = True) -> Any:
        file = None if policy is None else self.policy(policy)
        registry = self.registry if knows else Registry()
        return Opened.open(str(self.folder / "a.db"), policy=file, settings=settings, registry=registry)

    def policy(self, text: str) -> Path:
        file = self.folder / f"{abs(hash(text))}.yaml"
        file.write_text(text)
        return file

    async def adopt(self, coordinator: Coordinator, text: str) -> None:
        assert await coordinator.adopt(self.policy(text), by=PERSON, why="it changed")

    async def adopt_and_die(self, text: str) -> None:
        """A process adopts it, and is gone before it could do anything else."""
        async with self.open(knows=False) as one:
            await policies(one).adopt(load_policy(self.policy(text)), by=PERSON, why="it changed")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def paying(world: World) -> SagaDefinition:
    book, pay = world.action("book"), world.action("pay", result="paid")

    @saga("test.paying")
    async def made(s: Work) -> Any:
        await s.do(book)
        return await s.do(pay)

    return made


def policies(coordinator: Coordinator) -> Policies:
    assert isinstance(coordinator._gate, Policies)
    return coordinator._gate


async def parked(coordinator: Coordinator, saga_id: str = "s") -> str:
    """Wait until it waits for people, and only its row is left; the id of what they are asked."""
    while True:
        rows = await coordinator.approvals(saga=saga_id)
        if rows and coordinator._engine.running(SagaId(saga_id)) is None:
            return rows[0].id
        await asyncio.sleep(0.001)


async def asked_again(coordinator: Coordinator, times: int = 2) -> None:
    while names((await coordinator.show("s")).entries).count("approval.requested") < times:
        await asyncio.sleep(0.001)


async def rules_asked(coordinator: Coordinator, saga_id: str = "s") -> list[str]:
    entries = (await coordinator.show(saga_id)).entries
    return [str(getattr(one.event, "rule", "")) for one in entries if one.name.startswith("approval.requested")]


ENDINGS = {
    "allowed": (ALLOW, "completed", ["book", "pay"]),
    "denied": (DENY, "rolled_back", ["book", "unbook"]),
}
either = pytest.mark.parametrize(("new", "status", "seen"), ENDINGS.values(), ids=ENDINGS)


# -- in every process -------------------------------------------------------------------------------------------------


@either
@driven
async def test_it_is_judged_again_in_the_process_that_adopts(
    place: Place, new: str, status: str, seen: list[str]
) -> None:
    async with place.open(ASK, settings=SELDOM) as one:  # no poll comes in time: it is told
        handle = await one.start(place.paying, id="s")
        await parked(one)
        await place.adopt(one, new)
        ended = await asyncio.wait_for(handle, 10)
    assert (ended.status, place.world.seen) == (status, seen)


@either
@driven
async def test_it_is_judged_again_in_another_process_that_lives(
    place: Place, new: str, status: str, seen: list[str]
) -> None:
    async with place.open(ASK) as runs, place.open(knows=False) as other:
        handle = await runs.start(place.paying, id="s")
        await parked(runs)
        await place.adopt(other, new)
        ended = await asyncio.wait_for(handle, 10)
    assert (ended.status, place.world.seen) == (status, seen)


@either
@driven
async def test_it_is_judged_again_by_resume_where_no_process_lives(
    place: Place, new: str, status: str, seen: list[str]
) -> None:
    async with place.open(ASK) as one:
        await one.start(place.paying, id="s")
        await parked(one)
    async with place.open(knows=False) as other:
        await place.adopt(other, new)
        assert not await other.approvals()
    async with place.open() as one:
        assert [ended.status for ended in await one.resume()] == [status]
    assert place.world.seen == seen


@driven
async def test_a_policy_that_still_asks_asks_anew_and_earlier_signatures_do_not_count(place: Place) -> None:
    async with place.open(ASK_TWO) as runs, place.open(knows=False) as other:
        handle = await runs.start(place.paying, id="s")
        asked = await parked(runs)
        await runs.grant(asked, by="person:kim")
        await place.adopt(other, ASK)
        await asked_again(runs)
        shown = await runs.approval(asked)
        assert (shown.signers, shown.rule, shown.policy) == ((), "ask-first", load_policy(place.policy(ASK)).digest)
        await other.grant(asked, by="person:kim", digest=shown.digest)
        assert (await handle).status == "completed"


@driven
async def test_whoever_opens_with_another_policy_is_refused_and_what_is_asked_stays_asked(place: Place) -> None:
    async with place.open(ASK) as runs:
        handle = await runs.start(place.paying, id="s")
        asked = await parked(runs)
        with pytest.raises(PolicyNotInForceError, match=r"is not the policy in force.*amends policy adopt"):
            await place.open(ALLOW, knows=False)
        await runs.grant(asked, by="person:kim")
        assert (await asyncio.wait_for(handle, 10)).status == "completed"
        assert names((await runs.show("s")).entries).count("approval.voided") == 0


@driven
async def test_of_two_who_begin_a_journal_with_different_policies_the_second_is_refused(place: Place) -> None:
    """Both find it empty; only one of them is the first."""
    async with place.open(knows=False) as one, place.open(knows=False) as other:
        first, second = (load_policy(place.policy(text)) for text in (ASK, ALLOW))
        begun = await asyncio.gather(
            policies(one).begins_with(first, by=PERSON, why="x"),
            policies(other).begins_with(second, by=PERSON, why="x"),
        )
        assert sorted(begun) == [False, True]
        assert await policies(one).newest() == await policies(other).newest()


@driven
async def test_a_policy_decided_before_another_was_seen_does_not_follow_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was decided of an empty journal is refused by one that another process has begun meanwhile."""
    async with place.open(knows=False) as one, place.open(knows=False) as other:
        first, second = (load_policy(place.policy(text)) for text in (ASK, ALLOW))
        slow, proved = policies(one), policies(one).proved

        async def after_the_other(*words: Any, **named: Any) -> str:
            assert await policies(other).begins_with(second, by=PERSON, why="x")
            return await proved(*words, **named)

        monkeypatch.setattr(slow, "proved", after_the_other)
        assert not await slow.begins_with(first, by=PERSON, why="x")
        assert await policies(one).newest() == second.digest


@driven
async def test_a_policy_that_is_in_force_already_voids_nothing(place: Place) -> None:
    async with place.open(ASK) as one:
        await one.start(place.paying, id="s")
        await parked(one)
        assert not await one.adopt(place.policy(ASK), by=PERSON, why="again")
    async with place.open(ASK) as one:
        assert await one.resume() == []
        assert names((await one.show("s")).entries).count("approval.voided") == 0


# -- who adopts it dies, or comes at the same moment ------------------------------------------------------------------


@either
@driven
async def test_resume_makes_up_for_who_adopted_it_and_died(
    place: Place, new: str, status: str, seen: list[str]
) -> None:
    async with place.open(ASK) as one:
        await one.start(place.paying, id="s")
        await parked(one)
    await place.adopt_and_die(new)
    async with place.open() as one:
        assert [ended.status for ended in await one.resume()] == [status]
    assert place.world.seen == seen


@driven
async def test_who_waits_for_a_saga_finds_it_out_though_the_adopter_died(place: Place) -> None:
    async with place.open(ASK) as one:
        handle = await one.start(place.paying, id="s")
        ended = asyncio.ensure_future(_awaited(handle))
        await parked(one)
        await place.adopt_and_die(ALLOW)
        assert (await asyncio.wait_for(ended, 10)).status == "completed"


@driven
async def test_who_is_on_duty_finds_it_out_though_the_adopter_died(place: Place) -> None:
    async with place.open(ASK) as one:
        await one.start(place.paying, id="s")
        await parked(one)
    await place.adopt_and_die(ALLOW)
    async with place.open() as one:
        duty = asyncio.ensure_future(one.work())
        while (await one.show("s")).status != "completed":
            await asyncio.sleep(0.01)
        duty.cancel()


async def _awaited(handle: Any) -> Any:
    return await handle


@driven
async def test_an_adopter_that_dies_between_two_sagas_leaves_none_behind(place: Place) -> None:
    async with place.open(ASK) as one:
        for each in ("s", "t"):
            await one.start(place.paying, id=each)
            await parked(one, each)
    async with place.open(knows=False) as adopter:
        gate = policies(adopter)
        await gate.adopt(load_policy(place.policy(ALLOW)), by=PERSON, why="it changed")

        async def once(saga_id: SagaId, command: c.Command) -> Saga:
            if saga_id != "s":
                raise asyncio.CancelledError
            told: Saga = await adopter._engine.request(saga_id, command)
            return told

        with pytest.raises(asyncio.CancelledError):
            await gate.void_outlived(once)
        assert [row.id for row in await adopter.approvals()] == ["t/2"]
    async with place.open() as one:
        assert [ended.status for ended in await one.resume()] == ["completed", "completed"]


@driven
async def test_who_asks_by_a_policy_that_was_replaced_just_now_looks_once_more(place: Place) -> None:
    async with place.open(ASK, settings=SELDOM) as runs, place.open(knows=False) as other:
        await place.adopt(other, ALLOW)  # `runs` does not look again for half a minute
        await (await runs.start(place.paying, id="s")).halt()  # nobody waits for its end, and looks
        assert (await runs.show("s")).status == "completed"
        entries = names((await runs.show("s")).entries)
        assert entries.index("approval.requested") < entries.index("approval.voided") < entries.index("action.allowed")


# -- what is asked ahead, what is held, what was granted --------------------------------------------------------------


def asking_ahead(world: World, **contract: Any) -> SagaDefinition:
    pay = world.action("pay", result="paid", **contract)

    @saga("test.ahead")
    async def ahead(s: Work) -> str:
        try:
            people = await s.ask(pay)
        except StepDeniedError as exc:
            return f"denied: {exc.reason}"
        await s.wait_for("go")
        await s.do(pay)
        return ",".join(people)

    return ahead


@driven
async def test_what_is_asked_ahead_is_asked_anew_also_where_the_policy_would_allow_it(place: Place) -> None:
    definition = asking_ahead(place.world)
    async with place.open(ASK) as one:
        handle = await one.start(definition, id="s")
        asked = await parked(one)
        await place.adopt(one, ALLOW)
        await asked_again(one)
        assert await rules_asked(one) == ["ask-first", "asked-ahead"]
        await one.grant(asked, by="person:kim")
        await one.signal("s", "go")
        assert (await handle).result == "person:kim"


@driven
async def test_what_is_asked_ahead_and_denied_since_is_told_to_the_function(place: Place) -> None:
    definition = asking_ahead(place.world)
    async with place.open(ASK) as one:
        handle = await one.start(definition, id="s")
        await parked(one)
        await place.adopt(one, DENY)
        assert str((await handle).result).startswith("denied: ")
        assert place.world.seen == []


DENY_UNASKED = ALLOW.replace(
    "rules: []", "rules: [{id: unasked, when: {topic: test.pay, approval_present: false}, decision: deny}]"
)


@driven
async def test_what_was_asked_ahead_still_counts_as_asked_when_its_grant_is_void(place: Place) -> None:
    definition = asking_ahead(place.world)
    async with place.open(ASK) as one:
        handle = await one.start(definition, id="s")
        asked = await parked(one)
        await one.grant(asked, by="person:kim")
        await place.adopt(one, DENY_UNASKED)
        await one.signal("s", "go")
        await asked_again(one)  # the grant does not count any more; that somebody asked does
        await one.grant(asked, by="person:lee")
        assert ((await handle).status, place.world.seen) == ("completed", ["pay"])


@driven
async def test_a_held_step_that_waits_for_people_is_judged_again(place: Place) -> None:
    book, pay = place.world.action("book"), place.world.action("pay", hold=True, no_rollback="it is out")

    @saga("test.held")
    async def held(s: Work) -> None:
        await s.do(pay)
        await s.do(book)

    async with place.open(ASK) as one:
        handle = await one.start(held, id="s")
        await parked(one)
        await place.adopt(one, ALLOW)
        assert (await asyncio.wait_for(handle, 10)).status == "completed"
    assert place.world.seen == ["book", "pay"]


@driven
async def test_what_is_asked_once_more_when_it_is_released_is_judged_again_too(place: Place) -> None:
    pay = place.world.action("pay", hold=True, no_rollback="it is out")

    @saga("test.held")
    async def held(s: Work) -> None:
        await s.do(pay)
        await s.wait_for("go")

    async with place.open(ASK) as one:
        handle = await one.start(held, id="s")
        await one.grant(await parked(one), by="person:kim")
        await place.adopt(one, ASK_TWO)
        await one.signal("s", "go")
        await asked_again(one)
        await place.adopt(one, ALLOW)
        assert (await asyncio.wait_for(handle, 10)).status == "completed"
    assert place.world.seen == ["pay"]


@driven
async def test_a_grant_under_the_policy_before_cannot_expire_any_more(place: Place) -> None:
    definition = asking_ahead(place.world)
    async with place.open(ASK.replace("expires: 1h", "expires: 1s")) as one:
        handle = await one.start(definition, id="s")
        asked = await parked(one)
        await one.grant(asked, by="person:kim")
        await place.adopt(one, ASK)
        expires_at = (await one.approval(asked)).expires_at
        while one._clock.now() < expires_at:
            await asyncio.sleep(0.05)
        await one.signal("s", "go")
        await asked_again(one)
        await one.grant(asked, by="person:kim")
        assert (await handle).status == "completed"


# -- a click ----------------------------------------------------------------------------------------------------------


@driven
async def test_an_answer_to_what_was_asked_under_the_policy_before_is_refused_with_what_to_do(place: Place) -> None:
    async with place.open(ASK) as one:
        await one.start(place.paying, id="s")
        asked = await parked(one)
    await place.adopt_and_die(ALLOW)
    async with place.open(knows=False) as desk:
        with pytest.raises(RefusedError, match=r"another was adopted since: it is void.*amends resume"):
            await desk.refuse(asked, by="person:kim", why="no")
        with pytest.raises(RefusedError, match=r"no longer counts.*amends resume"):
            await desk.grant(asked, by="person:kim")
    async with place.open() as one:
        assert [ended.status for ended in await one.resume()] == ["completed"]
