"""Simulated sagas: definitions that read what to do from their input, and graphs.

A program is either `groups` of plain steps, or `parts`, each a word and what it needs, which use the rest of the
language: children, checkpoints, blocks that are tried again, held steps, waits, locks, documents and spending. Those
in which features meet, and what chance makes of all of them, are in `programs`.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

from amends.errors import Complete, StepFailedError, StepLostError, WaitTimeoutError
from amends.runtime.declare.action import Action
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.declare.limits import Limits, to_checkpoint
from amends.runtime.declare.steps import Step, given
from amends.runtime.saga.children import child
from amends.runtime.saga.work import Work
from amends.testing.simulation.actions import ACTIONS, APPROVED, HELD, LAST, LOCKED, LOOK, PIVOT
from amends.testing.simulation.process import here

Program = dict[str, Any]
SIGNAL: Final = "go"
SESSION: Final = "sim.session"
"""The name of open sagas, which agents drive."""
DOCUMENT: Final = "simulated"
MARK: Final = "mark"
_MOST_USD: Final = 3
_MOST_TRIES: Final = 2


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

    def __init__(self, s: Work, who: str, since: int = 0) -> None:
        self._s = s
        self._who = who
        self._since = since
        self._was_told = False
        self._try_number = 0

    async def follow(self, parts: list[list[Any]]) -> None:
        for number, (word, *more) in enumerate(parts, start=self._since + 1):
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
                self._was_told = await s.checkpoint(MARK) is not None
            case "back":
                await s.rollback_to(MARK, "another way")
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
                await s.documents.set(DOCUMENT, number if not more else f"{s.id}: {more[0]}")
            case "spend":
                await s.spend(usd=0 if self._was_told else more[0])
            case _:
                await self._meet(number, word, more)

    async def _meet(self, number: int, word: str, more: list[Any]) -> None:
        """Words that only programs of some kind say."""
        s = self._s
        match word:
            case "group":
                await s.call_all([child(CHILD, program=one) for one in more[0]], on_failure=more[1])
            case "hurry":
                with suppress(TimeoutError):
                    async with asyncio.timeout(more[0]):
                        await s.call(CHILD, program=more[1])
            case "beside":
                await asyncio.gather(*(self._branch(place).follow(branch) for place, branch in enumerate(more[0], 1)))
            case "try":
                async for attempt in s.attempts("try", max=_MOST_TRIES):
                    async with attempt:
                        self._try_number = attempt.number
                        await self.follow(more[0])
                        if attempt.number == 1:
                            raise ValueError("not this way")
            case "ask":
                await s.ask(_approved(more[0]), n=more[1])
            case "pay":
                await s.do(_approved(more[0]), n=more[1])
            case "look":
                await self._look(number)
            case "pivot":
                await s.do_named(PIVOT, {"n": number})
            case "fail":
                if self._try_number < _MOST_TRIES:
                    raise RuntimeError("it went wrong in the middle")
            case "enough":
                raise Complete("enough")
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

    async def _look(self, number: int) -> None:
        """A question that got no answer is no reason to stop, and never in doubt: it changes nothing."""
        try:
            await self._s.do_named(LOOK, {"n": number})
        except StepFailedError:
            pass
        except StepLostError as exc:
            here().ground.broken.append(f"saga {self._s.id}: a step that changes nothing is in doubt: {exc}")

    def _branch(self, place: int) -> _Course:
        branch = _Course(self._s, self._who, self._since + place * 100)
        branch._try_number = self._try_number
        return branch


WORK: Final = SagaDefinition("sim.work", function=_work)
CHILD: Final = SagaDefinition("sim.child", function=_work)
LIMITED: Final = SagaDefinition("sim.limited", function=_work, limits=Limits(usd=_MOST_USD))
THRIFTY: Final = SagaDefinition(
    "sim.thrifty", function=_work, limits=Limits(usd=_MOST_USD, then=to_checkpoint(MARK, "for less"))
)


def _approved(which: int) -> Action[..., Any]:
    return APPROVED[which]


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
EVERY_ACTION: Final[tuple[Action[..., Any], ...]] = (*ACTIONS, PIVOT, HELD, LOCKED, LAST, *APPROVED, LOOK)
