"""The ledger can see: each lie that a provider, a journal or a runtime could tell is found."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from amends import Done, SagaStatus, Work, register, saga
from amends.core import events as e
from amends.core.words.values import SagaId
from amends.drill.world import World, check
from amends.journal.codec import FIRST, chain, encode
from amends.journal.port.journal import Entry
from amends.runtime.coordinator.coordinator import Coordinator
from amends.testing.crash.crash import CrashGround, Scenario, Tried, every_death, here
from amends.testing.crash.life import CrashLife, Script
from amends.testing.crash.loop import LoopClock, PatientLoop
from tests.crash.scenarios import ALL, ID, fatal_clean

ENDS = frozenset({SagaStatus.COMPLETED, SagaStatus.ROLLED_BACK, SagaStatus.INCIDENT})


def history(*events: e.Event) -> list[Entry]:
    entries: list[Entry] = []
    hashed = FIRST
    for number, event in enumerate(events, start=1):
        wire = encode(event)
        hashed = chain(hashed, SagaId("s"), number, 1, wire.name, wire.body)
        entries.append(
            Entry(saga=SagaId("s"), number=number, at=1, name=wire.name, body=wire.body, hash=hashed, event=event)
        )
    return entries


def recorded(scenario: str) -> tuple[list[Entry], World]:
    """A history and its world, of a run in which nobody died."""
    ground = CrashGround()
    life = ground.live(ALL[scenario], ALL[scenario].begin)
    (entries,) = life.entries
    assert check(ground.world, [entries]) == []
    return list(entries), ground.world


COMPLETED = "a straight line of actions that cannot be repeated"
ROLLED_BACK = "the saga's function raises an error of its own"


def test_an_effect_that_vanished_is_seen() -> None:
    entries, world = recorded(COMPLETED)
    assert "does not stand" in check(World(lines=world.lines[:-1]), [entries])[0]


def test_an_effect_that_happened_twice_is_seen() -> None:
    entries, world = recorded(COMPLETED)
    assert any("stands 2 times" in what for what in check(World(lines=(*world.lines, world.lines[0])), [entries]))


def test_a_second_call_with_the_same_key_is_no_effect_where_the_provider_honours_keys() -> None:
    entries, world = recorded("a straight line of idempotent actions")
    (complaint,) = check(World(lines=(*world.lines, world.lines[0])), [entries])
    assert "called 2 times, with 1 intents on record" in complaint


def test_an_effect_without_an_intent_is_seen() -> None:
    entries, world = recorded(COMPLETED)
    world.effect("stray", key="of nobody")
    assert check(world, [entries]) == ["stray took effect without an intent on record (key of nobody)"]


def test_something_left_behind_by_a_rollback_is_seen() -> None:
    entries, world = recorded(ROLLED_BACK)
    kept = [line for line in world.lines if line.what == "effect"]
    assert [what for what in check(World(lines=kept), [entries]) if "its effect stands, unnamed" in what]


def test_a_rollback_oldest_first_is_seen() -> None:
    entries, world = recorded(ROLLED_BACK)
    does, undoes = world.lines[:2], world.lines[2:]
    (complaint,) = check(World(lines=(*does, *reversed(undoes))), [entries])
    assert complaint.endswith("in the order 1, 2, which is not newest first")


def test_a_compensation_with_a_key_of_its_own_making_is_seen() -> None:
    entries, world = recorded(ROLLED_BACK)
    changed = [dataclasses.replace(line, key="new") if line.undo else line for line in world.lines]
    assert any("keys that are not on record: new" in what for what in check(World(lines=changed), [entries]))


def test_an_entry_that_was_changed_is_seen() -> None:
    entries, world = recorded(COMPLETED)
    entries[1] = entries[1]._replace(body=entries[1].body.replace("1", "2", 1))
    assert "saga crash-1: entry 2 does not continue the chain" in check(world, [entries])


def test_a_saga_that_has_not_ended_is_seen() -> None:
    started = e.SagaStarted(definition="d", version=1, input={}, actor="a", env="e", labels={})
    assert check(World(), [history(started)]) == ["saga s: it has not ended: it is running"]


def test_a_world_in_a_file_is_the_same_to_every_process_that_opens_it(tmp_path: Path) -> None:
    one, other = World(tmp_path / "world"), World(tmp_path / "world")
    assert one.lines == ()
    one.effect("t", key="k")
    other.effect("t", key="k")
    assert one.stands("k") == 1
    other.undo("t", key="u", of="k")
    assert one.stands("k") == 0
    assert (one.tally("asked"), other.tally("asked")) == (1, 2)


# -- the enumeration, with something that lies ------------------------------------------------------------------------


def scenario_of(name: str, body: Callable[[Work], Awaitable[None]], unharmed: SagaStatus) -> Scenario:
    async def function(s: Work) -> None:
        await body(s)

    definition = saga(f"lie.{name}")(function)

    async def begin(coordinator: Coordinator) -> None:
        await coordinator.run(definition, id=ID)

    return Scenario(name=name, begin=begin, unharmed=unharmed, ends=ENDS)


def test_a_compensation_that_returns_success_and_undoes_nothing_is_found() -> None:
    async def act(n: int) -> None:
        await here().effect("lie.undo")

    async def undo(done: Done) -> None:
        """All is well."""

    lying = register("lie.undo", act, compensation=undo)

    async def body(s: Work) -> None:
        await s.do(lying, 1)
        await s.do(fatal_clean, 2)

    tried = Tried()
    every_death(scenario_of("undo", body, SagaStatus.ROLLED_BACK), CrashGround, tried, twice=False)
    assert any("its effect stands, unnamed" in what for what in tried.complaints)


def test_an_action_that_says_it_is_idempotent_and_is_not_is_found() -> None:
    async def act(n: int) -> None:
        await here().effect("lie.idempotent", honours_keys=False)

    async def undo(done: Done) -> None:
        await here().undo("lie.idempotent", done, honours_keys=False)

    lying = register("lie.idempotent", act, compensation=undo, idempotent=True)

    async def body(s: Work) -> None:
        await s.do(lying, 1)

    tried = Tried()
    every_death(scenario_of("idempotent", body, SagaStatus.COMPLETED), CrashGround, tried, twice=False)
    assert any("stands 2 times" in what for what in tried.complaints)


class ForgetfulGround(CrashGround):
    """Acknowledges what it has not written: a crash takes each saga's last entry along."""

    def live(self, scenario: Scenario, script: Script, ends_at: int | None = None) -> CrashLife:
        life = super().live(scenario, script, ends_at)
        if life.dead:
            for record in self._memory.sagas.values():
                record.entries.pop()
        return life


@pytest.mark.parametrize("name", [COMPLETED, ROLLED_BACK])
def test_a_journal_that_acknowledges_what_it_then_loses_is_found(name: str) -> None:
    tried = Tried()
    every_death(ALL[name], ForgetfulGround, tried, twice=False)
    assert any("called 2 times, with 1 intents on record" in what for what in tried.complaints)


def test_a_life_that_waits_on_and_on_is_ended_by_how_often_it_does() -> None:
    loop = PatientLoop(0.0, "nobody")
    clock = LoopClock(loop, 1)

    async def wait() -> None:
        while True:
            await clock.sleep(0.001)

    waiting = loop.create_task(wait())
    with pytest.raises(AssertionError, match="it has waited 50,000 times, and goes on"):
        loop.run_forever()
    assert 49 < loop.time() < 51
    waiting.cancel()
    loop.run_until_complete(asyncio.wait({waiting}))
    loop.close()
