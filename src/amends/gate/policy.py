"""A policy and its judgement: `judge(policy, facts) -> Verdict`. Pure; what it remembers only makes it faster.

A rule holds, does not, or cannot be told (see `conditions`): all of its `when`, and none of its `unless`. A rule that
restricts (deny, require_human, throttle) matches unless it certainly does not hold; one that allows matches only if it
certainly does. So nothing that is missing, secret or of the wrong type ever makes a rule lenient.

The strictest matching rule speaks, the first in the file among equals. Where no rule certainly matches, the default
counts too: a rule that matches only for lack of knowledge can make a verdict stricter than the default, never milder.

The law that follows, and that the tests hold: take any fact away from a judgement whose policy has no `exists`, and the
verdict is as strict as before, or stricter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from json.encoder import encode_basestring as quote
from typing import Final, TypeAlias, TypeVar

from amends.core.events import SagaStarted
from amends.core.words.contracts import Contract
from amends.core.words.values import canonical, digest
from amends.core.words.verdict import Decision, Need, Rate, Verdict
from amends.dataclass import dataclass
from amends.gate.conditions import Condition, Holds, Match, conjunction, negation
from amends.gate.environments import Declared
from amends.gate.facts import Facts
from amends.gate.vocabulary import ACTOR, OF_ACTION, PLACE, Fact, Read, as_json
from amends.source.marked import DAY_S

_K = TypeVar("_K")
_V = TypeVar("_V")
DEFAULT: Final = "default"
ERROR: Final = "error"
_STRICTNESS: Final = {decision: place for place, decision in enumerate(Decision)}
_REMEMBERED: Final = 4096
_LONGEST_KEY: Final = 200
_LONGEST_WHY: Final = 300


def strictness(decision: Decision) -> int:
    """Comparable: deny is the highest."""
    return _STRICTNESS[decision]


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """At most `most` dispatches in any `per_s` seconds, counted apart for each combination of the facts in `by`."""

    most: int
    per_s: float
    by: tuple[Fact, ...] = ()

    def rate(self, rule: str, facts: Facts) -> Rate:
        """The rate that one judgement has to keep. What is missing or secret shares one count: no way around it."""
        key = ",".join([rule, *[f"{fact.name}={_spelled((fact.counted or fact.read)(facts))}" for fact in self.by]])
        if len(key) > _LONGEST_KEY:
            key = f"{rule},{digest(key)}"
        return Rate(rule=rule, key=key, most=self.most, per_s=self.per_s)


def _spelled(value: object) -> str:
    """A value as it stands in a rate's key; mostly it is a short text, which needs no look at what it holds."""
    return quote(value) if type(value) is str and len(value) <= _LONGEST_KEY else canonical(as_json(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One entry of a policy. `when` is joined by and; any one of the conjunctions in `unless` exempts."""

    id: str
    decision: Decision
    when: tuple[Condition, ...] = ()
    unless: tuple[tuple[Condition, ...], ...] = ()
    reason: str = ""
    approvals: int = 1
    proof: str = ""
    approvers: tuple[str, ...] = ()
    expires_s: float = DAY_S
    limit: RateLimit | None = None
    line: int = 0

    @property
    def mentioned(self) -> frozenset[str]:
        """The names of the facts that it asks about."""
        exempting = (each for exemption in self.unless for each in exemption)
        counted = () if self.limit is None else self.limit.by
        return frozenset([*(each.fact for each in (*self.when, *exempting)), *(fact.name for fact in counted)])

    def holds(self, facts: Facts) -> Holds:
        return exempted(conjunction(self.when, facts), self.unless, facts)

    def matches(self, holds: Holds) -> bool:
        """Whether this rule matches, given an answer: doubt counts against whoever wants to act."""
        return holds is True if self.decision is Decision.ALLOW else holds is not False


def exempted(holds: Holds, unless: Sequence[Iterable[Condition]], facts: Facts) -> Holds:
    """A rule's answer, once its exemptions are heard."""
    for exemption in unless:
        if holds is False:
            return False
        kept = negation(conjunction(exemption, facts))
        holds = holds if kept is True else kept
    return holds


_Place: TypeAlias = tuple[str, str, str, str]
_Kept: TypeAlias = tuple[int, str, str, str, bool]
_KEPT_BY: Final = PLACE | ACTOR | OF_ACTION
_Tests: TypeAlias = tuple[tuple[Read, Match], ...]
_Exemptions: TypeAlias = tuple[_Tests, ...]
_Candidates: TypeAlias = tuple[tuple[Rule, _Tests, _Exemptions], ...]


class Index:
    """The rules that can match a topic in an environment and a phase, for an actor, with what is left to ask of each.

    Each combination is worked out when it first comes, and kept; first without the actor, of whom there may be many.
    """

    __slots__ = ("_by_actor", "_by_place", "_rules")

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self._rules = tuple((rule, _about(PLACE, rule), _about(ACTOR, rule), _tests(rule)) for rule in rules)
        self._by_place: dict[_Place, tuple[tuple[Rule, tuple[Condition, ...], _Tests], ...]] = {}
        self._by_actor: dict[tuple[_Place, str], _Candidates] = {}

    def matching(self, facts: Facts) -> tuple[list[Rule], bool]:
        """The rules that match, in the order of the file, and whether one of them certainly does."""
        key = ((facts.contract.topic, facts.env, facts.env_given, facts.phase), facts.actor)
        candidates = self._by_actor.get(key)
        if candidates is None:
            candidates = self._settle(key, facts)
        matched: list[Rule] = []
        certain = False
        for rule, tests, exemptions in candidates:  # a thousand times in one judgement: no calls but what is asked
            holds: Holds = True
            for read, match in tests:
                found = match(read(facts))
                if found is not True:
                    holds = found
                    if found is False:
                        break
            for exemption in exemptions:  # as `exempted` says it
                if holds is False:
                    break
                kept: Holds = True
                for read, match in exemption:
                    found = match(read(facts))
                    if found is not True:
                        kept = found
                        if found is False:
                            break
                if kept is not False:
                    holds = None if kept is None else False
            if holds or (holds is None and rule.decision is not Decision.ALLOW):
                matched.append(rule)
                certain = certain or holds is True
        return matched, certain

    def is_settled(self, facts: Facts) -> bool:
        """Whether every further judgement of this contract, in this place and for this actor, matches the same rules:
        none asks for more than that, none has exemptions, and none counts.
        """
        key = ((facts.contract.topic, facts.env, facts.env_given, facts.phase), facts.actor)
        candidates = self._by_actor.get(key) or self._settle(key, facts)
        return all(
            not rule.unless and rule.limit is None and all(each.fact in _KEPT_BY for each in rule.when)
            for rule, _, _ in candidates
        )

    def _settle(self, key: tuple[_Place, str], facts: Facts) -> _Candidates:
        place, _ = key
        here = self._by_place.get(place)
        if here is None:
            found = [
                (rule, of_actor, tests) for rule, of_place, of_actor, tests in self._rules if _open(of_place, facts)
            ]
            here = _remembered(self._by_place, place, tuple(found))
        left = tuple(
            [
                (rule, tests, tuple(map(_asked, rule.unless)))
                for rule, of_actor, tests in here
                if not of_actor or _open(of_actor, facts)
            ]
        )
        return _remembered(self._by_actor, key, left)


def _about(facts: frozenset[str], rule: Rule) -> tuple[Condition, ...]:
    return tuple(each for each in rule.when if each.fact in facts)


def _tests(rule: Rule) -> _Tests:
    """The rule's tests that every judgement asks anew."""
    return _asked(each for each in rule.when if each.fact not in PLACE | ACTOR)


def _asked(conditions: Iterable[Condition]) -> _Tests:
    return tuple((each.read, each.match) for each in conditions)


def _open(conditions: tuple[Condition, ...], facts: Facts) -> bool:
    """Whether what the index goes by leaves a rule open. Raises TypeError where that cannot be told."""
    holds = conjunction(conditions, facts)
    if holds is None:
        raise TypeError(f"not a text: one of {', '.join(each.fact for each in conditions)}")
    return holds


def _remembered(known: dict[_K, _V], key: _K, value: _V) -> _V:
    if len(known) >= _REMEMBERED:
        known.clear()
    known[key] = value
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """`fallback` judges what no rule certainly matches: the default as a rule, or the built-in policy's rules.

    `digest` covers the document as it was understood: spaces, comments and quotes make no difference.
    """

    rules: tuple[Rule, ...]
    fallback: tuple[Rule, ...]
    default: Decision | None
    digest: str
    environments: Declared = field(default_factory=dict[str, tuple[str, ...]])
    env: str = ""
    """The environment of every saga on the journal that adopted it; '' where whoever starts one says it."""
    proof: str = ""
    """How whoever decides anything proves their name; '' where it is believed."""
    name: str = field(compare=False)
    text: str = field(repr=False, compare=False)
    drill_every_s: float | None = None
    """How often each saga that was drilled once has to be drilled again; None where nobody says."""
    first: Index = field(init=False, repr=False, compare=False)
    last: Index = field(init=False, repr=False, compare=False)
    verdicts: dict[tuple[str, ...], Verdict] = field(
        init=False, repr=False, compare=False, default_factory=dict[tuple[str, ...], Verdict]
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "first", Index(self.rules))
        object.__setattr__(self, "last", Index(self.fallback))

    def speaks_of(self, fact: str) -> bool:
        """Whether any rule asks about this fact; what none asks about need not be found out."""
        return any(fact in rule.mentioned for rule in (*self.rules, *self.fallback))


class PolicyGate:
    """A gate that goes by one policy."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._kept: dict[_Kept, tuple[Contract, Verdict]] = {}

    def judge(self, facts: Facts) -> Verdict:
        return judge(self.policy, facts)

    def kept(self, contract: Contract, begun: SagaStarted, *, back: bool) -> Verdict | None:
        """The verdict on this contract, where it is known to be the same whatever the arguments are."""
        found = self._kept.get((id(contract), begun.taken_for, begun.env, begun.actor, back))
        return found[1] if found is not None and found[0] is contract else None

    def keep(self, facts: Facts, begun: SagaStarted, verdict: Verdict) -> None:
        """Keep a verdict for the next step of the same contract, if nothing else could make it another one."""
        policy = self.policy
        if facts.approval_present or verdict.rates or verdict.rule == ERROR:
            return
        if policy.first.is_settled(facts) and policy.last.is_settled(facts):
            back = facts.phase == "compensation"
            key = (id(facts.contract), begun.taken_for, begun.env, begun.actor, back)
            _remembered(self._kept, key, (facts.contract, verdict))


def judge(policy: Policy, facts: Facts) -> Verdict:
    """The verdict. Never raises: what cannot be judged is denied, by the rule `error`."""
    try:
        matched, certain = policy.first.matching(facts)
        if not certain:
            matched += policy.last.matching(facts)[0]
        return _verdict(policy, matched, facts)
    except Exception as exc:  # noqa: BLE001 - a gate that breaks is a gate that is shut
        return Verdict(
            decision=Decision.DENY,
            rule=ERROR,
            policy=policy.digest,
            why=f"the policy could not be judged: {type(exc).__name__}: {exc}",
        )


def _verdict(policy: Policy, matched: list[Rule], facts: Facts) -> Verdict:
    names = tuple([rule.id for rule in matched])
    known = policy.verdicts.get(names)
    if known is None:
        known = _remembered(policy.verdicts, names, spoken(policy.digest, matched, policy.proof))
    if known.decision is Decision.DENY:
        return known
    rates = tuple([rule.limit.rate(rule.id, facts) for rule in matched if rule.limit is not None])
    return _paced(known, rates) if rates else known


def _paced(known: Verdict, rates: tuple[Rate, ...]) -> Verdict:
    """dataclasses.replace, at a third of its price."""
    return Verdict(
        decision=known.decision,
        rule=known.rule,
        policy=known.policy,
        why=known.why,
        matched=known.matched,
        needs=known.needs,
        expires_s=known.expires_s,
        rates=rates,
    )


def spoken(policy: str, matched: Sequence[Rule], proof: str = "") -> Verdict:
    """The verdict of rules that match, but for the rates: the strictest speaks, the first among equals."""
    if not matched:
        return Verdict(
            decision=Decision.DENY, rule=DEFAULT, policy=policy, why="no rule matches, and there is no default"
        )
    speaker = max(matched, key=lambda rule: strictness(rule.decision))
    asking = [rule for rule in matched if rule.decision is Decision.REQUIRE_HUMAN]
    is_asked = speaker.decision is Decision.REQUIRE_HUMAN
    return Verdict(
        decision=speaker.decision,
        rule=speaker.id,
        policy=policy,
        why=speaker.reason or _conditions(speaker),
        matched=tuple(rule.id for rule in matched if rule is not speaker),
        needs=tuple([_need(rule, proof) for rule in asking]) if is_asked else (),
        expires_s=min(rule.expires_s for rule in asking) if is_asked else DAY_S,
    )


def _conditions(rule: Rule) -> str:
    """The reason for a rule that gives none: its conditions."""
    if rule.decision is Decision.ALLOW:
        return ""
    text = ", ".join(map(str, rule.when)) or "everything"
    return text if len(text) <= _LONGEST_WHY else f"{text[:_LONGEST_WHY]}…"


def _need(rule: Rule, proof: str) -> Need:
    return Need(rule=rule.id, approvals=rule.approvals, approvers=rule.approvers, proof=rule.proof or proof)
