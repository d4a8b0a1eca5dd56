"""Contracts as a client declares them to a server: the clauses of `@action`, and which functions it has beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Final, Literal, TypedDict, cast, get_type_hints

from amends.core.words.contracts import Contract, Retries, Reversibility
from amends.core.words.values import BUILT_IN
from amends.errors import DeclarationError, InputError, MisfitError
from amends.runtime.declare.action import Action
from amends.runtime.declare.checks import PREFIX as ASSERTION
from amends.runtime.declare.decorators import checked_contract
from amends.runtime.declare.resources import listed
from amends.runtime.values.annotations import Kinds
from amends.runtime.values.kinds import Kind
from amends.source.marked import nearest


class _Attempts(TypedDict):
    attempts: int


class DeclaredRetries(_Attempts, total=False):
    first_s: float
    cap_s: float


class _Topic(TypedDict):
    topic: str


class DeclaredContract(_Topic, total=False):
    """An action's promises, by the client that has its functions."""

    version: int
    read_only: bool
    compensation: bool
    no_rollback: str | None
    mitigation: bool
    probe: bool
    before: bool
    reread: bool
    idempotent: bool
    atomic: bool
    risk: list[str]
    timeout: float | None
    retries: int | DeclaredRetries
    compensation_timeout: float
    compensation_retries: int | DeclaredRetries
    on_incident: Literal["stop", "go_on"]
    hold: bool
    resources: list[str]
    lock_wait: float | None
    sourced: dict[str, list[str]]
    does: str
    undoes: str
    tool: str


_CLAUSES: Final = (
    "version", "read_only", "no_rollback", "idempotent", "atomic", "risk", "timeout", "compensation_timeout",
    "on_incident", "hold", "resources", "lock_wait",
)  # fmt: skip
_LONGEST: Final = 400


def contract_of(declared: DeclaredContract) -> Contract:
    """Raises DeclarationError, TopicError or InputError for a contract that `@action` would not make."""
    _check(declared)
    topic, said = declared["topic"], cast("dict[str, Any]", declared)
    if topic.startswith(BUILT_IN) and not (topic.startswith(ASSERTION) and declared.get("read_only", False)):
        raise InputError(f"{topic}: topics that begin with {BUILT_IN} are the runtime's own; give the action another")
    clauses: dict[str, Any] = {name: said[name] for name in _CLAUSES if name in said}
    for name in ("retries", "compensation_retries"):
        if name in said:
            clauses[name] = _retries(said[name])
    contract = checked_contract(topic, **clauses)
    reversibility = contract.reversibility
    if declared.get("compensation", False):
        if reversibility is not Reversibility.UNDECLARED:
            raise DeclarationError(f"{topic}: a compensation is for what changes something, and can be taken back")
        reversibility = Reversibility.COMPENSATABLE
    if declared.get("mitigation", False) and reversibility is not Reversibility.IRREVERSIBLE:
        raise DeclarationError(f"{topic}: a mitigation is for what cannot be taken back; say why with no_rollback")
    words = {name: declared.get(name, "") for name in ("does", "undoes", "tool")}
    for name, text in words.items():
        if len(cast("str", text)) > _LONGEST:
            raise InputError(f"{topic}: {name} is longer than {_LONGEST} characters")
    return replace(
        contract,
        reversibility=reversibility,
        mitigation=declared.get("mitigation", False),
        probe=declared.get("probe", False),
        before=declared.get("before", False),
        reread=declared.get("reread", False) and declared.get("compensation", False),
        resources=listed(topic, clauses.get("resources", ())),
        **cast("dict[str, Any]", words),
    )


def _check(declared: Mapping[str, object]) -> None:
    """Raises InputError for what is no contract: it comes from elsewhere, and may be anything that JSON has."""
    if not isinstance(cast("object", declared), dict) or not isinstance(declared.get("topic"), str):
        raise InputError("a contract has no topic; it is the action's public name, such as payments.charge")
    whose = f"the contract of {str(declared['topic'])[:128]}"
    for name, value in declared.items():
        if name not in {"retries", "compensation_retries"}:
            _check_each(whose, {name: value}, DeclaredContract)
        elif isinstance(value, dict):
            _check_each(f"{whose}: {name}", cast("dict[str, object]", value), DeclaredRetries)
            if "attempts" not in value:
                raise InputError(f"{whose}: {name} has no attempts")
        else:
            _check_each(whose, {name: value}, _WholeRetries)


class _WholeRetries(TypedDict):
    retries: int
    compensation_retries: int


def _check_each(whose: str, found: Mapping[str, object], form: type) -> None:
    kinds = _kinds(form)
    for name, value in found.items():
        if name not in kinds:
            right = nearest(name, list(kinds))
            raise InputError(f"{whose} has {name[:80]!r}; {f'did you mean {right}?' if right else 'leave that out'}")
        try:
            kinds[name].load(value)
        except MisfitError as exc:
            raise exc.said_of(f"{whose}: {name}") from None


@cache
def _kinds(form: type) -> Mapping[str, Kind]:
    return {name: Kinds().of(hint) for name, hint in get_type_hints(form).items()}


def _retries(said: int | DeclaredRetries) -> Retries:
    return Retries(attempts=said) if isinstance(said, int) else Retries(**said)


def declared(action: Action[..., Any]) -> DeclaredContract:
    """The contract of an action of this process, for a server."""
    contract, parts = action.contract, action.parts
    if parts.on_files:
        raise InputError(
            f"{action.topic} works on files, which stay with the process that has the journal; run it there"
        )
    return {
        "topic": contract.topic,
        "version": contract.version,
        "read_only": not contract.side_effect,
        "compensation": contract.reversibility is Reversibility.COMPENSATABLE,
        "no_rollback": contract.no_rollback,
        "mitigation": contract.mitigation,
        "probe": contract.probe,
        "before": contract.before,
        "reread": contract.reread,
        "idempotent": contract.idempotent,
        "atomic": contract.atomic,
        "risk": list(contract.risk),
        "timeout": contract.timeout_s,
        "retries": _spelled(contract.retries),
        "compensation_timeout": contract.undo_timeout_s,
        "compensation_retries": _spelled(contract.undo_retries),
        "on_incident": contract.on_incident.value,
        "hold": contract.hold,
        "resources": list(contract.resources),
        "lock_wait": contract.lock_wait_s,
        "sourced": {name: list(topics) for name, topics in parts.sourced.items()},
        "does": contract.does,
        "undoes": contract.undoes,
        "tool": contract.tool,
    }


def _spelled(retries: Retries) -> DeclaredRetries:
    return {"attempts": retries.attempts, "first_s": retries.first_s, "cap_s": retries.cap_s}


def sources(declared: DeclaredContract) -> Mapping[str, tuple[str, ...]]:
    """The arguments that may not be made up, with the topics that each has to come from."""
    return {name: tuple(topics) for name, topics in declared.get("sourced", {}).items()}
