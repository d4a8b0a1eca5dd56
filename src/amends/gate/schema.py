"""The format of a policy: checks a file's data, line by line, and makes rules of it.

Every mistake is noted with its line and the nearest right word, and the reading goes on, so that a file is mended in
one go. A policy is made only of a file without any.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, cast

from amends.core.state.deciders import mistake_in as mistake_in_name, normal
from amends.core.words.globs import glob, is_glob, misplaced_run
from amends.core.words.values import Json, canonical, digest
from amends.core.words.verdict import Decision
from amends.gate.conditions import COMPARISONS, OPERATORS, Condition, Word, condition, is_number
from amends.gate.environments import Declared, mistake_in, taken_for
from amends.gate.policy import DEFAULT, ERROR, Policy, RateLimit, Rule
from amends.gate.vocabulary import FACTS, FAMILIES, Fact, ValueKind, fact_named
from amends.source.marked import DAY_S, Listed, Mapped, MarkedEntry, Mistakes, Part, Scalar, said, shown

VERSION: Final = "v1"
POLICY_KEYS: Final = ("version", "default", "env", "environments", "drill_every", "approvals", "rules")
RULE_KEYS: Final = ("id", "when", "unless", "decision", "reason", "approvals", "approvers", "expires", "rate")
APPROVAL_KEYS: Final = ("count", "proof")
PROOFS: Final = ("signed",)
RATE_KEYS: Final = ("max", "per", "by")
DEFAULTS: Final = (Decision.ALLOW, Decision.DENY, Decision.REQUIRE_HUMAN)
MOST_APPROVALS: Final = 100
MOST_IN_A_RATE: Final = 1_000_000_000

_ID: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}")
_RESERVED: Final = (DEFAULT, ERROR)
_BUILTIN: Final = "builtin-"
_TOPIC_PATTERN: Final = re.compile(r"[a-z0-9*?][a-z0-9_.*?-]*")
_ONLY_WITH: Final = {
    "approvals": Decision.REQUIRE_HUMAN,
    "approvers": Decision.REQUIRE_HUMAN,
    "expires": Decision.REQUIRE_HUMAN,
    "rate": Decision.THROTTLE,
}
_RANGES: Final = (("gt", "lt"), ("gt", "lte"), ("gte", "lt"), ("gte", "lte"))


def read_policy(
    document: Part, mistakes: Mistakes, *, text: str, builtin: Policy | None, adopted: bool = False
) -> Policy:
    """The policy of a file's data. `builtin` judges what is left open; None only for the built-in one itself.

    `adopted`: it has been for long, and names people as they were named then.
    """
    found = {entry.key: entry.value for entry in mistakes.entries(document, "a policy", POLICY_KEYS)}
    if "version" not in found:
        mistakes.add(document.line, f"there is no version; begin with `version: {VERSION}`")
    else:
        mistakes.choice(found["version"], "version", (VERSION,))
    default = Decision(word) if (word := _default(found.get("default"), mistakes)) else None
    declared = found.get("environments")
    environments: Declared = {} if declared is None else _environments(declared, mistakes)
    env = _env(found["env"], environments, mistakes) if "env" in found else ""
    proof = _demanded_proof(found["approvals"], mistakes) if "approvals" in found else ""
    rules = tuple(_Rules(mistakes, is_builtin=builtin is None, adopted=adopted).read(found.get("rules"), document.line))
    every = found.get("drill_every")
    drill_every_s = None if every is None else mistakes.duration(every, "drill_every")
    mistakes.raise_any()
    fallback = (_default_rule(default),) if default else builtin.rules if builtin else ()
    spoken: Json = str(default) if default else {"builtin": builtin.digest if builtin else ""}
    normal: dict[str, Json] = {"version": VERSION, "default": spoken, "rules": [normal_form(rule) for rule in rules]}
    if drill_every_s is not None:
        normal["drill_every"] = drill_every_s
    if environments:
        normal["environments"] = {name: list(words) for name, words in environments.items()}
    if env:
        normal["env"] = env
    if proof:
        normal["approvals"] = {"proof": proof}
    return Policy(
        rules=rules,
        fallback=fallback,
        environments=environments,
        env=env,
        proof=proof,
        default=default,
        digest=digest(canonical(normal)),
        name=mistakes.name,
        text=text,
        drill_every_s=drill_every_s,
    )


def _default(part: Part | None, mistakes: Mistakes) -> str:
    return "" if part is None else mistakes.choice(part, "default", DEFAULTS)


def _demanded_proof(part: Part, mistakes: Mistakes) -> str:
    """The proof that every decision takes."""
    entries = {entry.key: entry.value for entry in mistakes.entries(part, "approvals", ("proof",))}
    if "proof" not in entries:
        if isinstance(part, Mapped):
            mistakes.add(part.line, "approvals without proof; write approvals: {proof: signed}")
        return ""
    return mistakes.choice(entries["proof"], "proof", PROOFS)


def _approvals(part: Part, mistakes: Mistakes) -> tuple[int, str]:
    """How many people, and how each proves their name: a number, or a map of both."""
    if not isinstance(part, Mapped):
        return mistakes.integer(part, "approvals", MOST_APPROVALS), ""
    entries = {entry.key: entry.value for entry in mistakes.entries(part, "approvals", APPROVAL_KEYS)}
    count = mistakes.integer(entries["count"], "count", MOST_APPROVALS) if "count" in entries else 1
    return count, mistakes.choice(entries["proof"], "proof", PROOFS) if "proof" in entries else ""


def _env(part: Part, declared: Declared, mistakes: Mistakes) -> str:
    """The environment of all sagas on the journal that adopts the policy."""
    word = mistakes.text(part, "env")
    taken = taken_for(word, declared)
    if word and not taken.named:
        mistakes.add(part.line, f"env: nobody declared {shown(word)}; name it under environments too")
    return taken.env if word else ""


def _environments(part: Part, mistakes: Mistakes) -> Declared:
    """Which words stand for which environment; a list may be empty."""
    made: dict[str, tuple[str, ...]] = {}
    for entry in mistakes.entries(part, "environments"):
        items = entry.value.items if isinstance(entry.value, Listed) else None
        if items is None:
            mistakes.wrong(entry.value, f"environment {shown(entry.key)}", "a list of its other words")
        made[entry.key] = tuple(mistakes.text(item, "a word for an environment") for item in items or ())
        wrong = mistake_in(made) if all(made[entry.key]) else ""
        if wrong:
            mistakes.add(entry.line, wrong)
            made[entry.key] = ()
    return made


def _default_rule(default: Decision) -> Rule:
    reason = "" if default is Decision.ALLOW else f"no rule certainly allows it, and the default is {default}"
    return Rule(id=DEFAULT, decision=default, reason=reason)


# -- rules ------------------------------------------------------------------------------------------------------------


class _Rules:
    def __init__(self, mistakes: Mistakes, *, is_builtin: bool, adopted: bool) -> None:
        self._mistakes = mistakes
        self._is_builtin = is_builtin
        self._adopted = adopted
        self._lines: dict[str, int] = {}

    def read(self, part: Part | None, line: int) -> Iterator[Rule]:
        if part is None:
            self._mistakes.add(line, "there are no rules; write `rules: []` if none are meant")
        elif not isinstance(part, Listed):
            self._mistakes.wrong(part, "rules", "a list")
        else:
            for item in part.items:
                yield self._rule(item)

    def _rule(self, part: Part) -> Rule:
        mistakes = self._mistakes
        found = {entry.key: entry for entry in mistakes.entries(part, "a rule", RULE_KEYS)}
        for key in ("id", "decision"):
            if key not in found and isinstance(part, Mapped):
                mistakes.add(part.line, f"a rule without {key}")
        name = self._id(found["id"].value) if "id" in found else ""
        word = mistakes.choice(found["decision"].value, "decision", tuple(Decision)) if "decision" in found else ""
        decision = Decision(word) if word else None
        self._refuse_misplaced(found, decision, part.line)
        approvals, proof = _approvals(found["approvals"].value, mistakes) if "approvals" in found else (1, "")
        return Rule(
            id=name,
            decision=decision or Decision.DENY,
            when=_when(found["when"].value, mistakes) if "when" in found else (),
            unless=_unless(found["unless"].value, mistakes) if "unless" in found else (),
            reason=mistakes.text(found["reason"].value, "reason") if "reason" in found else "",
            approvals=approvals,
            proof=proof,
            approvers=self._approvers(found["approvers"].value, approvals) if "approvers" in found else (),
            expires_s=mistakes.duration(found["expires"].value, "expires") if "expires" in found else DAY_S,
            limit=_limit(found["rate"].value, mistakes) if "rate" in found else None,
            line=part.line,
        )

    def _id(self, part: Part) -> str:
        mistakes, name = self._mistakes, self._mistakes.text(part, "id")
        if not name:
            return ""
        if not _ID.fullmatch(name):
            mistakes.add(part.line, f"id {shown(name)} is not one: use 1 to 128 of a-z A-Z 0-9 _ . -")
        elif name in _RESERVED or (name.startswith(_BUILTIN) and not self._is_builtin):
            mistakes.add(part.line, f"id {shown(name)} is taken: verdicts use it for what is not in the file")
        elif name in self._lines:
            mistakes.add(part.line, f"id {shown(name)} twice; the first is in line {self._lines[name]}")
        self._lines.setdefault(name, part.line)
        return name

    def _approvers(self, part: Part, approvals: int) -> tuple[str, ...]:
        mistakes = self._mistakes
        items = tuple(mistakes.items(part, "approvers"))
        names = tuple(mistakes.text(item, "an approver") for item in items)
        for item, name in () if self._adopted else zip(items, names, strict=True):
            wrong = name and (mistake_in_name(name) or _never_a_person(name))
            if wrong:
                mistakes.add(item.line, f"approver {shown(name)}: {wrong}")
        people = len(set(names if self._adopted else map(normal, names)))
        if not any(map(is_glob, names)) and people < approvals:
            mistakes.add(part.line, f"{approvals} approvals, and only {people} who can give them")
        return names

    def _refuse_misplaced(self, found: Mapping[str, MarkedEntry], decision: Decision | None, line: int) -> None:
        if decision is None:
            return
        for key, at_home in _ONLY_WITH.items():
            if key in found and decision is not at_home:
                self._mistakes.add(found[key].line, f"{key} goes only with decision {at_home}, not with {decision}")
        if decision is Decision.THROTTLE and "rate" not in found:
            self._mistakes.add(line, "a rule with decision throttle and no rate; write rate: {max: 20, per: 60s}")


def _never_a_person(pattern: str) -> str:
    """Why nobody who may approve can be meant; nothing, where somebody can."""
    kind, colon, _ = pattern.partition(":")
    if colon or "*" in kind:
        return "" if glob(kind)("person") else "only people approve; write person:<name>, or a pattern such as person:*"
    return f"it names nobody; write person:{pattern}"


def _limit(part: Part, mistakes: Mistakes) -> RateLimit:
    found = {entry.key: entry.value for entry in mistakes.entries(part, "rate", RATE_KEYS)}
    for key in ("max", "per"):
        if key not in found and isinstance(part, Mapped):
            mistakes.add(part.line, f"a rate without {key}; write rate: {{max: 20, per: 60s}}")
    names = mistakes.items(found["by"], "by") if "by" in found else ()
    facts = [_fact(mistakes.text(name, "a fact"), name.line, mistakes) for name in names]
    return RateLimit(
        most=mistakes.integer(found["max"], "max", MOST_IN_A_RATE) if "max" in found else 1,
        per_s=mistakes.duration(found["per"], "per") if "per" in found else 1.0,
        by=tuple(fact for fact in facts if fact is not None),
    )


# -- conditions -------------------------------------------------------------------------------------------------------


def _unless(part: Part, mistakes: Mistakes) -> tuple[tuple[Condition, ...], ...]:
    maps = part.items if isinstance(part, Listed) and part.items else (part,)
    for each in maps:
        if not isinstance(each, Mapped) or not each.entries:
            mistakes.wrong(each, "unless", "a map of conditions, or a list of such maps")
    return tuple(_when(each, mistakes) for each in maps if isinstance(each, Mapped))


def _when(part: Part, mistakes: Mistakes) -> tuple[Condition, ...]:
    if isinstance(part, Scalar) and part.value is None:
        return ()
    made = (_condition(entry, mistakes) for entry in mistakes.entries(part, "when"))
    return tuple(each for each in made if each is not None)


def _fact(name: str, line: int, mistakes: Mistakes) -> Fact | None:
    fact = fact_named(name) if name else None
    if name and fact is None:
        hint = f"an argument is args.{shown(name)[1:-1]}; there are {', '.join([*FACTS, *(f'{f}…' for f in FAMILIES)])}"
        mistakes.unknown(line, "fact", name, FACTS, hint=hint)
    return fact


def _condition(entry: MarkedEntry, mistakes: Mistakes) -> Condition | None:
    fact = _fact(entry.key, entry.line, mistakes)
    before = len(mistakes)
    if fact is None:
        return None
    if isinstance(entry.value, Mapped):
        wants = dict(_operators(fact, entry.value, mistakes))
    else:
        wants = {"in": _words(fact, entry.value, mistakes)}
    return condition(fact, wants) if len(mistakes) == before else None


def _operators(fact: Fact, part: Mapped, mistakes: Mistakes) -> Iterator[tuple[str, Json]]:
    if not part.entries:
        mistakes.wrong(part, fact.name, "a value, a list, or a map of operators")
    operands = {entry.key: entry.value for entry in mistakes.entries(part, fact.name, OPERATORS)}
    for name, operand in operands.items():
        if name in COMPARISONS:
            yield name, _bound(fact, name, operand, mistakes)
        elif name == "exists":
            yield name, _flag(operand, mistakes, alone=len(operands) == 1)
        elif isinstance(operand, Listed):
            yield name, _words(fact, operand, mistakes)
        else:
            mistakes.wrong(operand, name, "a list")
    _refuse_empty_range(fact, operands, part.line, mistakes)


def _bound(fact: Fact, name: str, part: Part, mistakes: Mistakes) -> Json:
    if fact.kind not in {ValueKind.NUMBER, ValueKind.ANY}:
        mistakes.add(part.line, f"{fact.name} is {fact.kind}, and {name} compares numbers")
    elif not isinstance(part, Scalar) or not is_number(part.value):
        mistakes.wrong(part, name, "a number")
    else:
        return part.value
    return 0


def _flag(part: Part, mistakes: Mistakes, *, alone: bool) -> bool:
    value = part.value if isinstance(part, Scalar) else None
    if not isinstance(value, bool):
        mistakes.wrong(part, "exists", "true or false")
    elif not value and not alone:
        mistakes.add(part.line, "exists: false beside other operators: what is not there has no value")
    return bool(value)


def _refuse_empty_range(fact: Fact, operands: Mapping[str, Part], line: int, mistakes: Mistakes) -> None:
    bounds = {
        name: cast("float", part.value)
        for name, part in operands.items()
        if name in COMPARISONS and isinstance(part, Scalar) and is_number(part.value)
    }
    for low, high in _RANGES:
        if low in bounds and high in bounds:
            touches = low == "gte" and high == "lte"
            if bounds[low] > bounds[high] or (bounds[low] == bounds[high] and not touches):
                mistakes.add(line, f"no {fact.name} is {low} {bounds[low]:g} and {high} {bounds[high]:g}")


def _words(fact: Fact, part: Part, mistakes: Mistakes) -> list[Json]:
    items = mistakes.items(part, fact.name) if isinstance(part, Listed) else (part,)
    found = [_word(fact, item, mistakes) for item in items]
    return cast("list[Json]", found)


def _word(fact: Fact, part: Part, mistakes: Mistakes) -> Word:
    value = part.value if isinstance(part, Scalar) else None
    if value is None:
        what = f"{fact.name} has to be compared with something, not {said(part)}; for what is not there, exists: false"
        mistakes.add(part.line, what)
        return ""
    fits = {
        ValueKind.FLAG: isinstance(value, bool),
        ValueKind.NUMBER: is_number(value),
        ValueKind.ANY: True,
    }.get(fact.kind, isinstance(value, str))
    if not fits:
        quotes = "; put it in quotes" if fact.kind in {ValueKind.TEXT, ValueKind.TAGS} else ""
        mistakes.add(part.line, f"{fact.name} is {fact.kind}, not {said(part)}{quotes}")
    elif isinstance(value, str):
        _check_pattern(fact, value, part.line, mistakes)
    return value


def _check_pattern(fact: Fact, pattern: str, line: int, mistakes: Mistakes) -> None:
    if fact.words and not any(map(glob(pattern), fact.words)):
        mistakes.unknown(line, fact.name, pattern, fact.words)
    elif fact.name == "topic" and not _TOPIC_PATTERN.fullmatch(pattern):
        mistakes.add(line, f"no topic is {shown(pattern)}: topics are of a-z 0-9 _ . -, as in payments.charge")
    elif fact.dotted and misplaced_run(pattern):
        mistakes.add(line, f"{shown(pattern)}: ** stands for whole segments, as in payments.** or **.delete")


# -- the document as it was understood --------------------------------------------------------------------------------


def normal_form(rule: Rule) -> dict[str, Json]:
    """A rule as its digest covers it: alike for all its spellings."""
    said_more: dict[str, Json] = {}
    if rule.decision is Decision.REQUIRE_HUMAN:
        said_more = {"approvals": rule.approvals, "approvers": list(rule.approvers), "expires_s": rule.expires_s}
        said_more |= {"proof": rule.proof} if rule.proof else {}
    if rule.limit is not None:
        by: list[Json] = [fact.name for fact in rule.limit.by]
        said_more["rate"] = {"max": rule.limit.most, "per_s": rule.limit.per_s, "by": by}
    return {
        "id": rule.id,
        "decision": str(rule.decision),
        "when": _conjunction(rule.when),
        "unless": [_conjunction(each) for each in rule.unless],
        "reason": rule.reason,
        **said_more,
    }


def _conjunction(conditions: tuple[Condition, ...]) -> dict[str, Json]:
    return {each.fact: dict(each.wants) for each in conditions}
