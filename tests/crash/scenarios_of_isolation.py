"""Sagas that need something for themselves: they wait, give way, and look again, and no crash leaks what they held."""

import asyncio
from dataclasses import replace
from typing import Any

from amends import DeadlockError, Done, Handle, SagaDefinition, Settings, StepFailedError, Work, register, saga
from amends.errors import DocumentConflictError
from amends.runtime.coordinator.coordinator import Coordinator
from amends.testing.crash.crash import SETTINGS, here
from tests.crash.scenarios import COMPLETED, INCIDENT, ROLLED_BACK, act, fatal_clean, keyed_a, scenario, works

IN_LINE = replace(SETTINGS, lock_wait_s=900.0)
HASTY = replace(SETTINGS, lock_wait_s=5.0)


async def to_the_end(coordinator: Coordinator) -> None:
    """Nobody dispatches for the sagas that stand in line but their own worker; and in the end nothing is held."""
    while await coordinator.list(status=("running", "waiting", "rolling_back")):
        await here().clock.sleep(5)
        await coordinator.resume()
    ended = {row.id for row in await coordinator.list(status=("completed", "rolled_back"))}
    leaked = [row for row in await coordinator.locks() if row.owner in ended]
    assert leaked == [], leaked


def side_by_side(*ids: str) -> Any:
    async def begin(coordinator: Coordinator, definition: SagaDefinition) -> None:
        handles = [await coordinator.start(definition, id=f"crash-{one}") for one in ids]
        await asyncio.gather(*map(_awaited, handles))
        await to_the_end(coordinator)

    return begin


async def _awaited(handle: Handle) -> None:
    await handle


def in_line(*ids: str, settings: Settings = IN_LINE) -> dict[str, Any]:
    return {"begin": side_by_side(*ids), "people": to_the_end, "settings": settings}


def locking(topic: str, *resources: str, **contract: Any) -> Any:
    return act(topic, resources=list(resources), **contract)


only_one = locking("keyed.only_one", "desk")
only_one_plain = locking("plain.only_one", "desk")


@scenario("two sagas need the same thing, one after the other", COMPLETED, **in_line("1", "2"))
async def one_after_the_other(s: Work) -> None:
    await s.do(only_one, 1)


@scenario("what one needs is held until the other's rollback has ended", ROLLED_BACK, **in_line("1", "2"))
async def held_until_rolled_back(s: Work) -> None:
    await s.do(only_one_plain, 1)
    await s.do(fatal_clean, 2)


async def slow_works(topic: str) -> str:
    await works(topic)
    await here().clock.sleep(20)
    return topic


slow_one = locking("keyed.slow_one", "desk", behaviour=slow_works)


@scenario("what one needs is not given back in time", COMPLETED, ROLLED_BACK, **in_line("1", "2", settings=HASTY))
async def waits_too_long(s: Work) -> None:
    if s.id == "crash-2":
        await s.do(keyed_a, 1)
        try:
            await s.do(only_one, 2)
        except StepFailedError:
            return
    await s.do(slow_one, 1)


left, right = locking("keyed.left", "left"), locking("keyed.right", "right")


async def naps(topic: str) -> None:
    await here().clock.sleep(1)


nap = act("plain.nap", naps, undo=None, read_only=True)


@scenario("two sagas would wait for each other for ever", COMPLETED, **in_line("1", "2"))
async def deadlock(s: Work) -> str:
    first, second = (left, right) if s.id == "crash-1" else (right, left)
    await s.do(first, 1)
    await s.do(nap, 2)
    try:
        await s.do(second, 3)
    except DeadlockError:
        return "gave way"
    return "went on"


@saga("crash.child_in_line")
async def shares(s: Work) -> None:
    await s.do(only_one_plain, 11)


@scenario("a child shares what its parent holds, and both go back", ROLLED_BACK, **in_line("1"))
async def family_in_line(s: Work) -> None:
    await s.do(only_one, 1)
    await s.call(shares)
    await s.do(fatal_clean, 2)


