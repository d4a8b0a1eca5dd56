"""What the enumeration runs: each scenario is small, named, and says how its saga may stand after any crash.

Topics say which provider is meant: `keyed.*` honours keys (its actions are declared idempotent), `plain.*` does not.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from importlib import import_module
from typing import Any

from amends import (
    Action,
    Asked,
    ChangedSince,
    Done,
    Fatal,
    Handle,
    Happened,
    NotDone,
    NotHappened,
    Retries,
    Retry,
    SagaDefinition,
    SagaStatus,
    Settings,
    Step,
    StepError,
    StepFailedError,
    StepLostError,
    Work,
    given,
    register,
    saga,
)
from amends.errors import RefusedError, UnknownSagaError
from amends.runtime.coordinator.coordinator import Coordinator
from amends.testing.crash.crash import SETTINGS, Scenario, here
from amends.testing.crash.life import Script
from amends.types import StepStatus

COMPLETED, ROLLED_BACK, INCIDENT = SagaStatus.COMPLETED, SagaStatus.ROLLED_BACK, SagaStatus.INCIDENT
MITIGATED = SagaStatus.MITIGATED
ID = "crash-1"

Behaviour = Callable[[str], Coroutine[Any, Any, Any]]
UndoBehaviour = Callable[[str, Done], Awaitable[Any]]


def statuses(*which: SagaStatus) -> frozenset[SagaStatus]:
    return frozenset(which)


# -- how actions behave ----------------------------------------------------------------------------------------------


async def works(topic: str) -> str:
    await here().effect(topic, honours_keys=topic.startswith("keyed."))
    return topic


async def takes_back(topic: str, done: Done) -> None:
    await here().undo(topic, done, honours_keys=topic.startswith("keyed."))


def act(
    topic: str,
    behaviour: Behaviour = works,
    undo: UndoBehaviour | None = takes_back,
    probe: Behaviour | None = None,
    **contract: Any,
) -> Action[[int], Coroutine[Any, Any, Any]]:
    async def action(n: int) -> Any:
        return await behaviour(topic)

    async def compensation(done: Done) -> None:
        assert undo is not None
        await undo(topic, done)

    async def ask(asked: Asked) -> Happened | NotHappened:
        assert probe is not None
        await probe(topic)
        return Happened("probed") if await here().stands(topic, asked) else NotHappened()

    action.__name__ = topic.partition(".")[2]
    contract.setdefault("idempotent", topic.startswith("keyed."))
    return register(
        topic,
        action,
        compensation=None if undo is None or "no_rollback" in contract else compensation,
        probe=None if probe is None else ask,
        **contract,
    )


async def nothing(topic: str) -> None:
    """A probe that answers what it sees."""


async def refuses_to_answer(topic: str) -> None:
    await here().reach(f"{topic}: asked in vain")
    raise ConnectionError("no answer")


def fails_at_first(error: Exception, times: int = 1, *, effect: bool = False) -> Behaviour:
    """The first `times` calls fail, after their effect or before it."""

    async def behaviour(topic: str) -> str:
        early = await here().tally(topic) <= times
        if not early or effect:
            await works(topic)
        if early:
            raise error
        return topic

    return behaviour


def always(error: Exception, *, effect: bool = False) -> Behaviour:
    return fails_at_first(error, 1_000_000, effect=effect)


def undo_fails_at_first(error: Exception, times: int = 1, *, effect: bool = False) -> UndoBehaviour:
    async def behaviour(topic: str, done: Done) -> None:
        early = await here().tally(f"undo {topic}") <= times
        if not early or effect:
            await takes_back(topic, done)
        if early:
            raise error

    return behaviour


SOON = Retries(attempts=2, first_s=0.5)

keyed_a, keyed_b, keyed_c = act("keyed.a"), act("keyed.b"), act("keyed.c")
plain_a, plain_b, plain_c = act("plain.a"), act("plain.b"), act("plain.c")
fatal = act("plain.fatal", always(Fatal("no"), effect=True))
fatal_clean = act("plain.fatal_clean", always(Fatal("no", happened=False)))

Body = Callable[[Work], Awaitable[Any]]
ALL: dict[str, Scenario] = {}


def scenario(
    name: str,
    unharmed: SagaStatus,
    *ends: SagaStatus,
    begin: Callable[[Coordinator, SagaDefinition], Awaitable[object]] | None = None,
    declared: dict[str, Any] | None = None,
    **more: Any,
) -> Callable[[Body], SagaDefinition]:
    """Make a saga's function a scenario. `ends`: how it may stand after a crash, beside `unharmed`.

    `declared`: what else the definition declares, as `@saga` takes it.
    """

    def declare(body: Body) -> SagaDefinition:
        async def function(s: Work) -> Any:
            return await body(s)

        options: dict[str, Any] = declared or {}
        definition = saga(f"crash.{len(ALL)}", **options)(function)

        async def run(coordinator: Coordinator) -> None:
            if begin is not None:
                await begin(coordinator, definition)
            else:
                await coordinator.run(definition, id=ID)

        ALL[name] = Scenario(name=name, begin=run, unharmed=unharmed, ends=frozenset({unharmed, *ends}), **more)
        return definition

    return declare


# -- going forward ---------------------------------------------------------------------------------------------------


@scenario("a straight line of actions that cannot be repeated", COMPLETED, ROLLED_BACK)
async def straight(s: Work) -> list[Any]:
    return [await s.do(plain_a, 1), await s.do(plain_b, 2), await s.do(plain_c, 3)]


@scenario("a straight line of idempotent actions", COMPLETED)
async def straight_keyed(s: Work) -> list[Any]:
    return [await s.do(keyed_a, 1), await s.do(keyed_b, 2), await s.do(keyed_c, 3)]


@scenario("the last step is fatal", ROLLED_BACK)
async def fatal_at_last(s: Work) -> None:
    await s.do(plain_a, 1)
    await s.do(keyed_b, 2)
    await s.do(fatal, 3)


@scenario("the last step is fatal and certifies that nothing happened", ROLLED_BACK)
async def fatal_clean_at_last(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(plain_b, 2)
    await s.do(fatal_clean, 3)


@scenario("the first step is fatal", ROLLED_BACK)
async def fatal_first(s: Work) -> None:
    await s.do(fatal, 1)


@scenario("the saga's function raises an error of its own", ROLLED_BACK)
async def own_error(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(plain_b, 2)
    raise LookupError("of its own")


lost = act("plain.lost", always(ConnectionError("cut"), effect=True))
lost_before = act("plain.lost_before", always(ConnectionError("cut")))


@scenario("a step that cannot be repeated is lost after its effect", ROLLED_BACK)
async def lost_step(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(lost, 2)


@scenario("a step that cannot be repeated is lost before its effect", ROLLED_BACK)
async def lost_step_before(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(lost_before, 2)


found = act("plain.found", always(ConnectionError("cut"), effect=True), probe=nothing)
found_nothing = act("plain.found_nothing", fails_at_first(ConnectionError("cut")), probe=nothing)
unanswered = act("plain.unanswered", always(ConnectionError("cut"), effect=True), probe=refuses_to_answer)
unanswered_keyed = act("keyed.unanswered", fails_at_first(ConnectionError("cut"), effect=True), probe=refuses_to_answer)


@scenario("a lost step is probed: it happened", COMPLETED)
async def probed_found(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(found, 2)
    await s.do(keyed_c, 3)


@scenario("a lost step is probed: it did not happen, so it is tried again", COMPLETED)
async def probed_nothing(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(found_nothing, 2)
    await s.do(keyed_c, 3)


@scenario("a lost step is probed: no answer, so it is compensated as uncertain", ROLLED_BACK)
async def probed_in_vain(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(unanswered, 2)


@scenario("a lost idempotent step is probed: no answer, so it is repeated", COMPLETED)
async def probed_in_vain_keyed(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(unanswered_keyed, 2)


lost_keyed = act("keyed.lost", fails_at_first(ConnectionError("cut"), 2, effect=True))
not_done = act("plain.not_done", fails_at_first(NotDone("later"), 2), retries=Retries(attempts=4))
not_done_ever = act("plain.not_done_ever", always(NotDone("never")), retries=Retries(attempts=3))
retry_later = act("plain.retry_later", fails_at_first(Retry("later", after=600.0)))
atomic = act("plain.atomic", always(ValueError("rolled back by the database")), atomic=True, retries=2)


@scenario("an idempotent step is lost twice and repeated", COMPLETED)
async def repeated(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(lost_keyed, 2)


@scenario("a step says NotDone twice and is tried again", COMPLETED, ROLLED_BACK)
async def tried_again(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(not_done, 2)


@scenario("a step says NotDone until its tries are used up", ROLLED_BACK)
async def used_up(s: Work) -> None:
    await s.do(plain_a, 1)
    await s.do(not_done_ever, 2)


@scenario("a step asks to be tried again in ten minutes", COMPLETED, ROLLED_BACK)
async def later(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(retry_later, 2)


@scenario("an atomic step fails", ROLLED_BACK)
async def atomic_fails(s: Work) -> None:
    await s.do(plain_a, 1)
    await s.do(atomic, 2)


async def reads(topic: str) -> str:
    await here().reach(f"{topic}: read")
    return "seen"


read = act("plain.read", reads, undo=None, read_only=True)


@scenario("read-only steps between others", ROLLED_BACK)
async def reading(s: Work) -> None:
    await s.do(read, 1)
    await s.do(keyed_a, 2)
    await s.do(read, 3)
    await s.do(fatal_clean, 4)


async def slow_work(topic: str) -> str:
    await works(topic)
    await here().clock.sleep(60)
    return topic


async def slow_undo(topic: str, done: Done) -> None:
    await here().clock.sleep(60)
    await takes_back(topic, done)


times_out = act("plain.times_out", slow_work, timeout=5)
undo_times_out = act("plain.undo_times_out", undo=slow_undo, compensation_timeout=5, compensation_retries=SOON)


@scenario("a step runs out of time after its effect", ROLLED_BACK)
async def out_of_time(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(times_out, 2)


BIG = "x" * 300_000


async def big_work(topic: str) -> str:
    await works(topic)
    return BIG


async def opaque_work(topic: str) -> object:
    await works(topic)
    return object()


big = act("keyed.big", big_work)
opaque = act("keyed.opaque", opaque_work)


async def undo_big(topic: str, done: Done) -> None:
    assert done.result == BIG or not done.certain
    await takes_back(topic, done)


big_back = act("keyed.big_back", big_work, undo=undo_big)


@scenario("a result large enough to be kept beside its entry", COMPLETED)
async def large(s: Work) -> int:
    return len(await s.do(big, 1))


@scenario("a large result is handed to the compensation", ROLLED_BACK)
async def large_back(s: Work) -> None:
    await s.do(big_back, 1)
    await s.do(fatal_clean, 2)


@scenario("a result that cannot be kept", ROLLED_BACK)
async def cannot_be_kept(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(opaque, 2)


def at_once(n: int) -> str:
    here().effect_in_thread("keyed.thread")
    return "done"


def back_at_once(done: Done) -> None:
    here().undo_in_thread("keyed.thread", done)


thread = register("keyed.thread", at_once, compensation=back_at_once, idempotent=True)


@scenario("plain functions, in threads, complete", COMPLETED)
async def threads(s: Work) -> None:
    await s.do(thread, 1)
    await s.do(thread, 2)


@scenario("plain functions, in threads, are rolled back", ROLLED_BACK)
async def threads_back(s: Work) -> None:
    await s.do(thread, 1)
    await s.do(thread, 2)
    await s.do(fatal_clean, 3)


def late_by(seconds: float) -> Callable[[int], str]:
    def action(n: int) -> str:
        here().sleep_in_thread(seconds)
        here().effect_in_thread("plain.late")
        return "late"

    return action


def late_undo(done: Done) -> None:
    here().undo_in_thread("plain.late", done)


late = register("plain.late", late_by(8), compensation=late_undo, timeout=5)
very_late = register("plain.very_late", late_by(90), compensation=late_undo, timeout=5)


@scenario("a thread takes effect after its time is up, while it is waited for", ROLLED_BACK)
async def late_thread(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(late, 2)


@scenario("a thread takes effect after everybody has given it up", INCIDENT, ROLLED_BACK)
async def very_late_thread(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(very_late, 2)


# -- side by side ----------------------------------------------------------------------------------------------------


@scenario("branches side by side", COMPLETED)
async def parallel(s: Work) -> list[Any]:
    await s.do(keyed_a, 0)
    return list(await asyncio.gather(s.do(keyed_a, 1), s.do(keyed_b, 2), s.do(keyed_c, 3)))


@scenario("branches side by side that cannot be repeated", COMPLETED, ROLLED_BACK)
async def parallel_plain(s: Work) -> list[Any]:
    return list(await asyncio.gather(s.do(plain_a, 1), s.do(plain_b, 2), s.do(plain_c, 3)))


@scenario("one of the branches is fatal", ROLLED_BACK)
async def parallel_fatal(s: Work) -> None:
    await asyncio.gather(s.do(keyed_a, 1), s.do(fatal, 2), s.do(plain_c, 3))


slow = act("keyed.slow", slow_work)


@scenario("one of the branches is fatal while another is on its way", ROLLED_BACK)
async def parallel_slow(s: Work) -> None:
    await asyncio.gather(s.do(slow, 1), s.do(fatal, 2))


async def slowish_work(topic: str) -> str:
    await works(topic)
    await here().clock.sleep(20)
    return topic


slowish = act("plain.slowish", slowish_work)


@scenario("a branch is on its way while another goes on", COMPLETED, ROLLED_BACK)
async def parallel_slowish(s: Work) -> None:
    async def other() -> None:
        for n in (2, 3):
            await here().clock.sleep(1)
            await s.do(keyed_a, n)

    await asyncio.gather(s.do(slowish, 1), other())


@scenario("branches that come in another order each time", COMPLETED)
async def shuffled(s: Work) -> list[Any]:
    turn = await here().tally("shuffled")

    async def branch(n: int) -> list[Any]:
        await here().clock.sleep((n * turn) % 3)
        return [await s.do(keyed_a, n), await s.do(keyed_b, n)]

    return list(await asyncio.gather(*(branch(n) for n in range(3))))


@scenario("branches that come in another order each time, and fail", ROLLED_BACK)
async def shuffled_back(s: Work) -> None:
    turn = await here().tally("shuffled")

    async def branch(n: int) -> None:
        await here().clock.sleep((n * turn) % 3)
        await s.do(keyed_a, n)
        await s.do(plain_b, n)

    await asyncio.gather(*(branch(n) for n in range(3)))
    await s.do(fatal_clean, 9)


@scenario("a step that nobody waits for when the function returns", COMPLETED, ROLLED_BACK)
async def left_behind(s: Work) -> None:
    await s.do(keyed_a, 1)
    behind = asyncio.ensure_future(s.do(slow, 2))
    await here().clock.sleep(1)
    assert not behind.done() or behind.result()


# -- caught ----------------------------------------------------------------------------------------------------------


@scenario("an error of a step is caught, and the saga completes", COMPLETED)
async def caught(s: Work) -> str:
    await s.do(keyed_a, 1)
    with suppress(StepError):
        await s.do(fatal_clean, 2)
    await s.do(keyed_c, 3)
    return "all the same"


@scenario("a lost step is caught, and settled when the work is finished", COMPLETED)
async def caught_lost(s: Work) -> str:
    await s.do(keyed_a, 1)
    with suppress(StepLostError):
        await s.do(lost, 2)
    await s.do(keyed_c, 3)
    return "all the same"


@scenario("two lost steps are caught, and settled newest first", COMPLETED)
async def caught_twice(s: Work) -> None:
    for n in (1, 2):
        with suppress(StepLostError):
            await s.do(lost, n)


lost_for_good = act("plain.lost_for_good", always(ConnectionError("cut"), effect=True), undo=None)


@scenario("a lost step without a compensation is caught", INCIDENT)
async def caught_for_good(s: Work) -> None:
    await s.do(keyed_a, 1)
    with suppress(StepLostError):
        await s.do(lost_for_good, 2)


@scenario("one of the branches fails and is caught; the others stand", COMPLETED)
async def caught_branch(s: Work) -> None:
    await asyncio.gather(s.do(keyed_a, 1), s.do(fatal, 2), s.do(keyed_c, 3), return_exceptions=True)


@scenario("the function gives up waiting for a step, and does another", COMPLETED, ROLLED_BACK)
async def gives_up_waiting(s: Work) -> str:
    await s.do(keyed_a, 1)
    try:
        async with asyncio.timeout(5):
            await s.do(slow, 2)
    except TimeoutError:
        await s.do(keyed_c, 3)
    return "all the same"


# -- before-images ---------------------------------------------------------------------------------------------------


def with_before(
    topic: str, capture: Behaviour, behaviour: Behaviour = works
) -> Action[[int], Coroutine[Any, Any, Any]]:
    async def undo(topic: str, done: Done) -> None:
        assert done.before == "as it was"
        await takes_back(topic, done)

    made = act(topic, behaviour, undo)

    async def before(asked: Asked) -> object:
        return await capture(topic)

    made.before(before)
    return made


async def as_it_was(topic: str) -> str:
    await here().reach(f"{topic}: looked at")
    return "as it was"


async def blind_at_first(topic: str) -> str:
    if await here().tally(f"before {topic}") == 1:
        raise ConnectionError("cannot look")
    return await as_it_was(topic)


role = with_before("keyed.role", as_it_was)
role_lost = with_before("plain.role_lost", as_it_was, always(ConnectionError("cut"), effect=True))
role_blind = with_before("keyed.role_blind", blind_at_first)


@scenario("a before-image is handed to the compensation", ROLLED_BACK)
async def before_image(s: Work) -> None:
    await s.do(role, 1)
    await s.do(role_lost, 2)


@scenario("a before-image cannot be captured, and that is caught", COMPLETED)
async def before_image_fails(s: Work) -> str:
    try:
        await s.do(role_blind, 1)
    except StepFailedError:
        await s.do(keyed_b, 2)
        return "without"
    await s.do(keyed_c, 3)
    return "with"


# -- going back ------------------------------------------------------------------------------------------------------

undo_late = act("plain.undo_late", undo=undo_fails_at_first(NotDone("later")))
undo_lost = act("keyed.undo_lost", undo=undo_fails_at_first(ConnectionError("cut"), effect=True))
undo_never = act("plain.undo_never", undo=undo_fails_at_first(NotDone("never"), 1_000_000), compensation_retries=SOON)
undo_never_go_on = act(
    "plain.undo_go_on",
    undo=undo_fails_at_first(NotDone("never"), 1_000_000),
    compensation_retries=SOON,
    on_incident="go_on",
)
undo_fatal = act("plain.undo_fatal", undo=undo_fails_at_first(Fatal("no"), 1_000_000))
changed = act("plain.changed", undo=undo_fails_at_first(ChangedSince("someone did"), 1_000_000))
undeclared = act("plain.undeclared", undo=None)


@scenario("a compensation fails once and then works", ROLLED_BACK)
async def back_later(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(undo_late, 2)
    await s.do(fatal, 3)


@scenario("a compensation is lost once, after its effect, and repeated", ROLLED_BACK)
async def back_lost(s: Work) -> None:
    await s.do(plain_a, 1)
    await s.do(undo_lost, 2)
    await s.do(fatal, 3)


@scenario("a compensation fails for good and the rollback stops", INCIDENT, ROLLED_BACK)
async def back_never(s: Work) -> None:
    await s.do(plain_a, 1)
    await s.do(undo_never, 2)
    await s.do(keyed_c, 3)
    await s.do(fatal, 4)


@scenario("a compensation fails for good and the rollback goes on", INCIDENT, ROLLED_BACK)
async def back_goes_on(s: Work) -> None:
    await s.do(plain_a, 1)
    await s.do(undo_never_go_on, 2)
    await s.do(keyed_c, 3)
    await s.do(undo_never_go_on, 4)
    await s.do(fatal_clean, 5)


@scenario("a step that cannot be repeated comes before a compensation that fails for good", INCIDENT, ROLLED_BACK)
async def back_never_plain(s: Work) -> None:
    await s.do(undo_never, 1)
    await s.do(plain_b, 2)
    await s.do(fatal_clean, 3)


@scenario("a compensation is fatal", INCIDENT, ROLLED_BACK)
async def back_fatal(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(undo_fatal, 2)
    await s.do(fatal_clean, 3)


@scenario("a compensation runs out of time, each time", INCIDENT, ROLLED_BACK)
async def back_out_of_time(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(undo_times_out, 2)
    await s.do(fatal_clean, 3)


@scenario("someone changed it since", INCIDENT, ROLLED_BACK)
async def changed_since(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(changed, 2)
    await s.do(fatal_clean, 3)


@scenario("an undeclared step in a saga that is rolled back", INCIDENT, ROLLED_BACK)
async def no_compensation(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(undeclared, 2)
    await s.do(fatal_clean, 3)


mail = act("plain.mail", no_rollback="a mail cannot be unsent")
mail_keyed = act("keyed.mail", no_rollback="a mail cannot be unsent")
mail_fatal = act("keyed.mail_fatal", always(Fatal("no", happened=False)), no_rollback="a mail cannot be unsent")


@scenario("a failure after the pivot", INCIDENT, ROLLED_BACK)
async def past_pivot(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(mail, 2)
    await s.do(fatal, 3)


@scenario("a failure after a pivot that is idempotent", INCIDENT)
async def past_keyed_pivot(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(mail_keyed, 2)
    await s.do(fatal_clean, 3)


@scenario("a pivot in one branch, a failure in another", INCIDENT, ROLLED_BACK)
async def pivot_in_branch(s: Work) -> None:
    await s.do(keyed_a, 1)
    await asyncio.gather(s.do(mail_keyed, 2), s.do(slow, 3), s.do(fatal, 4))


SHORT = Settings(lease_s=SETTINGS.lease_s, poll_s=SETTINGS.poll_s, rollback_s=5.0)


async def retry_all(coordinator: Coordinator) -> None:
    for incident in await coordinator.incidents():
        with suppress(RefusedError):  # retrying one may have closed another
            await coordinator.retry_incident(incident.id)


async def retry_twice(coordinator: Coordinator) -> None:
    """Attempts that died before they did anything are used up all the same: what fails twice may fail once more."""
    await retry_all(coordinator)
    await retry_all(coordinator)


@scenario(
    "the rollback's window passes, and a person gives it another",
    INCIDENT,
    ROLLED_BACK,
    settings=SHORT,
    then=retry_all,
    at_last=statuses(ROLLED_BACK, INCIDENT),
)
async def window(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(window_undo, 2)
    await s.do(fatal_clean, 3)


window_undo = act(
    "plain.window", undo=undo_fails_at_first(Retry("later", after=30.0)), compensation_retries=Retries(attempts=9)
)


# -- people ----------------------------------------------------------------------------------------------------------


async def retry_with_care(coordinator: Coordinator) -> None:
    """Nobody knows whether it happened, and it must not happen twice: look, and vouch for it."""
    for incident in await coordinator.incidents():
        history = await coordinator.show(incident.saga)
        if incident.step is not None and history.saga.steps[incident.step].status is StepStatus.UNKNOWN:
            await coordinator.resolve_incident(incident.id, reason="seen to by hand")
        else:
            await coordinator.retry_incident(incident.id)


async def cancel(coordinator: Coordinator) -> None:
    with suppress(RefusedError, UnknownSagaError):
        await coordinator.cancel(ID)


async def waits_for_cancel(topic: str) -> str:
    await works(topic)
    here().signal.set()
    await here().clock.sleep(5)
    return topic


cancellable = act("keyed.cancellable", waits_for_cancel)


async def cancel_while_running(coordinator: Coordinator, definition: SagaDefinition) -> None:
    handle = await coordinator.start(definition, id=ID)
    ended = asyncio.ensure_future(_awaited(handle))
    reached = asyncio.ensure_future(here().signal.wait())
    await asyncio.wait({ended, reached}, return_when=asyncio.FIRST_COMPLETED)
    reached.cancel()
    await cancel(coordinator)
    await ended


async def _awaited(handle: Handle) -> None:
    await handle


@scenario(
    "cancelled while a step runs",
    ROLLED_BACK,
    COMPLETED,
    begin=cancel_while_running,
    then=cancel,
    at_last=statuses(ROLLED_BACK),
)
async def cancelled(s: Work) -> None:
    await s.do(plain_a, 1)
    await s.do(cancellable, 2)
    await s.do(keyed_c, 3)


@scenario(
    "cancelled while branches run",
    ROLLED_BACK,
    COMPLETED,
    begin=cancel_while_running,
    then=cancel,
    at_last=statuses(ROLLED_BACK),
)
async def cancelled_branches(s: Work) -> None:
    await asyncio.gather(s.do(slow, 1), s.do(cancellable, 2), s.do(keyed_c, 3))
    await s.do(keyed_c, 4)


async def cancel_once_completed(coordinator: Coordinator, definition: SagaDefinition) -> None:
    await coordinator.run(definition, id=ID)
    await cancel(coordinator)


@scenario(
    "cancelled after it had completed",
    ROLLED_BACK,
    COMPLETED,
    begin=cancel_once_completed,
    then=cancel,
    at_last=statuses(ROLLED_BACK),
)
async def cancelled_late(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(keyed_b, 2)


async def mitigate(coordinator: Coordinator) -> None:
    with suppress(RefusedError, UnknownSagaError):
        await coordinator.cancel(ID, by="person:ann", mitigate=True)


async def mitigate_once_completed(coordinator: Coordinator, definition: SagaDefinition) -> None:
    await coordinator.run(definition, id=ID)
    await mitigate(coordinator)


async def is_sorry(done: Done) -> None:
    await here().reach("sorry")
    if await here().tally("sorry") == 1:
        raise ConnectionError("no answer")


mail_sorry = act("keyed.sorry", no_rollback="a mail cannot be unsent")
mail_sorry.mitigation(is_sorry)


@scenario(
    "a person has it go back past its pivot, with mitigation",
    MITIGATED,
    COMPLETED,
    INCIDENT,
    begin=mitigate_once_completed,
    then=mitigate,
    at_last=statuses(MITIGATED),
)
async def mitigated(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(mail_sorry, 2)
    await s.do(plain_a, 3)


@saga("crash.mitigated.child")
async def mitigated_child(s: Work) -> None:
    await s.do(mail_sorry, 1)


@scenario(
    "a child past its pivot is mitigated with its parent",
    MITIGATED,
    COMPLETED,
    begin=mitigate_once_completed,
    then=mitigate,
    at_last=statuses(MITIGATED),
)
async def mitigated_family(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.call(mitigated_child)


@scenario("cancelled past its pivot, which is refused", COMPLETED, begin=cancel_once_completed, then=cancel)
async def cancelled_past_pivot(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(mail_keyed, 2)


undo_third = act("plain.undo_third", undo=undo_fails_at_first(NotDone("later"), 2), compensation_retries=SOON)


async def run_and_retry(coordinator: Coordinator, definition: SagaDefinition) -> None:
    await coordinator.run(definition, id=ID)
    await retry_all(coordinator)


@scenario(
    "an incident is retried and the rollback ends",
    ROLLED_BACK,
    INCIDENT,
    begin=run_and_retry,
    then=retry_twice,
    at_last=statuses(ROLLED_BACK),
)
async def retried(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(undo_third, 2)
    await s.do(fatal_clean, 3)


async def run_and_retry_and_wait(coordinator: Coordinator, definition: SagaDefinition) -> None:
    await run_and_retry(coordinator, definition)
    await here().clock.sleep(120)


@scenario(
    "a thread that everybody has given up takes effect after its incident was retried",
    INCIDENT,
    ROLLED_BACK,
    begin=run_and_retry_and_wait,
    then=retry_all,
)
async def very_late_retried(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(very_late, 2)


undo_third_go_on = act(
    "plain.undo_third_go_on",
    undo=undo_fails_at_first(NotDone("later"), 2),
    compensation_retries=SOON,
    on_incident="go_on",
)


@scenario(
    "an incident that the rollback went on without is retried",
    ROLLED_BACK,
    INCIDENT,
    begin=run_and_retry,
    then=retry_twice,
    at_last=statuses(ROLLED_BACK),
)
async def retried_go_on(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(undo_third_go_on, 2)
    await s.do(keyed_c, 3)
    await s.do(fatal_clean, 4)


async def resolve_all(coordinator: Coordinator) -> None:
    while found := await coordinator.incidents():
        await coordinator.resolve_incident(found[0].id, reason="seen to by hand")


async def run_and_resolve(coordinator: Coordinator, definition: SagaDefinition) -> None:
    await coordinator.run(definition, id=ID)
    await resolve_all(coordinator)


@scenario(
    "an incident is resolved and the rollback goes on",
    ROLLED_BACK,
    INCIDENT,
    begin=run_and_resolve,
    then=resolve_all,
    at_last=statuses(ROLLED_BACK),
)
async def resolved(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(undo_never, 2)
    await s.do(fatal_clean, 3)


@scenario(
    "two incidents that the rollback went on without are resolved",
    ROLLED_BACK,
    INCIDENT,
    begin=run_and_resolve,
    then=resolve_all,
    at_last=statuses(ROLLED_BACK),
)
async def resolved_twice(s: Work) -> None:
    await s.do(undo_never_go_on, 1)
    await s.do(keyed_b, 2)
    await s.do(undo_never_go_on, 3)
    await s.do(fatal_clean, 4)


@scenario(
    "a lost step that was caught, and that nobody can take back, is vouched for",
    COMPLETED,
    INCIDENT,
    begin=run_and_resolve,
    then=resolve_all,
    at_last=statuses(COMPLETED),
)
async def vouched_for(s: Work) -> None:
    await s.do(keyed_a, 1)
    with suppress(StepLostError):
        await s.do(lost_for_good, 2)


@scenario(
    "a failure after the pivot is vouched for",
    COMPLETED,
    INCIDENT,
    ROLLED_BACK,
    begin=run_and_resolve,
    then=resolve_all,
    at_last=statuses(COMPLETED, ROLLED_BACK),
)
async def past_pivot_vouched_for(s: Work) -> None:
    await s.do(mail, 1)
    await s.do(fatal, 2)


fails_three_times = act("plain.fails_three_times", fails_at_first(NotDone("later"), 3), retries=Retries(attempts=2))


@scenario(
    "a failure after the pivot is retried and the work goes on",
    COMPLETED,
    INCIDENT,
    begin=run_and_retry,
    then=retry_with_care,
    at_last=statuses(COMPLETED, INCIDENT),
)
async def past_pivot_retried(s: Work) -> None:
    await s.do(mail_keyed, 1)
    await s.do(fails_three_times, 2)


async def run_and_cancel(coordinator: Coordinator, definition: SagaDefinition) -> None:
    await coordinator.run(definition, id=ID)
    await cancel(coordinator)


@scenario("a saga whose work ended in an incident is cancelled", INCIDENT, begin=run_and_cancel, then=cancel)
async def cancelled_incident(s: Work) -> None:
    await s.do(keyed_a, 1)
    with suppress(StepLostError):
        await s.do(lost_for_good, 2)
    await s.do(keyed_c, 3)


# -- other definitions, other places ---------------------------------------------------------------------------------

steps = SagaDefinition(
    "crash.list",
    [Step(keyed_a, {"n": 1}), Step(plain_b, {"n": given("n")}), Step(keyed_c, {"n": 3}, name="last")],
)
steps_back = SagaDefinition(
    "crash.list_back", [Step(keyed_a, {"n": 1}), Step(keyed_b, {"n": 2}), Step(fatal, {"n": 3})]
)


def list_scenario(
    name: str, definition: SagaDefinition, unharmed: SagaStatus, *ends: SagaStatus, given: dict[str, int] | None = None
) -> None:
    async def run(coordinator: Coordinator) -> None:
        await coordinator.run(definition, given or {}, id=ID)

    ALL[name] = Scenario(name=name, begin=run, unharmed=unharmed, ends=frozenset({unharmed, *ends}))


list_scenario("a list of steps completes", steps, COMPLETED, ROLLED_BACK, given={"n": 2})
list_scenario("a list of steps is rolled back", steps_back, ROLLED_BACK)


list_scenario(
    "a graph whose branches meet again completes",
    SagaDefinition(
        "crash.graph",
        [
            Step(keyed_c, {"n": 3}, name="join", after=["left", "right"]),
            Step(keyed_a, {"n": 1}, name="left"),
            Step(plain_b, {"n": 2}, name="right"),
        ],
    ),
    COMPLETED,
    ROLLED_BACK,
)
list_scenario(
    "a graph is rolled back while a branch is on its way",
    SagaDefinition(
        "crash.graph_back",
        [
            Step(keyed_a, {"n": 1}, name="root"),
            Step(slowish, {"n": 2}, name="left", after=["root"]),
            Step(fatal, {"n": 3}, name="right", after=["root"]),
        ],
    ),
    ROLLED_BACK,
)
list_scenario(
    "a graph has all it needs before its end",
    SagaDefinition(
        "crash.early",
        [
            Step(keyed_a, {"n": 1}, name="goal", complete_if=bool),
            Step(keyed_b, {"n": 2}, name="beside"),
            Step(keyed_c, {"n": 3}, name="rest", after=["goal", "beside"]),
        ],
    ),
    COMPLETED,
)
list_scenario(
    "a failed step is done again, then recovered by another",
    SagaDefinition(
        "crash.recovered",
        [
            Step(keyed_a, {"n": 1}, name="a"),
            Step(fatal_clean, {"n": 2}, name="b", after=["a"], retry=1, on_failure=Step(keyed_b, {"n": 3}, name="c")),
            Step(keyed_c, {"n": 4}, name="d", after=["b"]),
        ],
    ),
    COMPLETED,
    ROLLED_BACK,
)


async def run_call_and_retry(coordinator: Coordinator) -> None:
    await coordinator.run(calls, id=ID)
    await retry_with_care(coordinator)


calls = SagaDefinition(
    "crash.calls",
    [Step(keyed_a, {"n": 1}), Step(fails_three_times, {"n": 2}, on_failure="call"), Step(keyed_b, {"n": 3})],
)
ALL["a person is called about a step, and has it go on"] = Scenario(
    name="a person is called about a step, and has it go on",
    begin=run_call_and_retry,
    unharmed=COMPLETED,
    ends=statuses(COMPLETED, INCIDENT),
    then=retry_with_care,
    at_last=statuses(COMPLETED, INCIDENT),
)


# -- children --------------------------------------------------------------------------------------------------------


@saga("crash.child")
async def small(s: Work) -> str:
    await s.do(keyed_a, 11)
    return str(await s.do(keyed_b, 12))


@saga("crash.child_fatal")
async def small_fatal(s: Work) -> None:
    await s.do(plain_a, 11)
    await s.do(fatal, 12)


@scenario("a child completes, and its parent after it", COMPLETED)
async def parent(s: Work) -> Any:
    await s.do(keyed_a, 1)
    return await s.call(small)


@scenario("a parent fails after its child completed", ROLLED_BACK)
async def parent_back(s: Work) -> None:
    await s.call(small)
    await s.do(fatal_clean, 2)


@scenario("a child fails, and its parent with it", ROLLED_BACK)
async def child_fails(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.call(small_fatal)


@saga("crash.child_slow")
async def slow_child(s: Work) -> None:
    await s.do(plain_a, 1)
    await s.do(cancellable, 2)


@scenario(
    "a parent is cancelled while its child runs",
    ROLLED_BACK,
    COMPLETED,
    begin=cancel_while_running,
    then=cancel,
    at_last=statuses(ROLLED_BACK),
)
async def parent_cancelled(s: Work) -> None:
    await s.call(slow_child)


@scenario("an undeclared action is denied in production", ROLLED_BACK, env="production")
async def denied(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(undeclared, 2)


async def run_five(coordinator: Coordinator, definition: SagaDefinition) -> None:
    handles = [await coordinator.start(definition, id=f"crash-{n}") for n in range(5)]
    for handle in handles:
        await handle


@scenario("five sagas at once", ROLLED_BACK, begin=run_five)
async def five(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(fatal, 2)


# -- people ----------------------------------------------------------------------------------------------------------


async def approve(coordinator: Coordinator) -> None:
    async for row in coordinator.approvals():
        with suppress(RefusedError):  # it was answered just before
            await coordinator.grant(row.id, by="person:ann")
            await coordinator.drive(row.saga)


async def refuse(coordinator: Coordinator) -> None:
    for row in await coordinator.approvals():
        with suppress(RefusedError):
            await coordinator.refuse(row.id, by="person:ann", why="no")
            await coordinator.drive(row.saga)


async def let_it_expire(coordinator: Coordinator) -> None:
    if await coordinator.approvals():
        await here().clock.sleep(25 * 3600)
        coordinator._engine._renew()  # by the clock of these lives no heartbeat comes
        await coordinator.drive(ID)


def asked_then(people: Script) -> Callable[[Coordinator, SagaDefinition], Awaitable[object]]:
    """Start; whenever somebody is asked, they answer; until the end."""

    async def begin(coordinator: Coordinator, definition: SagaDefinition) -> None:
        ended = asyncio.ensure_future(_awaited(await coordinator.start(definition, id=ID, actor="agent:bot")))
        while not ended.done():
            await here().clock.sleep(2)
            await people(coordinator)
        await ended

    return begin


def with_people(people: Script) -> dict[str, Any]:
    return {"begin": asked_then(people), "people": people, "env": "production"}


@scenario("a person approves what cannot be taken back", COMPLETED, **with_people(approve))
async def approved(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(mail_keyed, 2)
    await s.do(keyed_b, 3)


@scenario("a person refuses, and the work is taken back", ROLLED_BACK, **with_people(refuse))
async def refused(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(mail_keyed, 2)


@scenario("nobody answers in time", ROLLED_BACK, **with_people(let_it_expire))
async def unanswered_request(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(mail_keyed, 2)


@scenario("a person approves ahead", COMPLETED, **with_people(approve))
async def approved_ahead(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.ask(mail_keyed, 2)
    await s.do(keyed_b, 3)
    await s.do(mail_keyed, 2)


@scenario("two branches wait for people", COMPLETED, **with_people(approve))
async def approved_branches(s: Work) -> None:
    await asyncio.gather(s.do(mail_keyed, 1), s.do(keyed_a, 2), s.do(mail_keyed, 3))


@scenario("what was approved fails, and older work is taken back", ROLLED_BACK, INCIDENT, **with_people(approve))
async def approved_then_fatal(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(mail_fatal, 2)


@scenario("cancelled while it waits for people", ROLLED_BACK, **with_people(cancel))
async def cancelled_while_asked(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(mail_keyed, 2)


import_module("tests.crash.scenarios_of_limits")  # which takes from here what it needs, and adds to ALL
import_module("tests.crash.scenarios_of_waiting")
import_module("tests.crash.scenarios_of_isolation")
import_module("tests.crash.scenarios_of_rewinds")
import_module("tests.crash.scenarios_of_graphs")
import_module("tests.crash.scenarios_of_sessions")
