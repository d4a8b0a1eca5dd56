"""Actions: what each promises, when it was last drilled, how it has come out lately, and how much has a way back."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import BaseRoute

from amends.core.words.contracts import Reversibility, described
from amends.core.words.values import BUILT_IN
from amends.errors import UnknownActionError
from amends.http.console.visit import Visit, shown
from amends.operate.survey import SeenAction, add_drills
from amends.source.marked import nearest

_RIGHT = (Reversibility.REVERSIBLE, Reversibility.COMPENSATABLE)


async def _seen(visit: Visit) -> tuple[list[SeenAction], int, bool]:
    """The actions that this process knows, and those that the newest sagas took."""
    found = await visit.survey()
    for action in visit.coordinator.registry.actions():
        if not action.contract.topic.startswith(BUILT_IN):
            found.add(action.contract)
    await add_drills(visit.journal, found)
    return found.listed(), found.sagas, found.is_whole


async def _list(visit: Visit) -> Response:
    actions, sagas, is_whole = await _seen(visit)
    changing = [one for one in actions if one.contract.side_effect]
    return await visit.show(
        "actions.html",
        actions=actions,
        sagas=sagas,
        is_whole=is_whole,
        changing=len(changing),
        with_way_back=sum(one.contract.reversibility in _RIGHT for one in changing),
        irreversible=sum(one.contract.reversibility is Reversibility.IRREVERSIBLE for one in changing),
        undeclared=sum(one.contract.reversibility is Reversibility.UNDECLARED for one in changing),
        drilled=sum(one.is_drilled for one in changing),
        every_s=(await visit.policies()).policy.drill_every_s,
    )


async def _one(visit: Visit) -> Response:
    topic = visit.named("topic")
    actions, sagas, _ = await _seen(visit)
    found = [one for one in actions if one.contract.topic == topic]
    if not found:
        near = nearest(topic, [str(one.contract.topic) for one in actions])
        hint = f"did you mean {near}?" if near else "see the list of actions"
        raise UnknownActionError(f"no action {topic} is known here, nor taken by the newest sagas; {hint}")
    versions = [(one, described(one.contract)) for one in reversed(found)]
    return await visit.show("action.html", topic=topic, versions=versions, sagas=sagas)


def routes() -> list[BaseRoute]:
    return [shown("/actions", _list), shown("/actions/{topic}", _one)]