# -- looking again ----------------------------------------------------------------------------------------------------


def reread(topic: str, *, meddle: bool) -> Any:
    """A thing that somebody may change while the saga is under way: then what the action left is not there any more."""

    async def action(n: int) -> str:
        return await works(topic)

    async def look(done: Done) -> int:
        await here().reach(f"{topic}: looked at")
        return await here().tally(f"meddled with {topic}") if meddle else 0

    async def undo(done: Done) -> None:
        await here().undo(topic, done)

    return register(topic, action, compensation=undo, reread=look, idempotent=True)


untouched, meddled = reread("keyed.untouched", meddle=False), reread("keyed.meddled", meddle=True)


@scenario("nobody has changed what a step left", ROLLED_BACK)
async def nobody_meddled(s: Work) -> None:
    await s.do(untouched, 1)
    await s.do(fatal_clean, 2)


@scenario("somebody has changed what a step left", INCIDENT, ROLLED_BACK)
async def somebody_meddled(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(meddled, 2)
    await s.do(fatal_clean, 3)


@scenario("branches of one saga share what it holds", COMPLETED, **in_line("1", "2"))
async def shared(s: Work) -> None:
    await asyncio.gather(s.do(only_one, 1), s.do(only_one, 2))


# -- documents --------------------------------------------------------------------------------------------------------


async def to_the_end_with_documents(coordinator: Coordinator) -> None:
    """As above; and the documents are what the sagas that completed made of them, no more and no less."""
    await to_the_end(coordinator)
    found = await coordinator.documents.get("count")
    completed = len(await coordinator.list(status="completed"))
    assert (0 if found is None else found.body) == completed, (found, completed)
    versions = [one.version async for one in coordinator.documents.history("count")]
    assert versions == list(range(1, len(versions) + 1)), versions


def counting(*ids: str) -> dict[str, Any]:
    async def begin(coordinator: Coordinator, definition: SagaDefinition) -> None:
        await side_by_side(*ids)(coordinator, definition)
        await to_the_end_with_documents(coordinator)

    return {"begin": begin, "people": to_the_end_with_documents, "settings": IN_LINE}


async def count(s: Work) -> None:
    await s.documents.update("count", lambda n: n + 1, 0)


@scenario("a document is changed, for good", COMPLETED, **counting("1"))
async def document_changed(s: Work) -> None:
    await s.do(keyed_a, 1)
    await count(s)


@scenario("a document is changed twice, and restored", ROLLED_BACK, **counting("1"))
async def document_restored(s: Work) -> None:
    await count(s)
    await s.documents.delete("count")
    await s.do(fatal_clean, 3)


@scenario("two sagas want to change a document, and one of them gives way", COMPLETED, ROLLED_BACK, **in_line("1", "2"))
async def document_conflict(s: Work) -> str:
    try:
        await count(s)
    except DocumentConflictError:
        return "gave way"
    return "counted"


@scenario("two sagas wait for a document in turn", COMPLETED, **counting("1", "2"))
async def document_in_turn(s: Work) -> None:
    await s.lock("document:count")
    await count(s)


@saga("crash.child_counts")
async def child_counts(s: Work, n: int) -> None:
    await count(s)


@scenario("a family changes a document, one after the other", COMPLETED, **counting("1"))
async def family_counts(s: Work) -> None:
    await count(s)
    await s.call(child_counts, 1)


@scenario("a family changes a document in turns, and all of it is restored", ROLLED_BACK, **counting("1"))
async def family_restored(s: Work) -> None:
    await s.call(child_counts, 1)
    await count(s)
    await s.call(child_counts, 2)
    await s.do(fatal_clean, 2)


@scenario("a child's change of a document is taken back, made again, and restored", ROLLED_BACK, **counting("1"))
async def family_counts_again(s: Work) -> None:
    await count(s)
    await s.checkpoint("counted")
    await s.call(child_counts, 1)
    await s.rollback_to("counted", "no good")
    await s.call(child_counts, 2)
    await s.do(fatal_clean, 3)
