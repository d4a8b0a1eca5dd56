"""Tools of the gateway itself: `amends_status`, `amends_checkpoint`, `amends_undo`, `amends_complete`.

Their answers are for a model and for whoever reads along: text, and the same as structured content.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from amends.core.transitions import SagaStatus
from amends.core.words.values import Json
from amends.errors import InputError, RefusedError
from amends.gateway.model import Contracts
from amends.gateway.sagas import Sagas
from amends.text import visible

if TYPE_CHECKING:
    from amends.bootstrap import Coordinator
    from amends.runtime.coordinator.preview import RollbackPlan

Wire = dict[str, Any]
COMPLETE: Final = "amends_complete"
_LONGEST: Final = 300
_MOST_SHOWN: Final = 50
_WHY: Final = "the agent asked for it"
_STANDING: Final = frozenset({"succeeded", "running", "unknown"})
"""How a step stands of which it matters whether it can be taken back."""


class ToolsHost(Protocol):
    """The gateway, as its own tools see it."""

    contracts: Contracts
    coordinator: Coordinator
    sagas: Sagas


def _tool(name: str, description: str, properties: Wire, *, required: tuple[str, ...] = (), **hints: bool) -> Wire:
    schema: Wire = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = list(required)
    return {
        "name": name,
        "description": description,
        "inputSchema": schema,
        "annotations": {**hints, "openWorldHint": False},
    }


OWN_TOOLS: Final[Mapping[str, Wire]] = {
    one["name"]: one
    for one in (
        _tool(
            "amends_status",
            "Show what was done in this piece of work: each step, whether it stands, and what waits for a person.",
            {},
            readOnlyHint=True,
        ),
        _tool(
            "amends_checkpoint",
            "Mark this place in the work, so that amends_undo can come back to it.",
            {"name": {"type": "string", "description": "A name for the place, such as before-cleanup."}},
            required=("name",),
            readOnlyHint=False,
            destructiveHint=False,
        ),
        _tool(
            "amends_undo",
            "Take back what was done through these tools, newest first: the last steps, all since a checkpoint, "
            "or all. With plan, nothing is changed: it says what would be taken back.",
            {
                "last": {"type": "integer", "minimum": 1, "description": "How many of the newest steps. Otherwise 1."},
                "to": {"type": "string", "description": "The name of a checkpoint: all since then is taken back."},
                "all": {"type": "boolean", "description": "Everything."},
                "plan": {"type": "boolean", "description": "Only say what would be taken back."},
                "why": {"type": "string", "description": "The reason, as it goes on record."},
            },
            readOnlyHint=False,
            destructiveHint=True,
        ),
        _tool(
            COMPLETE,
            "Say that this piece of work is done. Nothing more can be done in it afterwards.",
            {},
            readOnlyHint=False,
            destructiveHint=False,
        ),
    )
}


def told(text: str, *, is_error: bool = False, **structured: Json) -> Wire:
    """An answer of the gateway's own."""
    found: Wire = {"content": [{"type": "text", "text": text}], "isError": is_error}
    return {**found, "structuredContent": structured} if structured else found


