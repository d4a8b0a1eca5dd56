"""Conditions: what a rule asks of one fact, in three values.

A condition holds (True), does not (False), or cannot be told (None): the fact is missing, a secret, or of another kind
than the condition speaks of. Joined, these follow Kleene: one that does not hold settles a conjunction, and else one
that cannot be told leaves it open. What an open condition means is the rule's business, not the condition's.
Only `exists` always has an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from operator import ge, gt, le, lt
from typing import Any, Final, TypeAlias, cast

from amends.core.words.globs import glob, is_glob
from amends.core.words.values import Json, canonical
from amends.dataclass import dataclass
from amends.gate.facts import Facts
from amends.gate.vocabulary import Fact, Read, ValueKind

Holds: TypeAlias = bool | None
Match: TypeAlias = Callable[[object], Holds]
Word: TypeAlias = str | int | float | bool

COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {"gt": gt, "gte": ge, "lt": lt, "lte": le}
OPERATORS: Final = (*COMPARISONS, "in", "not_in", "exists")
_NUMBERS: Final = (int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """`wants` has each operator with its operand; a plain value or a list of them is spelled `in`."""

    fact: str
    wants: Mapping[str, Json]
    read: Read = field(repr=False, compare=False)
    match: Match = field(repr=False, compare=False)

    def holds(self, facts: Facts) -> Holds:
        return self.match(self.read(facts))

    def __str__(self) -> str:
        return f"{self.fact} {' and '.join(_spelled(name, operand) for name, operand in self.wants.items())}"


def _spelled(name: str, operand: Json) -> str:
    if isinstance(operand, list):
        words = " or ".join(word if isinstance(word, str) else canonical(word) for word in operand)
        return words if name == "in" else f"not {words}"
    return ("exists" if operand else "does not exist") if name == "exists" else f"{name} {canonical(operand)}"


def condition(fact: Fact, wants: Mapping[str, Json]) -> Condition:
    """Compile a condition whose operands have been checked."""
    matches = [_operator(name, operand, fact) for name, operand in wants.items()]
    match = matches[0] if len(matches) == 1 else _all(matches)
    return Condition(fact=fact.name, wants=wants, read=fact.read, match=match)


def conjunction(conditions: Iterable[Condition], facts: Facts) -> Holds:
    holds: Holds = True
    for each in conditions:
        found = each.match(each.read(facts))
        if found is False:
            return False
        if found is None:
            holds = None
    return holds


def negation(holds: Holds) -> Holds:
    return None if holds is None else not holds


def is_number(value: object) -> bool:
    """A number that can be compared: no boolean, which Python counts as one, and not NaN."""
    return type(value) in _NUMBERS and value == value  # noqa: PLR0124 - only NaN differs from itself


# -- operators --------------------------------------------------------------------------------------------------------


def _operator(name: str, operand: Json, fact: Fact) -> Match:
    if name in COMPARISONS:
        return _compared(COMPARISONS[name], cast("float", operand))
    if name == "exists":
        return _exists if operand else _is_absent
    member = _member(cast("list[Word]", operand), dotted=fact.dotted)
    if fact.kind is ValueKind.TAGS:
        member = _any_tag(member)
    elif fact.counted is not None:
        member = _any_spelling(member)
    return member if name == "in" else lambda value: negation(member(value))


def _compared(compare: Callable[[float, float], bool], bound: float) -> Match:
    def match(value: Any) -> Holds:  # noqa: ANN401 - told by its type; a `cast` would be a call more, and so `is_number`
        return compare(value, bound) if type(value) in _NUMBERS and value == value else None  # noqa: PLR0124 - as there

    return match


def _exists(value: object) -> bool:
    return value is not None and value != ()


def _is_absent(value: object) -> bool:
    return not _exists(value)


def _member(words: list[Word], *, dotted: bool) -> Match:
    """Whether a value is one of these; None where none of them is of its kind."""
    texts = [word for word in words if isinstance(word, str)]
    if len(texts) == len(words):
        return _text(texts, dotted=dotted)
    flags = {word for word in words if isinstance(word, bool)}
    numbers = {word for word in words if is_number(word)}
    text = _text(texts, dotted=dotted)

    def match(value: object) -> Holds:
        if isinstance(value, str):
            return text(value)
        if isinstance(value, bool):
            return value in flags if flags else None
        return value in numbers if numbers and is_number(value) else None

    return match


def _text(texts: list[str], *, dotted: bool) -> Match:
    exact = frozenset(text for text in texts if not is_glob(text))
    globs = tuple(glob(text, dotted=dotted) for text in texts if text not in exact)

    def is_exact(value: object) -> Holds:
        return value in exact if isinstance(value, str) else None

    def is_like(value: object) -> Holds:
        return globs[0](value) if isinstance(value, str) else None

    def is_either(value: object) -> Holds:
        return value in exact or any(like(value) for like in globs) if isinstance(value, str) else None

    if not texts:
        return _untold
    if exact and not globs:
        return is_exact
    return is_like if len(texts) == 1 else is_either


def _untold(_: object) -> Holds:
    return None


def _any_tag(member: Match) -> Match:
    def match(tags: object) -> Holds:
        return any(map(member, cast("tuple[str, ...]", tags))) if isinstance(tags, tuple) else None

    return match


def _any_spelling(member: Match) -> Match:
    """One value that goes by several names: what is said of one of them is said of it."""

    def match(value: object) -> Holds:
        return any(map(member, cast("tuple[str, ...]", value))) if isinstance(value, tuple) else member(value)

    return match


def _all(matches: list[Match]) -> Match:
    def match(value: object) -> Holds:
        holds: Holds = True
        for each in matches:
            found = each(value)
            if found is False:
                return False
            if found is None:
                holds = None
        return holds

    return match
