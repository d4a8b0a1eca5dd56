"""What simulated sagas are: definitions that read what to do from their input, and graphs. Chance writes the input.

A program is either `groups` of plain steps, or `parts`, each a word and what it needs, which use the rest of the
language: children, checkpoints, blocks that are tried again, held steps, waits, locks, documents and spending.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

from amends.errors import WaitTimeoutError
from amends.runtime.action import Action
from amends.runtime.definition import SagaDefinition
from amends.runtime.limits import Limits, to_checkpoint
from amends.runtime.steps import Step, given
from amends.runtime.work import Work
from amends.testing.simulation.actions import ACTIONS, HELD, LAST, LOCKED, PIVOT
from amends.testing.simulation.loop import Dice

Program = dict[str, Any]
SIGNAL: Final = "go"
DOCUMENT: Final = "simulated"
_MARK: Final = "mark"
_MOST_USD: Final = 3
_PLAIN, _DRAWN, _LIMITED, _IN_ALL = 40, 15, 10, 100
"""Of so many programs, how many are plain, graphs, or have a limit; the rest are of any parts."""


async def _work(s: Work, program: Program) -> None:
    if "parts" in program:
        await _Course(s, program["who"]).follow(program["parts"])
    else:
        await _groups(s, program["groups"])
    if program["pivots"]:
        await s.do_named(PIVOT, {"n": 0})
    if program["fails"]:
        raise RuntimeError("it was not meant to be")


async def _groups(s: Work, groups: list[list[int]]) -> None:
    for number, group in enumerate(groups):
        steps = [s.do_named(ACTIONS[which], {"n": number * 10 + place}) for place, which in enumerate(group)]
        if len(steps) == 1:
            await steps[0]
        else:
            await asyncio.gather(*steps)


class _Course:
    """One call of a definition that follows its parts. `who` is the saga that the family's locks belong to."""

    def __init__(self, s: Work, who: str) -> None:
        self._s = s
        self._who = who
        self._was_told = False

    async def follow(self, parts: list[list[Any]]) -> None:
        for number, (word, *more) in enumerate(parts, start=1):
            await self._follow(number, word, more)

    async def _follow(self, number: int, word: str, more: list[Any]) -> None:
        s = self._s
        match word:
            case "do":
                which: int = more[0]
                await s.do_named(ACTIONS[which], {"n": number})
            case "call":
                await s.call(CHILD, program=more[0])
            case "hold":
                await s.do_named(HELD, {"n": number})
            case "lock":
                await s.do_named(LOCKED, {"n": number, "who": self._who})
            case "mark":
                self._was_told = await s.checkpoint(_MARK) is not None
            case "back":
                await s.rollback_to(_MARK, "another way")
            case "last":
                await s.rollback_last(1, "another way")
            case "block":
                await self._block(number, more)
            case "wait":
                with suppress(WaitTimeoutError):
                    await s.wait_for(SIGNAL, more[0])
            case "sleep":
                await s.sleep(more[0])
            case "keep":
                await s.documents.set(DOCUMENT, number)
            case "spend":
                await s.spend(usd=0 if self._was_told else more[0])
            case _:
                raise AssertionError(word)

    async def _block(self, number: int, which: list[int]) -> None:
        """Tried again after it was taken back."""
        async for attempt in self._s.attempts("block", max=2):
            async with attempt:
                for one in which:
                    await self._s.do_named(ACTIONS[one], {"n": number * 10 + attempt.number})
                if attempt.number == 1:
                    raise ValueError("not this way")


WORK: Final = SagaDefinition("sim.work", function=_work)
CHILD: Final = SagaDefinition("sim.child", function=_work)
LIMITED: Final = SagaDefinition("sim.limited", function=_work, limits=Limits(usd=_MOST_USD))
THRIFTY: Final = SagaDefinition(
    "sim.thrifty", function=_work, limits=Limits(usd=_MOST_USD, then=to_checkpoint(_MARK, "for less"))
)


