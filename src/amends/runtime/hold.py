"""Hold until settled: bringing a step to where it is held, and releasing it when nothing else can fail any more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from amends.core.effects import Effect, GiveUp
from amends.core.plan import forward
from amends.core.values import StepId
from amends.runtime.action import Action
from amends.runtime.endings import step_error
from amends.runtime.run import Run

Go: TypeAlias = Callable[[Effect, StepId, Action[..., Any]], Awaitable[None]]


async def hold(run: Run, go: Go, step: StepId, action: Action[..., Any]) -> None:
    """Bring a step to where it is held: allowed, and approved where that is needed. Raises StepDeniedError."""
    book = run.book
    while not book.saga.steps[step].accepted:
        effect = forward(book.saga.steps[step], run.around.clock.now())
        if effect is None or isinstance(effect, GiveUp):
            book.commit_soon()
            raise step_error(book.saga.steps[step])
        await go(effect, step, action)
    book.commit_soon()


async def release(run: Run, go: Go, effect: Effect, step: StepId) -> None:
    """Do what a held step needs, when it is its turn. Raises UnknownActionError, DivergedError."""
    await go(effect, step, run.find(run.state(step).contract))
