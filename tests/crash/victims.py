"""A program that acts on a world and dies where it is told to. Run as a process of its own, never imported by tests.

    victims.py FOLDER COMMAND…

What happens at a point is said by the environment, VICTIM_<WHAT>=point[#n], for the n-th time that it is reached in
this process: KILL (SIGKILL itself), STOP (SIGSTOP itself), or HOLD (say so, and go on when a line comes on standard
input). Points are `<topic>:enter`, `<topic>:done`, `<topic>:undo`, `<topic>:undone`, `between`, and
`entry:<wire name>` for a durable entry.
"""

import asyncio
import json
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import amends
from amends import Asked, Coordinator, Done, Fatal, Happened, Limits, NotHappened, Retry, Settings, Work, action, saga
from amends.drill.world import World
from amends.errors import AmendsError, RefusedError
from amends.journal.port.journal import Entry

FOLDER = Path(sys.argv[1])
WORLD = World(FOLDER / "world")
UNFINISHED = ("running", "waiting", "rolling_back", "paused")

reached: Counter[str] = Counter()
counting = threading.Lock()


def say(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def due(what: str, point: str) -> bool:
    asked, _, nth = os.environ.get(f"VICTIM_{what}", "").partition("#")
    return asked == point and reached[point] == int(nth or 1)


def at(point: str) -> None:
    with counting:
        reached[point] += 1
        if due("KILL", point):
            os.kill(os.getpid(), signal.SIGKILL)
        stops, holds = due("STOP", point), due("HOLD", point)
    if stops:
        os.kill(os.getpid(), signal.SIGSTOP)
    if holds:
        say(at=point)
        sys.stdin.readline()


async def at_async(point: str) -> None:
    """In a thread, so that a point that holds does not hold the loop; a stop stops all of it anyway."""
    if due_at_all("HOLD", point):
        await asyncio.get_running_loop().run_in_executor(None, at, point)
    else:
        at(point)


def due_at_all(what: str, point: str) -> bool:
    return os.environ.get(f"VICTIM_{what}", "").partition("#")[0] == point


class Muster:
    """Sagas that were started together go on together: each has its first intent on record when the first acts."""

    def __init__(self) -> None:
        self._missing = 0
        self._all_here = threading.Event()
        self._all_here.set()

    def expect(self, count: int) -> None:
        self._missing = count
        self._all_here.clear()

    def arrive(self) -> None:
        with counting:
            self._missing -= 1
            if self._missing <= 0:
                self._all_here.set()
        self._all_here.wait()

    async def arrive_async(self) -> None:
        with counting:
            self._missing -= 1
            if self._missing <= 0:
                self._all_here.set()
        while not self._all_here.is_set():
            await asyncio.sleep(0)


muster = Muster()


# -- actions ---------------------------------------------------------------------------------------------------------


def provider(
    topic: str, *, honours_keys: bool
) -> tuple[Callable[..., Awaitable[str]], Callable[[Done], Awaitable[None]]]:
    async def act(n: int) -> str:
        await muster.arrive_async()
        await at_async(f"{topic}:enter")
        WORLD.effect(topic, key=amends.key(), honours_keys=honours_keys)
        await at_async(f"{topic}:done")
        return f"{topic} {n}"

    async def undo(done: Done) -> None:
        await at_async(f"{topic}:undo")
        WORLD.undo(topic, key=done.key, of=done.action_key, saga=done.saga, honours_keys=honours_keys)
        await at_async(f"{topic}:undone")

    return act, undo


def declared(topic: str, *, honours_keys: bool, **contract: Any) -> amends.Action[..., Any]:
    act, undo = provider(topic, honours_keys=honours_keys)
    return amends.register(topic, act, compensation=undo, idempotent=honours_keys, **contract)


keyed_a, keyed_b = declared("keyed.a", honours_keys=True), declared("keyed.b", honours_keys=True)
plain_a, plain_b = declared("plain.a", honours_keys=False), declared("plain.b", honours_keys=False)
probed = declared("plain.probed", honours_keys=False)

RELEASE = int(os.environ.get("VICTIM_RELEASE", "1"))
"""The second has a second version of an action beside the first; the third has the second alone."""
upgraded = declared("plain.upgraded", honours_keys=False) if RELEASE < 3 else None
if RELEASE > 1:

    async def no_way_back(done: Done) -> None:
        raise Fatal("it was begun as something else")

    act_anew, _ = provider("plain.upgraded", honours_keys=False)
    upgraded = amends.register("plain.upgraded", act_anew, compensation=no_way_back, version=2)


@probed.probe
async def find(asked: Asked) -> Happened | NotHappened:
    at("plain.probed:ask")
    return Happened("found") if WORLD.stands(asked.key) else NotHappened()


@action("plain.fatal")
async def fatal(n: int) -> None:
    raise Fatal("no", happened=False)


@fatal.compensation
async def undo_fatal(done: Done) -> None:
    """It never happens, so there is never anything to take back."""


@action("keyed.thread", idempotent=True)
def thread(n: int) -> str:
    muster.arrive()
    at("keyed.thread:enter")
    WORLD.effect("keyed.thread", key=amends.key())
    at("keyed.thread:done")
    return "thread"


@thread.compensation
def undo_thread(done: Done) -> None:
    at("keyed.thread:undo")
    WORLD.undo("keyed.thread", key=done.key, of=done.action_key)
    at("keyed.thread:undone")


@action("plain.later")
async def later(n: int) -> str:
    if WORLD.tally(f"later {amends.key()}") == 1:
        raise Retry("not yet", after=0.3)
    WORLD.effect("plain.later", key=amends.key(), honours_keys=False)
    return "later"


@later.compensation
async def undo_later(done: Done) -> None:
    WORLD.undo("plain.later", key=done.key, of=done.action_key, honours_keys=False)


# -- sagas -----------------------------------------------------------------------------------------------------------


@saga("victim.keyed")
async def all_keyed(s: Work) -> str:
    await s.do(keyed_a, 1)
    at("between")
    await s.do(keyed_b, 2)
    return "done"


@saga("victim.plain")
async def all_plain(s: Work) -> str:
    await s.do(plain_a, 1)
    at("between")
    await s.do(plain_b, 2)
    return "done"


@saga("victim.back")
async def goes_back(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(plain_b, 2)
    await s.do(fatal, 3)


@saga("victim.upgraded")
async def acts_as_released(s: Work) -> None:
    assert upgraded is not None
    await s.do(keyed_a, 1)
    await s.do(upgraded, 2)
    await s.do(fatal, 3)


@saga("victim.parent")
async def calls(s: Work) -> object:
    await s.do(plain_a, 0)
    return await s.call(all_keyed)


@saga("victim.parent_back")
async def calls_and_fails(s: Work) -> None:
    await s.call(all_keyed)
    await s.do(fatal, 3)


@saga("victim.spends")
async def spends(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.spend(usd=3)


@saga("victim.budget", limits=Limits(usd=5, stop_children=True))
async def within_a_budget(s: Work) -> None:
    await s.call(spends)
    await s.call(spends)


@saga("victim.threads")
async def in_threads(s: Work) -> None:
    await s.do(thread, 1)
    await s.do(thread, 2)


@saga("victim.threads_back")
async def in_threads_back(s: Work) -> None:
    await s.do(thread, 1)
    await s.do(thread, 2)
    await s.do(fatal, 3)


@saga("victim.probed")
async def with_probe(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(probed, 2)
    await s.do(keyed_b, 3)


@saga("victim.later")
async def tried_later(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.do(later, 2)


@saga("victim.gather")
async def side_by_side(s: Work) -> None:
    await s.do(keyed_a, 0)
    await asyncio.gather(s.do(keyed_a, 1), s.do(keyed_b, 2), s.do(thread, 3), s.do(probed, 4))


@saga("victim.gather_plain")
async def plain_side_by_side(s: Work) -> None:
    await asyncio.gather(s.do(plain_a, 1), s.do(plain_b, 2), s.do(keyed_a, 3))


@saga("victim.shuffled")
async def shuffled(s: Work) -> None:
    """Who comes first depends on the process: the branches meet in another order in each."""
    turns = [asyncio.Event() for _ in range(4)]
    order = range(4) if WORLD.tally("shuffled") % 2 else range(3, -1, -1)

    async def branch(n: int) -> None:
        await turns[n].wait()
        await s.do(keyed_a, n)
        await s.do(keyed_b, n)

    async def conduct() -> None:
        for n in order:
            turns[n].set()
            await asyncio.sleep(0)

    await asyncio.gather(*(branch(n) for n in range(4)), conduct())


@saga("victim.waits")
async def waits(s: Work) -> str:
    await s.do(keyed_a, 1)
    paid: str = await s.wait_for("paid")
    await s.do(keyed_b, 2)
    return paid


@saga("victim.sleeps")
async def sleeps(s: Work) -> None:
    await s.do(keyed_a, 1)
    await s.sleep(0.5)
    await s.do(keyed_b, 2)


# -- going back in part, holding, looking again ----------------------------------------------------------------------


@saga("victim.rewinds")
async def goes_another_way(s: Work) -> None:
    await s.do(plain_a, 1)
    await s.checkpoint("here")
    await s.do(keyed_a, 2)
    await s.do(keyed_b, 3)
    await s.rollback_to("here", "another way")
    await s.do(keyed_a, 4)


@saga("victim.tries")
async def tries_again(s: Work) -> None:
    async for attempt in s.attempts("block", max=2):
        async with attempt:
            await s.do(keyed_a, attempt.number)
            await s.do(keyed_b, 2)
            if attempt.number == 1:
                raise ValueError("no good")


mail: amends.Action[..., Any] = amends.register(
    "keyed.mail", provider("keyed.mail", honours_keys=True)[0], no_rollback="it is out", idempotent=True, hold=True
)


@saga("victim.holds")
async def holds(s: Work) -> None:
    await s.do(mail, 1)
    await s.do(plain_a, 2)
    await s.do(mail, 3)


@saga("victim.holds_back")
async def holds_and_fails(s: Work) -> None:
    await s.do(mail, 1)
    await s.do(plain_b, 2)
    await s.do(fatal, 3)


async def stands() -> bool:
    at("asserted")
    return True


@saga("victim.verified", verify=[stands])
async def verified(s: Work) -> None:
    await s.do(plain_a, 1)


@action("plain.answer", read_only=True)
async def answer(n: int) -> str:
    at("plain.answer:enter")
    return "good" if WORLD.tally("answered") > 1 else "bad"


@answer.validate
def is_good(result: str) -> str | None:
    return None if result == "good" else "not good"


@saga("victim.flawed")
async def flawed(s: Work) -> None:
    await s.do(plain_a, 1)
    await s.do(answer, 2)


@saga("victim.writes")
async def writes(s: Work) -> None:
    await s.documents.set("count", 1)
    await s.do(keyed_b, 2)


@saga("victim.writes_back")
async def writes_and_fails(s: Work) -> None:
    await s.documents.set("count", 1)
    await s.do(plain_b, 2)
    await s.do(fatal, 3)


class Together:
    """Compensations of which the first waits for the second, in a process that is to die when both are under way."""

    POINT = "both:undo"

    def __init__(self) -> None:
        self._under_way = 0

    def declared(self, topic: str) -> amends.Action[..., Any]:
        act, undo = provider(topic, honours_keys=True)

        async def meet(done: Done) -> None:
            self._under_way += 1
            while due_at_all("KILL", self.POINT) and self._under_way < 2:
                await asyncio.sleep(0)
            if self._under_way == 2:
                at(self.POINT)
            await undo(done)

        return amends.register(topic, act, compensation=meet, idempotent=True)


together = Together()
graph_back = amends.SagaDefinition(
    "victim.graph_back",
    [
        amends.Step(plain_a, {"n": 0}, name="root"),
        amends.Step(together.declared("keyed.left"), {"n": 1}, name="left", after=["root"]),
        amends.Step(together.declared("keyed.right"), {"n": 2}, name="right", after=["root"]),
        amends.Step(fatal, {"n": 3}, name="join", after=["left", "right"]),
    ],
)


SAGAS = {
    definition.name.partition(".")[2]: definition
    for definition in (
        all_keyed,
        all_plain,
        goes_back,
        acts_as_released,
        calls,
        calls_and_fails,
        spends,
        within_a_budget,
        in_threads,
        in_threads_back,
        with_probe,
        tried_later,
        side_by_side,
        plain_side_by_side,
        shuffled,
        waits,
        sleeps,
        graph_back,
        goes_another_way,
        tries_again,
        holds,
        holds_and_fails,
        verified,
        flawed,
        writes,
        writes_and_fails,
    )
}


# -- commands --------------------------------------------------------------------------------------------------------


async def run(coordinator: Coordinator, name: str, count: str = "1") -> None:
    if "VICTIM_AWAIT" not in os.environ:  # else another process starts the same ones, and they may never come
        muster.expect(int(count))
    handles = [await coordinator.start(SAGAS[name], id=f"{name}-{n}") for n in range(int(count))]
    for handle in handles:
        try:
            ended = await handle
            say(id=ended.id, status=ended.status)
        except AmendsError as exc:
            say(id=handle.id, error=type(exc).__name__)


async def resume(coordinator: Coordinator) -> None:
    """Until nothing is left to do, whoever does it."""
    while await coordinator.list(status=UNFINISHED):
        for ended in await coordinator.resume():
            say(id=ended.id, status=ended.status)
        await asyncio.sleep(0.02)


async def resume_once(coordinator: Coordinator) -> None:
    for ended in await coordinator.resume():
        say(id=ended.id, status=ended.status)


async def run_and_stay(coordinator: Coordinator, name: str, count: str = "1") -> None:
    await run(coordinator, name, count)
    await stay(coordinator)


async def resume_and_stay(coordinator: Coordinator) -> None:
    await resume(coordinator)
    await stay(coordinator)


async def stay(coordinator: Coordinator) -> None:
    """Live on, as a server does, until told to go."""
    say(at="staying")
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


async def cancel(coordinator: Coordinator, name: str) -> None:
    ended = await coordinator.cancel(name)
    say(id=ended.id, status=ended.status)


async def signal_paid(coordinator: Coordinator, name: str) -> None:
    try:
        await coordinator.signal(name, "paid", f"by {os.getpid()}")
        say(id=name, status="signalled")
    except RefusedError as exc:
        say(id=name, error=str(exc))


async def pause(coordinator: Coordinator) -> None:
    await coordinator.pause(topic="keyed.b", why="a look")


async def unpause(coordinator: Coordinator) -> None:
    say(id="released", status=str(await coordinator.unpause(everything=True)))


async def prune(coordinator: Coordinator) -> None:
    """Two at a time, until nothing is left to prune."""
    while (await coordinator.prune(older_than=0, limit=2)).sagas:
        at("pruned")


COMMANDS: dict[str, Callable[..., Awaitable[None]]] = {
    "run": run,
    "resume": resume,
    "resume-once": resume_once,
    "run-and-stay": run_and_stay,
    "resume-and-stay": resume_and_stay,
    "cancel": cancel,
    "signal": signal_paid,
    "pause": pause,
    "unpause": unpause,
    "prune": prune,
}


class Watched(Coordinator):
    async def close(self) -> None:
        if "VICTIM_HOLD" in os.environ:
            say(at="closing")
        await super().close()


def watch(entry: Entry) -> None:
    at(f"entry:{entry.name}")


async def main() -> None:
    settings = Settings(lease_s=float(os.environ.get("VICTIM_LEASE", "120")), poll_s=0.1)
    async with Watched.open(str(FOLDER / "journal.db"), settings=settings) as coordinator:
        coordinator.observe(watch)
        if "VICTIM_AWAIT" in os.environ:
            say(at="ready")
            sys.stdin.readline()
        await COMMANDS[sys.argv[2]](coordinator, *sys.argv[3:])


if __name__ == "__main__":
    asyncio.run(main())