def _graph(name: str, actions: tuple[int, int, int, int], **after: list[str]) -> SagaDefinition:
    steps = zip("abcd", (ACTIONS[which] for which in actions), strict=True)
    drawn = [Step(action, {"n": 1}, name=step, after=after.get(step, [])) for step, action in steps]
    return SagaDefinition(name, [*drawn, Step(LAST, {"fails": given("fails")}, name="e", after=["c", "d"])])


GRAPHS: Final = (
    _graph("sim.diamond", (0, 2, 1, 3), b=["a"], c=["a"], d=["b"]),
    _graph("sim.two_lines", (2, 1, 0, 5), c=["a"], d=["b"]),
    _graph("sim.fan", (3, 0, 4, 2), b=["a"], c=["a"], d=["a"]),
)
DEFINITIONS: Final = {one.name: one for one in (WORK, CHILD, LIMITED, THRIFTY, *GRAPHS)}
EVERY_ACTION: Final[tuple[Action[..., Any], ...]] = (*ACTIONS, PIVOT, HELD, LOCKED, LAST)


# -- programs ---------------------------------------------------------------------------------------------------------


def plain(dice: Dice, steps: int | None) -> Program:
    """Groups of steps side by side, and how the function ends."""
    left = dice.below(5) + 1 if steps is None else steps
    groups: list[list[int]] = []
    while left > 0:
        width = min(left, 2 if dice.chance(20) else 1)
        groups.append([dice.below(len(ACTIONS)) for _ in range(width)])
        left -= width
    return {"groups": groups, "fails": dice.chance(35), "pivots": dice.chance(8)}


def any_program(seed: int, dice: Dice, who: str) -> tuple[str, Program]:
    """A definition's name and its input. Chance for the shape is thrown apart, so plain programs are the same ones."""
    shape = Dice(seed ^ 0x5EED).below(_IN_ALL)
    if shape < _PLAIN:
        return WORK.name, plain(dice, None)
    if shape < _PLAIN + _DRAWN:
        return GRAPHS[dice.below(len(GRAPHS))].name, {"fails": dice.chance(40)}
    if shape < _PLAIN + _DRAWN + _LIMITED:
        name = (LIMITED if dice.chance(50) else THRIFTY).name
        return name, _parts([["do", _one(dice)], ["mark"], _simple(dice), ["spend", 2 + 2 * dice.below(2)]], dice, who)
    return WORK.name, _parts([part for _ in range(2 + dice.below(2)) for part in _some(dice, who)], dice, who)


def at_the_desk(dice: Dice, who: str) -> Program:
    """What another saga does that wants the same thing."""
    return _parts([["lock"], ["do", _one(dice)]], dice, who)


def has(program: Program, word: str) -> bool:
    return any(part[0] == word for part in program.get("parts", ()))


def _parts(parts: list[list[Any]], dice: Dice, who: str) -> Program:
    return {"parts": parts, "who": who, "fails": dice.chance(35), "pivots": dice.chance(4)}


def _one(dice: Dice) -> int:
    return dice.below(len(ACTIONS))


def _simple(dice: Dice) -> list[Any]:
    words: list[list[Any]] = [["do", _one(dice)], ["hold"], ["lock"], ["keep"], ["sleep", dice.between(0.1, 60)]]
    return words[dice.below(len(words))]


def _some(dice: Dice, who: str) -> list[list[Any]]:
    """One part, or the few that belong together."""
    match dice.below(8):
        case 0:
            return [["call", _parts([["do", _one(dice)], _simple(dice)], dice, who)]]
        case 1:
            return [["mark"], _simple(dice), ["do", _one(dice)], ["back"]]
        case 2:
            return [["do", _one(dice)], ["last"]]
        case 3:
            return [["block", _one(dice), _one(dice)]]
        case 4:
            return [["wait", dice.between(5, 120)], ["do", _one(dice)]]
        case _:
            return [_simple(dice)]