class OwnTools:
    def __init__(self, owner: ToolsHost) -> None:
        self._owner = owner

    async def call(self, name: str, arguments: Mapping[str, Any], saga: str) -> Wire:
        """Raises AmendsError for what cannot be done, and for arguments that do not fit."""
        known = cast("Wire", OWN_TOOLS[name]["inputSchema"]["properties"])
        for given in arguments:
            if given not in known:
                raise InputError(f"{name} takes no {given[:60]!r}; it takes {', '.join(known) or 'nothing'}")
        match name:
            case "amends_status":
                return await self._status(saga)
            case "amends_checkpoint":
                return await self._checkpoint(saga, _text(arguments, "name"))
            case "amends_undo":
                return await self._undo(saga, arguments)
            case _:
                return await self._complete(saga)

    async def _status(self, saga: str) -> Wire:
        coordinator = self._owner.coordinator
        if await coordinator.journal.saga(cast("Any", saga)) is None:
            text = f"saga {saga}: nothing was done yet; the gateway is in {self._owner.contracts.mode} mode"
            return told(text, saga=saga, status="not begun", steps=[], mode=self._owner.contracts.mode)
        history, session = await coordinator.show(saga), self._owner.sagas.here(saga)
        now: dict[str, tuple[str, str]] = {}
        if session is not None:
            with suppress(RefusedError):  # it is stopped: the journal says all
                now = {one.step: (one.status, one.error) for one in session.steps}
        steps: list[Json] = []
        lines: list[str] = []
        for step in history.saga.steps.values():
            if step.topic.startswith("amends."):
                continue
            way = _way(step.contract.side_effect, str(step.contract.reversibility))
            status, error = now.get(step.id, (str(step.status), step.error))
            steps.append({"step": step.id, "topic": step.topic, "status": status, "undo": way, "error": error})
            stands = f" ({way})" if status in _STANDING else ""
            lines.append(f"  {step.id}. {step.topic}: {status}{stands}" + (f": {visible(error, 120)}" if error else ""))
        approvals: list[Json] = [row.id for row in await coordinator.approvals(saga=saga)]
        head = f"saga {saga} is {history.status}; the gateway is in {self._owner.contracts.mode} mode"
        left = len(lines) - _MOST_SHOWN
        shown = [f"  … {left} earlier steps", *lines[-_MOST_SHOWN:]] if left > 0 else lines
        waits = [f"  waits for a person: {one} (amends approval show {one})" for one in approvals]
        if history.status is SagaStatus.INCIDENT:
            waits.append("  stopped, and needs a person: amends incident list")
        return told(
            "\n".join([head, *shown, *waits]),
            saga=saga,
            status=str(history.status),
            steps=steps,
            approvals=approvals,
            mode=self._owner.contracts.mode,
        )

    async def _checkpoint(self, saga: str, name: str) -> Wire:
        async with self._owner.sagas.using(saga) as (session, _):
            await session.checkpoint(name)
        return told(f"checkpoint {name!r} is made; amends_undo with to={name!r} comes back to it", checkpoint=name)

    async def _undo(self, saga: str, arguments: Mapping[str, Any]) -> Wire:
        ways = [name for name in ("last", "to", "all") if arguments.get(name) not in {None, False}]
        if len(ways) > 1:
            raise InputError(f"give {ways[0]} or {ways[1]}, not both")
        last = arguments.get("last", 1)
        if type(last) is not int or last < 1:
            raise InputError(f"last={last!r} has to be a whole number from 1 on")
        why = str(arguments.get("why") or _WHY)[:_LONGEST]
        coordinator = self._owner.coordinator
        async with self._owner.sagas.using(saga) as (session, _):
            plan: RollbackPlan
            if ways == ["all"]:
                plan = await coordinator.rollback(saga, plan=True)
            elif ways == ["to"]:
                plan = await coordinator.rollback(saga, to=_text(arguments, "to"), plan=True)
            else:
                plan = await coordinator.rollback(saga, last=last, plan=True)
            if arguments.get("plan"):
                return {**told(str(plan)), "structuredContent": _planned(plan)}
            if not plan.steps and ways != ["to"]:
                raise RefusedError(f"saga {saga}: nothing stands that could be taken back")
            if ways == ["to"]:
                feedback = await session.rollback_to(_text(arguments, "to"), why)
            else:
                feedback = await session.rollback_last(len(plan.steps) if ways == ["all"] else last, why)
        back: list[Json] = [f"{one.topic} (step {one.step})" for one in feedback.taken_back]
        text = f"taken back, newest first: {', '.join(map(str, back))}" if back else "nothing had to be taken back"
        return told(text, taken_back=back)

    async def _complete(self, saga: str) -> Wire:
        async with self._owner.sagas.using(saga) as (session, one):
            ended = await session.complete()
            await self._owner.sagas.end(one)
        return told(f"saga {saga} is {ended.status}", saga=saga, status=str(ended.status))


def _way(side_effect: bool, reversibility: str) -> str:  # noqa: FBT001 - of a contract
    if not side_effect:
        return "changes nothing"
    words = {
        "compensatable": "can be taken back",
        "reversible": "can be taken back",
        "irreversible": "cannot be taken back",
    }
    return words.get(reversibility, "nothing is said of how to take it back")


def _planned(plan: RollbackPlan) -> dict[str, Json]:
    steps: list[Json] = [
        {"order": one.order, "step": one.step, "topic": one.topic, "undoes": one.undoes, "why_not": one.why_not}
        for one in plan.steps
    ]
    return {"clean": plan.is_clean, "refused": plan.refused, "steps": steps}


def _text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{name} has to be text")
    return value
