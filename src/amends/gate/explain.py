"""Why a verdict is as it is: for each rule, whether it matched, and else the first condition that stood against it."""

from __future__ import annotations

from typing import Final

from amends.core.words.values import Json, canonical
from amends.core.words.verdict import Decision
from amends.dataclass import dataclass
from amends.gate.conditions import Condition, Holds
from amends.gate.facts import Facts
from amends.gate.policy import Policy, Rule, exempted, strictness
from amends.gate.vocabulary import UNSEEN, as_json

MISSING: Final = "missing"
SECRET: Final = "a secret"  # noqa: S105 - a word for people, not a password


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """One rule, heard. `holds` is None where something it asks for cannot be told.

    Where it did not match, `condition` is the first one against it and `saw` what that one saw; an `exempt` rule has
    all its conditions, and an `unless` that takes it out.
    """

    rule: Rule
    holds: Holds
    matched: bool
    condition: Condition | None = None
    saw: Json = None
    exempt: bool = False
    in_doubt: tuple[str, ...] = ()


def heard(policy: Policy, facts: Facts) -> tuple[Heard, ...]:
    """Each rule of the file, in its order; then those that judge what it leaves open, where it does."""
    rules = tuple(_heard(rule, facts) for rule in policy.rules)
    certain = any(each.matched and each.holds for each in rules)
    return rules if certain else (*rules, *(_heard(rule, facts) for rule in policy.fallback))


def _heard(rule: Rule, facts: Facts) -> Heard:
    holds = rule.holds(facts)
    matched = rule.matches(holds)
    doubts = tuple(each.fact for each in _all_conditions(rule) if each.holds(facts) is None)
    if matched:
        return Heard(rule=rule, holds=holds, matched=True, in_doubt=doubts)
    allows = rule.decision is Decision.ALLOW
    against = next((each for each in rule.when if _stands_against(each.holds(facts), allows=allows)), None)
    exempt = against is None
    named = _exemption(rule, facts) if against is None else against
    saw = spelled_value(named.read(facts))
    return Heard(rule=rule, holds=holds, matched=False, condition=named, saw=saw, exempt=exempt, in_doubt=doubts)


def _all_conditions(rule: Rule) -> tuple[Condition, ...]:
    return (*rule.when, *(each for exemption in rule.unless for each in exemption))


def _stands_against(holds: Holds, *, allows: bool) -> bool:
    return holds is not True if allows else holds is False


def _exemption(rule: Rule, facts: Facts) -> Condition:
    """The first condition of the first `unless` that takes a rule out."""
    return next(each[0] for each in rule.unless if not rule.matches(exempted(holds=True, unless=(each,), facts=facts)))


def spelled_value(value: object) -> Json:
    """The value that a condition saw, in a form that can be printed."""
    if value is None:
        return MISSING
    if value is UNSEEN:
        return SECRET
    return as_json(value)


def never_speaking(policy: Policy) -> tuple[tuple[Rule, Rule], ...]:
    """Rules without any effect, each with the one that always matches where it does and says more.

    Found by comparing conditions word by word: what is named has no effect, and not all that has none is named.
    """
    asked = [frozenset((each.fact, canonical(dict(each.wants))) for each in rule.when) for rule in policy.rules]
    found: list[tuple[Rule, Rule]] = []
    for place, rule in enumerate(policy.rules):
        for other_place, other in enumerate(policy.rules):
            if (
                place != other_place
                and _silences(other, rule, earlier=other_place < place)
                and asked[other_place] <= asked[place]
            ):
                found.append((rule, other))
                break
    return tuple(found)


def _silences(other: Rule, rule: Rule, *, earlier: bool) -> bool:
    """Whether `other`, where it matches too, leaves `rule` nothing to say. Only a deny takes needs and rates away."""
    if other.unless or (other.decision is not Decision.DENY and rule.decision is not Decision.ALLOW):
        return False
    stricter = strictness(other.decision) - strictness(rule.decision)
    return stricter > 0 or (stricter == 0 and earlier)
