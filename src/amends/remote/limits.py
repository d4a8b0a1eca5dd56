"""Limits as a client declares them to a server, and what it cannot declare there."""

from __future__ import annotations

from typing import Any

from amends.errors import InputError
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.declare.limits import Limit, Limits, ToCheckpoint
from amends.runtime.settings import Bounds

_NAMES = ("tokens", "usd", "seconds", "steps", "failures", "retries", "spin")


def declared_limits(limits: Limits | None) -> dict[str, object] | None:
    """Limits in words that a server takes."""
    if limits is None:
        return None
    found: dict[str, object] = {}
    for name in _NAMES:
        most = getattr(limits, name)
        if isinstance(most, Limit):
            said = {"most": _spelled(most.most), "then": _response(most.then), "stop_children": most.stop_children}
            found[name] = said
        elif most is not None:
            found[name] = _spelled(most)
    return {**found, "then": _response(limits.then), "stop_children": limits.stop_children}


def _spelled(amount: Any) -> object:  # noqa: ANN401 - a number of any kind
    return amount if isinstance(amount, int | float | str) else str(amount)


def _response(then: str | ToCheckpoint) -> object:
    if isinstance(then, str):
        return then
    return {"checkpoint": then.name, "guidance": then.guidance, "times": then.times}


def require_remote(
    definition: SagaDefinition[..., Any], actor: str | None = None, bounds: Bounds | None = None
) -> None:
    """Raises InputError for what only a process with the journal can do."""
    options = definition.options
    if actor:
        raise InputError("through a server, who runs a saga is whose token it is; leave actor= out")
    if bounds is not None or options.rollback_s or options.attempts or options.compensation_attempts:
        raise InputError(f"saga {definition.name}: bounds of attempts and rollbacks are set where the journal is")
    if options.files or options.lands is not None:
        raise InputError(f"saga {definition.name} works on files, which are kept beside the journal; run it there")
