"""20,000 schedules of the real runtime, and none breaks a promise; without any one mechanism, one soon does."""

import hashlib
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from amends.testing.simulation import language, play, simulate
from amends.testing.simulation.language import DEFINITIONS, SESSION
from amends.testing.simulation.loop import Dice
from amends.testing.simulation.outside import Fate
from amends.testing.simulation.programs import KINDS, any_program, words
from tests.parts import rest
from tests.simulation.ablations import ABLATIONS, first_found

SCHEDULES = 20_000
SAMPLED = 2_500
"""So many of them are played by `make test`, the others by `make test-all`."""
CHUNK = 500
MOST = 5_000
Record = Callable[[str, object], None]


@pytest.mark.parametrize(
    "since",
    [*range(0, SAMPLED, CHUNK), *(pytest.param(since, marks=rest) for since in range(SAMPLED, SCHEDULES, CHUNK))],
)
def test_no_schedule_breaks_a_promise(since: int, record_property: Record) -> None:
    tally = play(range(since, since + CHUNK))
    record_property("simulated", {"schedules": tally.schedules, "turns": tally.turns, **tally.ends, **tally.faults})
    assert tally.found == [], f"to see it again: make simulate SEED={tally.found[0][0]}"
    assert tally.schedules == CHUNK


@pytest.mark.parametrize("mechanism", ABLATIONS)
def test_without_one_mechanism_it_is_found(mechanism: str, record_property: Record) -> None:
    tally = first_found(mechanism, MOST)
    assert len(tally.found) == 1
    record_property("ablated", {mechanism: tally.schedules})
    assert simulate(tally.found[0][0]).complaints == []


def test_ten_workers_far_from_their_journal_break_no_promise_either() -> None:
    tally = play(range(25), workers=10, is_slow=True)
    assert tally.found == []
    assert tally.faults["slow lock"] == tally.schedules == 25
    assert sum(tally.ends[end] for end in ("completed", "rolled_back", "incident")) > 12


def test_everything_that_can_go_wrong_does_and_every_end_is_reached() -> None:
    tally = play(range(400))
    faults = {"death", "freeze", "clock set", "journal stopped", "slow lock", "cancelled", "paused"}
    faults |= {"taken back to a mark", "taken back by a step", "child cancelled"}
    assert set(tally.faults) == faults | {f"call {fate.name.lower()}" for fate in Fate}
    assert {"completed", "rolled_back", "incident"} <= set(tally.ends)


def test_agents_in_sessions_are_played_to_every_end() -> None:
    open_ones = [seed for seed in range(1_500) if any_program(seed, Dice(seed), "simulated")[0] == SESSION]
    ends = {simulate(seed).status for seed in open_ones[:60]}
    assert {"completed", "rolled_back"} <= ends


def test_every_word_of_the_language_is_used() -> None:
    programs = [any_program(seed, Dice(seed), "simulated") for seed in range(600)]
    assert {word for _, program in programs for word in words(program)} == set(
        re.findall(r'case "(\w+)":', inspect.getsource(language))
    )
    assert {program["kind"] for _, program in programs if "kind" in program} == set(KINDS)
    assert {name for name, _ in programs} == set(DEFINITIONS) - {"sim.child"} | {SESSION}


# -- a seed replays exactly ---------------------------------------------------------------------------------------

SEEDS = (*range(40), 1_234_567)
PROGRAM = """
import logging; logging.getLogger("amends").setLevel(60)
from tests.simulation.test_simulation import digest
print(digest())
"""


def digest() -> str:
    """Of the whole stories of some schedules: every write, every call, every fault, and when."""
    told = hashlib.sha256()
    for seed in SEEDS:
        told.update(repr(simulate(seed, listens=True)).encode())
    return told.hexdigest()


def test_a_seed_tells_the_same_story_in_every_process() -> None:
    stories = {digest(), digest()}
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": "."}
        done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, check=True)
        stories.add(done.stdout.strip())
    assert len(stories) == 1


def test_listening_changes_nothing() -> None:
    silent, told = simulate(8), simulate(8, listens=True)
    assert (silent.turns, silent.hours, silent.faults) == (told.turns, told.hours, told.faults)
    assert silent.story == []
    assert any("takes effect" in line for line in told.story)


def test_the_command_tells_one_schedule_and_counts_many() -> None:
    command = [sys.executable, "-m", "amends.testing.simulation"]
    one = subprocess.run([*command, "--seed", "8"], capture_output=True, text=True, check=True).stdout
    assert one.splitlines()[:-2] == [*simulate(8, listens=True).story]
    assert one.endswith("no promise broken\n")
    many = subprocess.run([*command, "--schedules", "30"], capture_output=True, text=True, check=True).stdout
    assert many.startswith("seeds 0 to 29: 30 schedules, ")
    assert many.endswith("promises broken: 0\n")
