"""A dry run: how each step of a definition would be judged by the policy in force, and what could not be taken back.

What depends on earlier results is missing from the facts. A rule that asks for it is left open and named: whether it
matches is decided when the value is known. All other rules are heard as the gate hears them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from amends.core.words.contracts import Contract, Reversibility
from amends.core.words.values import Json, StepId
from amends.core.words.verdict import Decision, Rate, Verdict
from amends.dataclass import dataclass
from amends.gate.conditions import conjunction
from amends.gate.facts import Facts
from amends.gate.policy import Policy, Rule, spoken
from amends.runtime.declare.action import Action
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.declare.outline import Outlined, known, shown, unknown

_ARGS: Final = "args."
_LETS_RUN: Final = frozenset({Decision.ALLOW, Decision.THROTTLE})


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRule:
    """A rule that is decided when these facts are known."""

    rule: str
    decision: Decision
    line: int
    facts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One step with its verdict, as far as that is known. `line` is of the rule that speaks; 0 where it has none."""

    step: Outlined
    args: Json
    verdict: Verdict
    line: int
    open: tuple[OpenRule, ...]
    is_pivot: bool
    missing: tuple[str, ...]

    @property
    def contract(self) -> Contract:
        return self.step.action.contract

    @property
    def may_ask(self) -> bool:
        """Whether people are asked, or may be."""
        asks = Decision.REQUIRE_HUMAN
        return self.verdict.decision is asks or any(one.decision is asks for one in self.open)


def outline_of(definition: SagaDefinition, named: Mapping[str, Any]) -> tuple[Outlined, ...] | None:
    """The steps that a definition would take with this input, those included by which its files land; None where it is
    a function, which decides them as it runs.
    """
    steps = definition.outline(named)
    return steps if steps is None or not definition.lands else (*steps, *_landing(steps))


def _landing(steps: Sequence[Outlined]) -> tuple[Outlined, ...]:
    """The steps by which the files of a saga land, after all others."""
    from amends.runtime.files.landing import land, review

    turn = 1 + max((one.turn for one in steps), default=0)
    after = tuple(one.label for one in steps if one.turn == turn - 1 and not one.recovers)
    looked = Outlined(label="review", action=cast("Action[..., Any]", review), args={}, turn=turn, after=after)
    lands = cast("Action[..., Any]", land)
    return looked, Outlined(label="land", action=lands, args={}, turn=turn + 1, after=("review",), open_args=True)


def planned(steps: Sequence[Outlined], policy: Policy, facts_of: Callable[[Contract], Facts]) -> tuple[Planned, ...]:
    """The steps, judged. `facts_of` gives what is known of any step of the saga, but its arguments."""
    found: list[Planned] = []
    has_pivot = False
    for before, step in enumerate(steps):
        contract = step.action.contract
        facts = replace(
            facts_of(contract),
            step=StepId(step.label),
            args=known(dict(step.args)),
            steps=before if step.turn else 0,
        )
        later = ("",) if step.open_args else tuple(unknown(dict(step.args)))
        verdict, line, open_rules = _judged(policy, facts, later)
        pivots = _is_irreversible(contract) and not contract.hold and bool(step.turn) and not step.recovers
        found.append(
            Planned(
                step=step,
                args=shown(dict(step.args)),
                verdict=verdict,
                line=line,
                open=open_rules,
                is_pivot=pivots and not has_pivot,
                missing=(*_missing(contract), *_kept_back(policy, facts, later, contract)),
            )
        )
        has_pivot = has_pivot or pivots
    return tuple(found)


def _judged(policy: Policy, facts: Facts, later: Sequence[str]) -> tuple[Verdict, int, tuple[OpenRule, ...]]:
    matched, open_rules, certain = _heard(policy.rules, facts, later)
    if not certain:
        more, more_open, _ = _heard(policy.fallback, facts, later)
        matched, open_rules = matched + more, open_rules + more_open
    verdict = spoken(policy.digest, matched)
    if verdict.decision is not Decision.DENY:
        verdict = replace(verdict, rates=_rates(matched, facts))
    line = next((rule.line for rule in policy.rules if rule.id == verdict.rule), 0)
    return verdict, line, tuple(open_rules)


def _rates(matched: Iterable[Rule], facts: Facts) -> tuple[Rate, ...]:
    return tuple(rule.limit.rate(rule.id, facts) for rule in matched if rule.limit is not None)


def _heard(rules: Iterable[Rule], facts: Facts, later: Sequence[str]) -> tuple[list[Rule], list[OpenRule], bool]:
    """The rules that match whatever comes, those that are open, and whether one certainly matches."""
    matched, open_rules, certain = list[Rule](), list[OpenRule](), False
    for rule in rules:
        asked = tuple(sorted(fact for fact in _conditions(rule) if _is_about(fact, later)))
        if asked:
            if _may_hold(rule, facts, later):
                open_rules.append(OpenRule(rule=rule.id, decision=rule.decision, line=rule.line, facts=asked))
            continue
        holds = rule.holds(facts)
        if rule.matches(holds):
            matched.append(rule)
            certain = certain or holds is True
    return matched, open_rules, certain


def _conditions(rule: Rule) -> set[str]:
    return {each.fact for each in (*rule.when, *(one for exemption in rule.unless for one in exemption))}


def _is_about(fact: str, later: Sequence[str]) -> bool:
    """Whether a fact is, lies in, or holds what is not known yet."""
    if not fact.startswith(_ARGS):
        return False
    path = fact.removeprefix(_ARGS)
    return any(not one or f"{path}.".startswith(f"{one}.") or f"{one}.".startswith(f"{path}.") for one in later)


def _may_hold(rule: Rule, facts: Facts, later: Sequence[str]) -> bool:
    """Whether what is known of a rule leaves it open."""
    if conjunction((each for each in rule.when if not _is_about(each.fact, later)), facts) is False:
        return False
    settled = (each for each in rule.unless if not any(_is_about(one.fact, later) for one in each))
    return not any(conjunction(each, facts) is True for each in settled)


# -- what could not be taken back -------------------------------------------------------------------------------------


def _is_irreversible(contract: Contract) -> bool:
    return contract.side_effect and contract.reversibility is Reversibility.IRREVERSIBLE


def _missing(contract: Contract) -> list[str]:
    """Clauses that a contract lacks and a failure would ask for."""
    if not contract.side_effect:
        return []
    found: list[str] = []
    if contract.reversibility is Reversibility.UNDECLARED:
        found.append("no compensation is declared, and no reason why there is none")
    if not (contract.probe or contract.idempotent or contract.atomic):
        found.append("no probe, and it may not be repeated: where its end is not seen, nobody can tell what happened")
    return found


def _kept_back(policy: Policy, facts: Facts, later: Sequence[str], contract: Contract) -> list[str]:
    """That the gate would not let its compensation run, which is an incident."""
    if not contract.rollback_supported:
        return []
    verdict, _, _ = _judged(policy, replace(facts, phase="compensation"), later)
    if verdict.decision in _LETS_RUN:
        return []
    return [f"its compensation would not run by itself: {verdict.decision} by {verdict.rule}"]
