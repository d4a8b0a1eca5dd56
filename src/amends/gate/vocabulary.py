"""The facts that a policy can speak of: each by its name, its kind, and how it is read.

A fact that is not there reads as None, and so does a null: nothing was given. A secret reads as UNSEEN: it is there,
and no condition on its value can be told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from operator import attrgetter
from typing import Final, cast

from amends.core.words.contracts import Reversibility
from amends.core.words.values import SECRET_MARK, Json
from amends.dataclass import dataclass
from amends.gate.facts import Facts

Read = Callable[[Facts], object]

UNSEEN: Final = object()
DRILL_RESULTS: Final = ("passed", "not proven", "failed")
_LONGEST_INDEX: Final = 9


class ValueKind(StrEnum):
    """The kind of value that a fact holds, as an error message says it."""

    TEXT = "text"
    FLAG = "true or false"
    NUMBER = "a number"
    TAGS = "tags"
    ANY = "any value"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """`words` are all the values that it can have, where these are few; a `dotted` name has segments."""

    name: str
    kind: ValueKind
    read: Read
    words: tuple[str, ...] = ()
    dotted: bool = False
    counted: Read | None = None
    """What a rate counts by, where that is not all that is read."""


def _env(facts: Facts) -> object:
    """The environment; with the word that was given, where that is another: a rule may speak of either."""
    return (facts.env, facts.env_given) if facts.env_given else facts.env


def _listed(*facts: Fact) -> Mapping[str, Fact]:
    return {fact.name: fact for fact in facts}


FACTS: Final = _listed(
    Fact(name="env", kind=ValueKind.TEXT, read=_env, counted=attrgetter("env")),
    Fact(name="topic", kind=ValueKind.TEXT, read=attrgetter("contract.topic"), dotted=True),
    Fact(name="side_effect", kind=ValueKind.FLAG, read=attrgetter("contract.side_effect")),
    Fact(
        name="reversibility",
        kind=ValueKind.TEXT,
        read=attrgetter("contract.reversibility"),
        words=tuple(map(str, Reversibility)),
    ),
    Fact(name="compensation_declared", kind=ValueKind.FLAG, read=attrgetter("contract.compensation_declared")),
    Fact(name="rollback_supported", kind=ValueKind.FLAG, read=attrgetter("contract.rollback_supported")),
    Fact(name="approval_present", kind=ValueKind.FLAG, read=attrgetter("approval_present")),
    Fact(name="probe", kind=ValueKind.FLAG, read=attrgetter("contract.probe")),
    Fact(name="idempotent", kind=ValueKind.FLAG, read=attrgetter("contract.idempotent")),
    Fact(name="risk", kind=ValueKind.TAGS, read=attrgetter("contract.risk")),
    Fact(name="actor", kind=ValueKind.TEXT, read=attrgetter("actor")),
    Fact(name="tenant", kind=ValueKind.TEXT, read=attrgetter("tenant")),
    Fact(name="saga.definition", kind=ValueKind.TEXT, read=attrgetter("definition"), dotted=True),
    Fact(name="saga.steps", kind=ValueKind.NUMBER, read=attrgetter("steps")),
    Fact(name="drill.age_days", kind=ValueKind.NUMBER, read=attrgetter("drill_age_days")),
    Fact(name="drill.whole_age_days", kind=ValueKind.NUMBER, read=attrgetter("drill_whole_age_days")),
    Fact(name="drill.result", kind=ValueKind.TEXT, read=attrgetter("drill_result"), words=DRILL_RESULTS),
    Fact(name="compensation_failures", kind=ValueKind.NUMBER, read=attrgetter("compensation_failures")),
    Fact(name="phase", kind=ValueKind.TEXT, read=attrgetter("phase"), words=("forward", "compensation")),
)
FAMILIES: Final = ("args.", "labels.", "saga.spent.")
PLACE: Final = frozenset({"topic", "env", "phase"})
ACTOR: Final = frozenset({"actor"})
"""Facts that are always there and have few values in one process: rules are indexed by them."""


OF_ACTION: Final = frozenset(
    {"side_effect", "reversibility", "compensation_declared", "rollback_supported", "probe", "idempotent", "risk"}
)
"""Facts that a contract says: the same for every step of its action."""


def fact_named(name: str) -> Fact | None:
    """The fact of this name; None where there is none."""
    known = FACTS.get(name)
    if known is not None:
        return known
    family = next((family for family in FAMILIES if name.startswith(family)), None)
    rest = name.removeprefix(family or name)
    if family == "args." and all(part and part != SECRET_MARK for part in rest.split(".")):
        return Fact(name=name, kind=ValueKind.ANY, read=_argument(rest))
    if family == "labels." and rest:
        return Fact(name=name, kind=ValueKind.TEXT, read=lambda facts: facts.labels.get(rest))
    if family == "saga.spent." and rest:
        # The journal has all that was spent, so what is not on record was not spent.
        return Fact(name=name, kind=ValueKind.NUMBER, read=lambda facts: facts.spent.get(rest, 0))
    return None


def _argument(path: str) -> Read:
    """An argument by its path: keys of maps and numbers of list items, from 0."""
    parts = [(part, int(part) if _is_index(part) else None) for part in path.split(".")]

    def read(facts: Facts) -> object:
        value: object = facts.args
        for part, index in parts:
            if isinstance(value, dict):
                value = value.get(part)
            elif isinstance(value, list) and index is not None and index < len(value):
                value = value[index]
            else:
                return None
        return UNSEEN if isinstance(value, dict) and SECRET_MARK in value else value

    return read


def _is_index(part: str) -> bool:
    return part.isascii() and part.isdecimal() and len(part) <= _LONGEST_INDEX and str(int(part)) == part


def as_json(value: object) -> Json:
    """A value that was read, as JSON: tags are a list, and what cannot be seen is nothing."""
    if value is UNSEEN:
        return None
    if isinstance(value, tuple):
        return [str(tag) for tag in cast("tuple[str, ...]", value)]
    return str(value) if isinstance(value, StrEnum) else cast("Json", value)
