"""One saga: where it stands, its timeline, one step in full, and what a person may have done with it.

What would take something back is shown before it is asked for: the same page, with the plan and a form below it.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from starlette.responses import Response
from starlette.routing import BaseRoute

from amends.core.state.limits import LimitName, Response as LimitResponse, spelled
from amends.core.state.saga import Saga, Step, open_waits
from amends.core.transitions import SagaStatus
from amends.core.words.values import PARENT, Json, SagaId, StepId
from amends.dataclass import dataclass
from amends.errors import AmendsError, InputError, UnknownActionError, UnknownSagaError
from amends.http.callers import Scope
from amends.http.console.panel import panel_of
from amends.http.console.signing import proved
from amends.http.console.timeline import MOST_LANES, drawn
from amends.http.console.visit import Visit, decided, shown
from amends.http.problems import status_of
from amends.journal.port.journal import PersonQuery, SagaQuery, SagaRow
from amends.operate.fields import DRIVEN, driven
from amends.operate.reading import unknown
from amends.runtime.coordinator.lists import History
from amends.runtime.coordinator.preview import PlannedStep, RollbackPlan
from amends.runtime.drive.family import PARENT_STEP
from amends.runtime.drive.roster import Proof
from amends.runtime.engine.handle import Ended
from amends.text import times

LATEST: Final = 40
MOST_LINES: Final = 2_000
_DIGITS: Final = 7
_AMOUNT: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,3})?")
MOST_CHILDREN: Final = 100
_PLANS: Final = ("all", "mitigate", "to", "last")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedChild:
    """A saga that this one called, folded in."""

    row: SagaRow
    step: StepId
    drawing: object


def path_of(saga: str) -> str:
    return f"/sagas/{quote(saga, safe='')}"


async def _one(visit: Visit) -> Response:
    return await _show(visit, visit.named("id"))


async def _show(visit: Visit, name: str, status: int = 200, trouble: str = "") -> Response:
    found = await _history(visit, name)
    asked, now = visit.asked, visit.now
    row, state = found.row, found.saga
    children = await _children(visit, row.id)
    ((_, driver),) = await driven(visit.journal, (row,))
    first = max(1, min(int(asked["from"]), len(state.steps))) if _is_number(asked["from"]) else 1
    by_step = {child.step: child.row for child in children}
    drawing = None if found.pruned else drawn(state, found.entries, now, children=by_step, first=first)
    step = state.steps.get(StepId(asked["step"])) if asked["step"] else None
    lines, shown_lines = found.timeline, MOST_LINES if asked["story"] == "all" else LATEST
    return await visit.show(
        "saga.html",
        status,
        found=found,
        row=row,
        state=state,
        driver=driver,
        is_left=row.status in DRIVEN and (driver is None or driver.is_gone),
        drawing=drawing,
        most_lanes=MOST_LANES,
        children=children,
        steps=sorted(state.steps.values(), key=lambda one: one.entry)[first - 1 : first - 1 + MOST_LANES],
        steps_of=len(state.steps),
        first=first,
        panel=None if step is None else panel_of(found, step, await visit.policies()),
        unknown_step=bool(asked["step"]) and step is None,
        lines=lines[-shown_lines:],
        lines_left=max(0, len(lines) - shown_lines),
        is_whole_story=shown_lines == MOST_LINES,
        parent=row.labels.get(PARENT, ""),
        incidents=(await visit.journal.incidents(PersonQuery(saga=row.id, limit=20))).rows,
        approvals=(await visit.journal.approvals(PersonQuery(saga=row.id, limit=20))).rows,
        checkpoints=_checkpoints(state),
        waits=[wait for wait in open_waits(state) if wait.name],
        limits=[] if found.pruned else _limits(state, row.ended_at or now),
        may_raise=not row.status.ended and state.rollback is None,
        trouble=trouble,
        plan=None if found.pruned else await _plan(visit, found),
        asked=asked,
    )


async def _history(visit: Visit, name: str) -> History:
    try:
        return await visit.coordinator.show(name)
    except UnknownSagaError:
        raise await unknown(visit.journal, name) from None


class ShownLimit(NamedTuple):
    """A limit of a saga as people read it."""

    name: str
    used: str
    most: str
    reached: str
    is_near: bool


_NEAR: Final = 0.9
_THEN: Final = {
    LimitResponse.ROLLBACK: "it is rolled back",
    LimitResponse.PAUSE: "it is paused",
    LimitResponse.CALL: "a person is called",
}


def _limits(saga: Saga, until: int) -> list[ShownLimit]:
    """The limits of a saga, and how much of each is used up."""
    budget, found = saga.budget, list[ShownLimit]()
    if budget is None:
        return found
    for name, bound in budget.bounds.items():
        used, is_spin = budget.used(name, until), name is LimitName.SPIN
        then = _THEN.get(bound.then, f"it goes back to the checkpoint {bound.to}, {times(bound.times)} at most")
        shown_used = "–" if is_spin else spelled(name, used)
        is_near = not is_spin and used >= bound.most * _NEAR
        found.append(ShownLimit(name.value, shown_used, spelled(name, bound.most), then, is_near))
    return found


def _checkpoints(saga: Saga) -> list[str]:
    """The names of its checkpoints, the newest first."""
    marks = sorted(saga.checkpoints.values(), key=lambda one: one.entry, reverse=True)
    return list(dict.fromkeys(mark.name for mark in marks))


async def _children(visit: Visit, saga: SagaId) -> list[FoldedChild]:
    rows = (await visit.journal.sagas(SagaQuery(parent=saga, limit=MOST_CHILDREN))).rows
    found: list[FoldedChild] = []
    for row in reversed(rows):
        below = await visit.coordinator.show(row.id)
        drawing = None if below.pruned else drawn(below.saga, below.entries, visit.now)
        found.append(FoldedChild(row=row, step=StepId(row.labels.get(PARENT_STEP, "")), drawing=drawing))
    return found


# -- taking back ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """A plan of what would be taken back; each step with what stands in the way, or nothing."""

    kind: str
    given: str
    plan: RollbackPlan | None
    steps: tuple[tuple[PlannedStep, str], ...] = ()
    refused: str = ""


async def _plan(visit: Visit, found: History) -> Preview | None:
    kind, given = visit.asked["plan"], visit.asked["given"]
    if kind not in _PLANS:
        return None
    try:
        last = _count(given) if kind == "last" else None
        plan = await visit.coordinator.rollback(
            found.id, to=given if kind == "to" else None, last=last, mitigate=kind == "mitigate", plan=True
        )
    except AmendsError as exc:
        return Preview(kind=kind, given=given, plan=None, refused=str(exc))
    steps = tuple((step, _trouble(visit, step, found.saga.steps[step.step])) for step in plan.steps)
    return Preview(kind=kind, given=given, plan=plan, steps=steps, refused=plan.refused)


def _trouble(visit: Visit, planned: PlannedStep, step: Step) -> str:
    """Trouble with taking a step back. That this server does not know it is none: a worker does it."""
    contract = step.contract
    if planned.why_not and contract.compensation_declared:
        try:
            visit.coordinator.registry.action(contract.topic, contract.version)
        except UnknownActionError:
            return "" if contract.rollback_supported or planned.mitigates else planned.why_not
    return planned.why_not


def _count(given: str) -> int:
    if not _is_number(given) or not int(given):
        raise InputError("say how many of its last steps: a number from 1 on")
    return int(given)


def _is_number(given: str) -> bool:
    return given.isascii() and given.isdecimal() and len(given) <= _DIGITS


# -- deciding ---------------------------------------------------------------------------------------------------------


async def _decide(visit: Visit) -> Response:
    name = visit.named("id")
    try:
        answered = await _do(visit, name)
    except AmendsError as exc:
        return await _show(visit, name, status_of(exc), trouble=str(exc))
    if isinstance(answered, Response):
        return answered
    visit.tell(answered)
    return visit.go(path_of(name))


async def _do(visit: Visit, name: str) -> str | Response:
    """Do what the form asks for; what to tell of it, or the page that asks for a signature."""
    form, coordinator = visit.form, visit.coordinator
    why = form["why"].strip()
    match form["do"]:
        case "all" | "mitigate" | "to" | "last":
            ended = await proved(visit, lambda proof: _go_back(visit, name, _reason(why), proof))
            return ended if isinstance(ended, Response) else _told_back(ended.status)
        case "pause":
            await coordinator.pause(saga=name, why=_reason(why), by=visit.who)
            return "Paused: nothing more of it is dispatched until it is let go on."
        case "raise":
            ended = await proved(visit, lambda proof: _raise(visit, name, _reason(why), proof))
            return ended if isinstance(ended, Response) else "The limit is raised."
        case "unpause":
            answered = await proved(
                visit, lambda proof: coordinator.unpause(saga=name, why=why, by=visit.who, proof=proof)
            )
            return answered if isinstance(answered, Response) else "It goes on where a process drives it."
        case "signal":
            await coordinator.signal(name, form["name"].strip(), _payload(form["payload"]), by=visit.who)
            return f"Signal {form['name'].strip()} is on record."
        case _:
            raise InputError("the form does not say what to do; load the page again")


async def _go_back(visit: Visit, name: str, why: str, proof: Proof | None) -> Ended[Any]:
    coordinator, form = visit.coordinator, visit.form
    match form["do"]:
        case "to":
            return await coordinator.rollback(name, to=form["given"], why=why, by=visit.who, proof=proof)
        case "last":
            last = _count(form["given"])
            return await coordinator.rollback(name, last=last, why=why, by=visit.who, proof=proof)
        case wanted:
            mitigate = wanted == "mitigate"
            return await coordinator.cancel(name, why=why, by=visit.who, mitigate=mitigate, proof=proof)


async def _raise(visit: Visit, name: str, why: str, proof: Proof | None) -> Ended[Any]:
    limit, most = visit.form["limit"], visit.form["most"].strip()
    if limit not in set(LimitName):
        raise InputError("choose which limit to raise")
    amount: Any = most
    if limit != LimitName.USD:
        if not most.isascii() or not _AMOUNT.fullmatch(most) or (limit != LimitName.SECONDS and "." in most):
            raise InputError(f"say to how much {limit} is raised: a number, as 20")
        amount = float(most) if limit == LimitName.SECONDS else int(most)
    return await visit.coordinator.raise_limit(name, **{limit: amount}, why=why, by=visit.who, proof=proof)


def _reason(why: str) -> str:
    if not why:
        raise InputError("say why: it goes on record, and whoever asked for the saga is told")
    return why


def _payload(text: str) -> Json:
    if not text.strip():
        return None
    try:
        found: Json = json.loads(text)
    except ValueError as exc:
        raise InputError(f'the payload is no JSON ({exc}); a text is written in quotes: "yes"') from None
    return found


def _told_back(status: SagaStatus) -> str:
    if status is SagaStatus.ROLLED_BACK:
        return "It is rolled back."
    return f"Asked for, and on record; it is {str(status).replace('_', ' ')} now. A worker that knows it takes it back."


def routes() -> list[BaseRoute]:
    return [shown("/sagas/{id}", _one), decided("/sagas/{id}", _decide, Scope.DECIDE)]
