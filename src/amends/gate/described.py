"""Facts that a person describes, by the names that rules use: for trying a policy without a saga.

What is not said is as in a plain beginning: environment `development`, actor `person:somebody`, an action that has a
side effect and declares nothing, first step, going forward, no arguments, no labels, no approval, never drilled, never
taken back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, cast

from amends.core.words.contracts import Contract, Reversibility, Topic
from amends.core.words.values import Json, SagaId, StepId
from amends.errors import InputError
from amends.gate.conditions import is_number
from amends.gate.facts import Facts
from amends.gate.vocabulary import FACTS, FAMILIES, ValueKind, fact_named
from amends.source.marked import nearest

_GROUPS: Final = ("args", "labels", "saga", "drill")
_DERIVED: Final = ("compensation_declared", "rollback_supported")


def described_facts(document: Mapping[str, Json]) -> Facts:
    """The facts that a document describes: flat (`args.cents: 5`), nested (`args: {cents: 5}`), or both.

    Raises InputError for a name that is no fact, a value of the wrong kind, or facts that contradict each other.
    """
    flat: dict[str, Json] = {}
    args: dict[str, Json] = {}
    for name, value in _flattened(document, ""):
        if name == "args":
            args |= _all_args(value)
        elif name.startswith("args."):
            _set(args, name.split(".")[1:], value, name)
        elif value is not None:
            flat[name] = _checked(name, value)
    labels = _family("labels.", flat)
    labels |= {"tenant": tenant} if isinstance(tenant := flat.get("tenant"), str) else {}
    facts = Facts(
        env=_text(flat, "env", "development"),
        actor=_text(flat, "actor", "person:somebody"),
        saga=SagaId("described"),
        definition=_text(flat, "saga.definition", "described"),
        step=StepId("1"),
        contract=_contract(flat),
        args=args,
        phase="compensation" if flat.get("phase") == "compensation" else "forward",
        labels=cast("dict[str, str]", labels),
        steps=cast("int", flat.get("saga.steps", 0)),
        spent=cast("dict[str, float]", _family("saga.spent.", flat)),
        approval_present=bool(flat.get("approval_present", False)),
        drill_age_days=cast("float | None", flat.get("drill.age_days")),
        drill_whole_age_days=cast("float | None", flat.get("drill.whole_age_days")),
        drill_result=cast("str | None", flat.get("drill.result")),
        compensation_failures=cast("float | None", flat.get("compensation_failures")),
    )
    _agree(flat, facts)
    return facts


def _flattened(document: Mapping[str, Json], prefix: str) -> Iterator[tuple[str, Json]]:
    for key, value in document.items():
        name = prefix + key
        is_group = name in _GROUPS or f"{name}." in FAMILIES
        if is_group and name != "args" and isinstance(value, dict):
            yield from _flattened(value, f"{name}.")
        else:
            yield name, value


def _all_args(value: Json) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise InputError("args is a map of the arguments by name")
    return value


def _set(args: dict[str, Json], path: list[str], value: Json, name: str) -> None:
    into = args
    for part in path[:-1]:
        inner = into.setdefault(part, {})
        if not isinstance(inner, dict):
            raise InputError(f"{name} goes into {part}, which is given as a value")
        into = inner
    into[path[-1]] = value


def _checked(name: str, value: Json) -> Json:
    fact = fact_named(name)
    if fact is None:
        right = nearest(name, FACTS)
        raise InputError(
            f"there is no fact {name!r}; " + (f"did you mean {right}?" if right else f"an argument is args.{name}")
        )
    fits = {
        ValueKind.FLAG: isinstance(value, bool),
        ValueKind.NUMBER: is_number(value),
        ValueKind.TAGS: isinstance(value, list) and all(isinstance(tag, str) for tag in value),
    }.get(fact.kind, isinstance(value, str))
    if not fits:
        raise InputError(f"{name} is {fact.kind}, not {value!r}{' in a list' * (fact.kind is ValueKind.TAGS)}")
    if fact.words and value not in fact.words:
        raise InputError(f"{name} is {' or '.join(fact.words)}, not {value!r}")
    return value


def _text(flat: Mapping[str, Json], name: str, default: str) -> str:
    return str(flat.get(name, default))


def _family(prefix: str, flat: Mapping[str, Json]) -> dict[str, Json]:
    return {name.removeprefix(prefix): value for name, value in flat.items() if name.startswith(prefix)}


def _contract(flat: Mapping[str, Json]) -> Contract:
    declared = any(flat.get(name) for name in _DERIVED)
    only_mitigated = flat.get("compensation_declared") is True and flat.get("rollback_supported") is False
    derived = Reversibility.COMPENSATABLE if declared else Reversibility.UNDECLARED
    kind = flat.get("reversibility", Reversibility.IRREVERSIBLE if only_mitigated else derived)
    return Contract(
        topic=Topic(_text(flat, "topic", "described")),
        side_effect=bool(flat.get("side_effect", True)),
        reversibility=Reversibility(str(kind)),
        idempotent=bool(flat.get("idempotent", False)),
        probe=bool(flat.get("probe", False)),
        mitigation=kind == Reversibility.IRREVERSIBLE and bool(flat.get("compensation_declared")),
        risk=tuple(sorted(cast("list[str]", flat.get("risk", [])))),
    )


def _agree(flat: Mapping[str, Json], facts: Facts) -> None:
    for name in _DERIVED:
        follows = FACTS[name].read(facts)
        if name in flat and flat[name] is not follows:
            contract = facts.contract
            raise InputError(
                f"{name} cannot be {str(flat[name]).lower()} with reversibility {contract.reversibility} "
                f"and side_effect {str(contract.side_effect).lower()}: it is {str(follows).lower()} then"
            )
