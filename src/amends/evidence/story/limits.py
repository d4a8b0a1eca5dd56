"""The timeline's words on what a saga uses up, and on its limits. Pure."""

from __future__ import annotations

from typing import assert_never

from amends.core import events as e
from amends.core.state.limits import spelled as amount
from amends.text import said, short


def told_of_limits(event: e.LimitEvent) -> str:
    match event:
        case e.BudgetSpent(tokens=tokens, usd_micros=usd, what=what):
            return f"spent {_amounts(tokens, usd)}{_because(what)}"
        case e.ChildSpent(step=step, tokens=tokens, usd_micros=usd, steps=steps) as spent:
            used = f"{_amounts(tokens, usd)} in {steps} steps so far{_tried(spent)}"
            return f"the child of step {short(step)} has spent {used}"
        case e.LimitReached(limit=limit, then=then, why=why, children=children):
            response = f"{short(then).replace('_', ' ')}{', and its children stop too' if children else ''}"
            return f"limit {short(limit)} reached: {said(why)} ({response})"
        case e.LimitRaised(limit=limit, most=most, by=by, why=why):
            return f"limit {short(limit)} raised to {amount(limit, most)} by {short(by)}{_because(why)}"
        case _:
            assert_never(event)


def told_of_bounds(event: e.SagaStarted) -> str:
    """The bounds that a saga began with, in brackets; nothing where it has none of its own."""
    found = [
        *([] if event.rollback_s is None else [f"rollback within {event.rollback_s:g} s"]),
        *([] if event.attempts is None else [f"attempts of a step: {event.attempts}"]),
        *([] if event.compensation_attempts is None else [f"of a compensation: {event.compensation_attempts}"]),
    ]
    return f" ({', '.join(found)})" if found else ""


def _amounts(tokens: int, usd: int) -> str:
    found = [*([f"{tokens} tokens"] if tokens else []), *([amount("usd", usd)] if usd else [])]
    return ", ".join(found) or "nothing"


def _tried(spent: e.ChildSpent) -> str:
    counts = {"failures": spent.failures, "retries": spent.retries}
    return "".join(f", {amount(name, count)}" for name, count in counts.items() if count)


def _because(why: str) -> str:
    return f": {said(why)}" if why else ""
