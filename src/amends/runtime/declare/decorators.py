"""Decorators of actions: `@action` makes one of a function, `register(…)` of a function that is not yours to decorate.

Both make it known in this process. `@saga`, which is about the work, is in `runtime.saga.work`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, ParamSpec, TypeVar, cast

from amends.core.words.contracts import BACK, FORWARD, Contract, OnIncident, Retries, Reversibility
from amends.errors import DeclarationError
from amends.runtime.declare.action import Action, checked_topic
from amends.runtime.declare.registry import PROCESS
from amends.runtime.declare.resources import listed

P = ParamSpec("P")
R = TypeVar("R")


def action(  # noqa: PLR0913 - a contract has that many clauses, each by name
    topic: str,
    *,
    version: int = 1,
    read_only: bool = False,
    no_rollback: str | None = None,
    idempotent: bool = False,
    atomic: bool = False,
    risk: Iterable[str] = (),
    timeout: float | None = 300.0,
    retries: Retries | int = FORWARD,
    compensation_timeout: float = 30.0,
    compensation_retries: Retries | int = BACK,
    on_incident: Literal["stop", "go_on"] = "stop",
    hold: bool = False,
    resources: Iterable[str] = (),
    lock_wait: float | None = None,
    sourced: Iterable[str] | Mapping[str, str | Iterable[str]] = (),
) -> Callable[[Callable[P, R]], Action[P, R]]:
    """Make a function an action, known by its topic.

    read_only: it changes nothing, so it needs no compensation and may be repeated.
    retries, compensation_retries: how often each is tried, and how far apart. Where nothing is said, a mistake in the
        code (a TypeError, a KeyError and the like) is not tried again.
    no_rollback: why it cannot be taken back; the first such step that takes effect is the saga's pivot. What
        can be done about it all the same is its .mitigation.
    idempotent: repeating it with the same key is the same as doing it once.
    atomic: any exception of it means that nothing happened (a database transaction, say).
    resources: what it needs for itself until its saga has ended, as templates over its parameters:
        ["account:{account}"]. Another saga's step that needs the same waits for its turn.
    lock_wait: how many seconds it waits for them; then it fails, and nothing happened. 0: it does not wait.
    on_incident: whether a rollback stops when this action's compensation fails for good, or goes on with older ones.
    sourced: arguments that may not be made up: each has to come from an earlier result, the saga's input or a person;
        as {"cents": "shop.quote"}, from the result of that action.
    hold: it is released only after the work has finished and everything that could fail has passed; a rollback before
        that drops it. For actions with no_rollback=.
    """
    contract = checked_contract(
        topic,
        version=version,
        read_only=read_only,
        no_rollback=no_rollback,
        idempotent=idempotent,
        atomic=atomic,
        risk=risk,
        timeout=timeout,
        retries=retries,
        compensation_timeout=compensation_timeout,
        compensation_retries=compensation_retries,
        on_incident=on_incident,
        hold=hold,
        resources=resources,
        lock_wait=lock_wait,
    )

    def declare(function: Callable[P, R]) -> Action[P, R]:
        if not callable(function):
            raise DeclarationError(f"@action({topic!r}) goes on a function, not on {function!r}")
        if isinstance(function, staticmethod):
            function = cast("Callable[P, R]", function.__func__)
        declared = Action(function, contract)
        declared.parts.repeats_bugs = retries is not FORWARD
        declared.parts.repeats_bugs_back = compensation_retries is not BACK
        declared.parts.sourced = _listed_sources(topic, sourced, declared.parts.signature.names)
        PROCESS.add_action(declared)
        return declared

    return declare


def checked_contract(  # noqa: PLR0913 - one for each clause
    topic: str,
    *,
    version: int = 1,
    read_only: bool = False,
    no_rollback: str | None = None,
    idempotent: bool = False,
    atomic: bool = False,
    risk: Iterable[str] = (),
    timeout: float | None = 300.0,
    retries: Retries | int = FORWARD,
    compensation_timeout: float = 30.0,
    compensation_retries: Retries | int = BACK,
    on_incident: Literal["stop", "go_on"] = "stop",
    hold: bool = False,
    resources: Iterable[str] = (),
    lock_wait: float | None = None,
) -> Contract:
    """The contract that these clauses of `action` make. Raises DeclarationError or TopicError."""
    return Contract(
        topic=checked_topic(topic),
        version=version,
        side_effect=not read_only,
        reversibility=_reversibility(read_only=read_only, no_rollback=no_rollback),
        no_rollback=_reason(topic, no_rollback, read_only=read_only),
        idempotent=idempotent,
        atomic=atomic,
        risk=tuple(sorted(set(risk))),
        timeout_s=_positive(topic, "timeout", timeout),
        retries=_retries(topic, retries),
        undo_timeout_s=_positive(topic, "compensation_timeout", compensation_timeout) or 30.0,
        undo_retries=_retries(topic, compensation_retries),
        on_incident=OnIncident(on_incident),
        hold=_held(topic, hold, no_rollback, resources),
        resources=listed(topic, resources),
        lock_wait_s=_not_negative(topic, lock_wait),
    )


def register(
    topic: str,
    function: Callable[P, R],
    *,
    compensation: Callable[..., object] | None = None,
    mitigation: Callable[..., object] | None = None,
    probe: Callable[..., object] | None = None,
    before: Callable[..., object] | None = None,
    reread: Callable[..., object] | None = None,
    validate: Callable[..., object] | None = None,
    **contract: Any,  # noqa: ANN401 - the keywords of `action`, checked there
) -> Action[P, R]:
    """Make an action of a function that is not yours to decorate. The keywords are those of `action`."""
    declared: Action[P, R] = action(topic, **contract)(function)
    if compensation is not None:
        declared.compensation(compensation)
    if mitigation is not None:
        declared.mitigation(mitigation)
    if probe is not None:
        declared.probe(probe)
    if before is not None:
        declared.before(before)
    if reread is not None:
        declared.reread(reread)
    if validate is not None:
        declared.validate(validate)
    return declared


def _reversibility(*, read_only: bool, no_rollback: str | None) -> Reversibility:
    if read_only:
        return Reversibility.REVERSIBLE
    return Reversibility.UNDECLARED if no_rollback is None else Reversibility.IRREVERSIBLE


def _reason(topic: str, no_rollback: str | None, *, read_only: bool) -> str | None:
    if no_rollback is not None and (read_only or not no_rollback.strip()):
        what = "read_only= needs no" if read_only else "is empty; say in words why there is no way back as the"
        raise DeclarationError(f"{topic}: {what} no_rollback= reason")
    return no_rollback


def _held(topic: str, hold: bool, no_rollback: str | None, resources: object) -> bool:  # noqa: FBT001 - a clause
    if hold and resources:
        raise DeclarationError(
            f"{topic}: what is held goes out when nothing can fail any more, and waiting for a resource can; "
            "take it before, with `await s.lock(…)` or the definition's resources="
        )
    if hold and no_rollback is None:
        raise DeclarationError(
            f"{topic}: hold=True is for what cannot be taken back; say why with no_rollback=, or leave hold= out"
        )
    return hold


def _positive(topic: str, what: str, seconds: float | None) -> float | None:
    if seconds is not None and not seconds > 0:
        raise DeclarationError(f"{topic}: {what}={seconds} must be more than 0 seconds")
    return None if seconds is None else float(seconds)


def _not_negative(topic: str, seconds: float | None) -> float | None:
    if seconds is not None and not 0 <= seconds < math.inf:
        raise DeclarationError(f"{topic}: lock_wait={seconds} must be 0 seconds or more, and not for ever")
    return None if seconds is None else float(seconds)


def _retries(topic: str, retries: Retries | int) -> Retries:
    declared = Retries(attempts=retries) if isinstance(retries, int) else retries
    if declared.attempts < 1 or declared.first_s < 0 or declared.cap_s < 0:
        raise DeclarationError(f"{topic}: {declared} must allow at least one attempt, and no negative delay")
    return declared


def _listed_sources(
    topic: str, sourced: Iterable[str] | Mapping[str, str | Iterable[str]], names: Iterable[str]
) -> dict[str, tuple[str, ...]]:
    """Which arguments need a source, and from which topics. Raises DeclarationError."""
    if isinstance(sourced, str):
        raise DeclarationError(f'{topic}: sourced={sourced!r} is a text; write sourced=["{sourced}"]')
    asked: dict[str, tuple[str, ...]] = {}
    if isinstance(sourced, Mapping):
        for name, topics in cast("Mapping[str, str | Iterable[str]]", sourced).items():
            asked[name] = (topics,) if isinstance(topics, str) else tuple(topics)
    else:
        asked = dict.fromkeys(sourced, ())
    known = tuple(names)
    for name in asked:
        if name not in known:
            raise DeclarationError(
                f"{topic}: sourced= names {name}, which it does not take; it takes {', '.join(known)}"
            )
    return asked
