"""The table of a step's flags: folding facts, and reading the functions that it names, has to give the same table."""

import ast
from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from amends.core import commands as c, events as e
from amends.core.state.saga import Saga, evolve
from amends.core.state.step import FLAGS, Approval, Step, changed
from amends.core.transitions import STEP, ApprovalStatus
from amends.dataclass import altered
from amends.errors import JournalDamagedError
from amends.testing.walk.choices import AcceptedCommand, Tape
from amends.testing.walk.walk import Walk
from tests.core.samples import CONTRACT, EVENT, STEP_ID
from tests.core.story import FLIGHT, LOST, Story, contract

CORE = Path(__file__).parents[2] / "src/amends/core"
EXCEPTIONS = CORE.parent / "runtime/drive/exceptions.py"
DEFAULTS: dict[str, bool] = {field.name: bool(field.default) for field in fields(Step) if field.type == "bool"}
CONTRACTS = (CONTRACT, replace(CONTRACT, probe=True), replace(CONTRACT, idempotent=True))
ASKED = Approval(number=1, digest="", shown=None, rule="", policy="", needs=(), expires_at=0)
NOT_STEPS = {"outcome", "event", "command"}
"""What else has fields of these names, as the core's functions call it."""
Seen = set[tuple[str, bool, type[e.Event]]]


def variants(kind: type[e.Event]) -> Iterator[Any]:
    """A fact of this kind for each value of what it says by yes and no, and with another try or without."""
    sample: Any = EVENT[kind]
    said: list[tuple[str, tuple[Any, ...]]] = [
        (field.name, (False, True)) for field in fields(sample) if field.type == "bool"
    ]
    said += [(field.name, (None, 0)) for field in fields(sample) if field.name == "retry_at"]
    for values in product(*(values for _, values in said)):
        yield replace(sample, **dict(zip((name for name, _ in said), values, strict=True)))


def steps() -> Iterator[Step]:
    """A step with each flag turned, under each contract and with each fate of its approval."""
    for promised, turned, given in product(CONTRACTS, (None, *DEFAULTS), ApprovalStatus):
        step = Step(id=STEP_ID, contract=promised, args={}, digest="", retry_at=0)
        step = replace(step, approval=replace(ASKED, status=given))
        changes: dict[str, Any] = {} if turned is None else {turned: not DEFAULTS[turned]}
        yield replace(step, **changes)


def compared(before: Step | None, after: Step, kind: type[e.Event]) -> Seen:
    flags = {name: DEFAULTS[name] if before is None else getattr(before, name) for name in DEFAULTS}
    return {(name, not was, kind) for name, was in flags.items() if getattr(after, name) is not was}


def folded() -> Seen:
    """Each fact that the table has at each status."""
    seen: Seen = set()
    for status, row in STEP.items():
        for kind, then in row.items():
            for event, step in product(variants(kind), steps()):
                before = altered(step, status=status)
                try:
                    seen |= compared(before, changed(before, event, then), kind)
                except JournalDamagedError:
                    continue
    return seen


def watched() -> Seen:
    """Facts that are folded by the saga: in walks, and in what walks seldom come to."""
    seen: Seen = set()

    def look(saga: Saga, events: tuple[e.Event, ...]) -> None:
        for event in events:
            after = evolve(saga.copy(), event)
            for step in after.steps.values():
                seen.update(compared(saga.steps.get(step.id), step, type(event)))
            saga = after

    def watch(_: Walk, told: AcceptedCommand) -> None:
        look(told.before, told.events)

    for seed in range(400):
        Walk(Tape.seeded(seed), watch=watch).run()
    lost = Story().does(FLIGHT, outcome=LOST).diverges()
    retried = e.IncidentRetried(incident=2, by="person:ann", repeat=True)
    opened = e.IncidentOpened(incident=2, kind=e.IncidentKind.OUTCOME_UNKNOWN, step=FLIGHT, why="?", left=(FLIGHT,))
    look(lost.saga, (opened, retried, replace(opened, incident=3), e.IncidentRetried(incident=3, by="person:ann")))
    final = replace(LOST, final=True)
    look(Story().does(FLIGHT, outcome=final).diverges().saga, (opened, retried))
    held = c.ProposeStep(step=FLIGHT, contract=contract("act.held", hold=True), args={}, digest="", ahead=True)
    asked = Story().tell(held).judges(FLIGHT).tell(c.PlaceStep(step=FLIGHT, place=STEP_ID))
    look(Story().tell(held).judges(FLIGHT).saga, asked.facts)
    return seen


@cache
def found() -> Seen:
    return folded() | watched()


def readers(path: Path) -> Iterator[tuple[str, str]]:
    """Flag and function, for each function that reads a flag of a step."""
    module = path.parent.name if path.stem == "__init__" else path.stem
    for function in ast.walk(ast.parse(path.read_text())):
        if isinstance(function, ast.FunctionDef):
            for read in ast.walk(function):
                if (
                    isinstance(read, ast.Attribute)
                    and read.attr in DEFAULTS
                    and ast.unparse(read.value) not in NOT_STEPS
                ):
                    yield read.attr, f"{module}.{function.name}"


def test_every_flag_is_in_the_table() -> None:
    assert set(FLAGS) == set(DEFAULTS)


@pytest.mark.parametrize("name", FLAGS)
def test_a_flag_is_set_and_cleared_by_the_facts_that_the_table_names_and_by_no_others(name: str) -> None:
    for becomes, named in ((True, FLAGS[name].set_by), (False, FLAGS[name].cleared_by)):
        assert {kind for flag, to, kind in found() if (flag, to) == (name, becomes)} == set(named)


def test_a_flag_is_read_where_the_table_says_and_nowhere_else_in_the_core() -> None:
    read = {pair for path in CORE.rglob("*.py") for pair in readers(path)}
    read |= {pair for pair in readers(EXCEPTIONS) if pair[0] == "deadlocked"}  # nothing in the core goes by it
    assert read == {(name, reader) for name, flag in FLAGS.items() for reader in flag.read_by.split()}
