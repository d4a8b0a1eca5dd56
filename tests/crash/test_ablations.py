"""Mends that are switched off, each by a patch, and the scenario that finds it: dead at each point, or not at all."""

from collections.abc import Callable
from typing import Any

import pytest

from amends.core import decide
from amends.core.state.step import Step
from amends.core.words.values import SagaId, StepId
from amends.journal.port import documents as filing
from amends.testing.crash.crash import CrashGround, Tried, every_death
from tests.crash.scenarios import ALL


def _always(_step: Step) -> bool:
    return True


def _own_name(step: Step) -> StepId:
    return step.id


def _alone(_shelf: object, saga: SagaId) -> tuple[SagaId, ...]:
    return (saga,)


def _newest(_shelf: object, newest: filing.Document | None) -> filing.Document | None:
    return newest


def _in_doubt(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "may_stand", _always)


def _at_its_asking(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Step, "place", property(_own_name))


def _strangers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(filing, "_line", _alone)


def _as_written(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(filing, "stem_of", _newest)


FOUND_BY: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "what changes nothing may be in doubt": (
        _in_doubt,
        "every answer is flawed, and the function goes on without",
    ),
    "what was asked ahead stays where it was asked for": (
        _at_its_asking,
        "what was approved ahead is done in a block that fails once, and passes",
    ),
    "a family is strangers to each other": (
        _strangers,
        "a family changes a document, one after the other",
    ),
    "a restored document is its restorer's own": (
        _as_written,
        "a family changes a document in turns, and all of it is restored",
    ),
}


@pytest.mark.parametrize("mend", FOUND_BY)
def test_without_one_mend_its_scenario_complains(mend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    switch_off, scenario = FOUND_BY[mend]
    assert _complaints(scenario) == []
    switch_off(monkeypatch)
    assert _complaints(scenario) != []


def _complaints(scenario: str) -> Any:
    tried = Tried()
    every_death(ALL[scenario], CrashGround, tried, twice=False)
    return tried.complaints
