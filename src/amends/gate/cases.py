"""A policy's own tests: a file of cases, each with facts and the verdict that they should get."""

from __future__ import annotations

from typing import Final, cast

from amends.core.words.verdict import Decision, Verdict
from amends.dataclass import dataclass
from amends.errors import InputError, PolicyError
from amends.gate.described import described_facts
from amends.gate.environments import Declared, placed
from amends.gate.facts import Facts
from amends.gate.policy import Policy, judge
from amends.source.marked import Listed, Mapped, MarkedEntry, Mistakes, Part, plain
from amends.source.strict_yaml import parse_document

_FILE_KEYS: Final = ("version", "cases")
_CASE_KEYS: Final = ("name", "facts", "expect")
_EXPECT_KEYS: Final = ("decision", "rule")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The verdict expected for some facts; an empty `rule` leaves open which one speaks."""

    name: str
    line: int
    facts: Facts
    decision: Decision
    rule: str = ""

    def tried(self, policy: Policy, *declared: Declared) -> tuple[bool, Verdict]:
        """Whether the policy says what is expected, and what it says; `declared` are environments beside its own."""
        verdict = judge(policy, placed(self.facts, self.facts.env, policy, *declared))
        return verdict.decision is self.decision and self.rule in {"", verdict.rule}, verdict


def parse_cases(text: str | bytes, *, name: str = "cases") -> tuple[Case, ...]:
    """The cases of a file: a list of them, or a map with `cases`. Raises PolicyError, as for a policy."""
    mistakes = Mistakes(name, PolicyError)
    document = parse_document(text, mistakes)
    if isinstance(document, Mapped):
        found = {entry.key: entry.value for entry in mistakes.entries(document, "a file of cases", _FILE_KEYS)}
        if "version" in found:
            mistakes.choice(found["version"], "version", ("v1",))
        listed = found.get("cases", document)
    else:
        listed = document
    if not isinstance(listed, Listed):
        mistakes.wrong(listed, "a file of cases", "a list of cases")
    made = [_case(item, mistakes) for item in (mistakes.items(listed, "cases") if isinstance(listed, Listed) else ())]
    mistakes.raise_any()
    return tuple(case for case in made if case is not None)


def _case(part: Part, mistakes: Mistakes) -> Case | None:
    found = {entry.key: entry for entry in mistakes.entries(part, "a case", _CASE_KEYS)}
    lacking = [key for key in _CASE_KEYS if key not in found] if isinstance(part, Mapped) else []
    if lacking:
        mistakes.add(part.line, f"a case without {' and '.join(lacking)}")
    if len(found) < len(_CASE_KEYS):
        return None
    facts = _facts(found["facts"], mistakes)
    decision, rule = _expected(found["expect"], mistakes)
    name = mistakes.text(found["name"].value, "name")
    if facts is None or decision is None:
        return None
    return Case(name=name, line=part.line, facts=facts, decision=decision, rule=rule)


def _facts(entry: MarkedEntry, mistakes: Mistakes) -> Facts | None:
    document = plain(entry.value)
    if not isinstance(document, dict):
        mistakes.wrong(entry.value, "facts", "a map")
        return None
    try:
        return described_facts(document)
    except InputError as exc:
        mistakes.add(entry.line, str(exc))
        return None


def _expected(entry: MarkedEntry, mistakes: Mistakes) -> tuple[Decision | None, str]:
    found = {each.key: each.value for each in mistakes.entries(entry.value, "expect", _EXPECT_KEYS)}
    if "decision" not in found:
        mistakes.add(entry.line, f"expect says no decision; there are {', '.join(Decision)}")
        return None, ""
    word = mistakes.choice(found["decision"], "decision", cast("tuple[str, ...]", tuple(Decision)))
    rule = mistakes.text(found["rule"], "rule") if "rule" in found else ""
    return (Decision(word) if word else None), rule
