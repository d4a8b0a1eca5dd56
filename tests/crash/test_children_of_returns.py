"""Each mend that keeps the children of what goes back from going on, switched off: the crash points have to see it."""

import pytest

from amends.core.state.saga import Saga
from amends.core.words.values import StepId
from amends.runtime.drive.family import Family
from amends.runtime.engine import children
from amends.testing.crash.crash import CrashGround, Tried, every_death
from tests.crash.scenarios import ALL

RUNS = "back to a checkpoint from outside, while a child's child runs"
SLEEPS = "back to a checkpoint from outside, while a child sleeps"
BLOCK = "a block fails beside a child that waits, and another goes on"


def complaints(scenario: str, *, until_broken: bool = False) -> list[str]:
    """What is found, and that a life does not end by itself, if none does."""
    tried = Tried()
    try:
        every_death(ALL[scenario], CrashGround, tried, twice=False, until_broken=until_broken)
    except AssertionError as exc:
        return [*tried.complaints, str(exc)]
    return tried.complaints


async def nobody_is_told(self: Family, saga: Saga, why: str, *, whole: bool = False) -> None:
    """Children hear of it when it is their turn."""


async def nobody_looks(self: Family, saga: Saga) -> str:
    return ""


def only_wholly(saga: Saga, step: StepId) -> bool:
    return saga.rollback is not None


def test_a_child_that_is_not_told_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Family, "hold_still", nobody_is_told)
    assert any("after crash-1 had begun to go back" in what for what in complaints(RUNS))


def test_a_child_that_does_not_look_above_goes_on_after_a_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Family, "above_goes_back", nobody_looks)
    assert any("after crash-1 had begun to go back" in what for what in complaints(SLEEPS))


def test_a_child_that_counts_as_wanted_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Family, "hold_still", nobody_is_told)
    monkeypatch.setattr(Family, "above_goes_back", nobody_looks)
    monkeypatch.setattr(children, "goes_back", only_wholly)
    assert complaints(BLOCK, until_broken=True)
