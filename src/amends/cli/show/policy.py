"""How policies, verdicts and what follows from them look."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Final

from amends.cli import config
from amends.cli.show.output import Output, Part, hint
from amends.cli.show.tables import Table
from amends.cli.show.timeline import cells
from amends.core.words.contracts import Contract, Reversibility
from amends.core.words.verdict import Decision, Verdict
from amends.evidence.drills import DrilledAt, drilled_at
from amends.gate.cases import Case
from amends.gate.explain import Heard
from amends.gate.policy import Policy, Rule
from amends.journal.port.journal import Journal
from amends.operate.judging import heard_fields, in_force
from amends.operate.replay import ChangedVerdict, Replay
from amends.text import counted, lines_of, moment, span, spelled, visible

DECISIONS: Final = {
    Decision.ALLOW: "green",
    Decision.THROTTLE: "yellow",
    Decision.REQUIRE_HUMAN: "yellow",
    Decision.DENY: "bold red",
}
_CHANGE_HEADS: Final = (
    ("SAGA", 26),
    ("ENTRY", 5),
    ("TOPIC", 20),
    ("PHASE", 12),
    ("WAS", 13),
    ("NOW", 13),
    ("RULE", 0),
)
_ACTION_HEADS: Final = (("TOPIC", 24), ("VERSION", 7), ("REVERSIBILITY", 13), ("DRILLED", 10), ("NOTE", 0))
_SHORT: Final = 12


# -- check ------------------------------------------------------------------------------------------------------------


def tell_policy(out: Output, policy: Policy, silent: Iterable[tuple[Rule, Rule]]) -> None:
    warnings = [
        f"{policy.name}:{rule.line}: rule {rule.id} can never speak: "
        f"where it matches, {other.id} (line {other.line}) does too and says {other.decision}"
        for rule, other in silent
    ]
    default = str(policy.default or "built in")
    count = len(policy.rules)
    fields = {"file": policy.name, "rules": count, "default": default, "digest": policy.digest, "warnings": warnings}
    out.record("policy", fields)
    for warning in warnings:
        hint(visible(f"warning: {warning}"))
    rules = counted(count, "rule")
    out.say(f"{visible(policy.name)}: ", ("ok", "green"), f", {rules}, default {default}, digest {policy.digest}")


# -- explain ----------------------------------------------------------------------------------------------------------


def tell_verdict(out: Output, verdict: Verdict, rules: Sequence[Heard]) -> None:
    out.record("verdict", asdict(verdict))
    facts: list[tuple[str, Part]] = [
        ("verdict", (verdict.decision, DECISIONS[verdict.decision])),
        ("rule", (verdict.rule, "bold")),
        *([("why", visible(verdict.why))] if verdict.why else []),
        *(("needs", _need(need.rule, need.approvals, need.approvers)) for need in verdict.needs),
        *([("within", span(round(verdict.expires_s * 1000)))] if verdict.needs else []),
        *(("rate", f"{rate.most} in {rate.per_s:g} s for {visible(rate.key)}") for rate in verdict.rates),
        ("policy", verdict.policy),
    ]
    for name, fact in facts:
        out.say((f"{name:<9}", "dim"), fact)
    out.say()
    width = max((len(each.rule.id) for each in rules), default=0)
    for each in rules:
        out.record("rule", heard_fields(each))
        mark: Part = ("matched  ", "green") if each.matched else ("-        ", "dim")
        out.say(mark, f"{each.rule.id:<{width}}  {each.rule.decision:<13}  ", _because(each))


def _need(rule: str, approvals: int, approvers: Sequence[str]) -> str:
    people = counted(approvals, "person", "people")
    return f"{people}{' of ' if approvers else ''}{visible(', '.join(approvers))}, for {rule}"


def _because(each: Heard) -> str:
    if each.matched:
        return f"in doubt, which counts: {', '.join(each.in_doubt)}" if each.holds is None else ""
    what = "" if each.condition is None else visible(str(each.condition), 120)
    return f"{'exempt: ' * each.exempt}{what}; saw {spelled(each.saw)}"


# -- test -------------------------------------------------------------------------------------------------------------


def tell_case(out: Output, file: str, case: Case, verdict: Verdict, *, passed: bool) -> None:
    expected = {"decision": case.decision, "rule": case.rule or None}
    got = {"decision": verdict.decision, "rule": verdict.rule}
    fields = {"name": case.name, "line": case.line, "passed": passed, "expected": expected, "got": got}
    out.record("case", fields)
    if not passed:
        wanted = case.decision + (f" by {case.rule}" if case.rule else "")
        out.say(
            ("failed  ", "bold red"),
            f"{visible(file)}:{case.line}: {visible(case.name)}: "
            f"expected {visible(wanted)}, got {verdict.decision} by {verdict.rule}",
        )


# -- replay -----------------------------------------------------------------------------------------------------------


async def tell_replay(out: Output, journal: Journal, policy: Policy, begin: int, end: int) -> None:
    replay = Replay(policy=policy, begin=begin, end=end, environments=config.environments())
    table = Table(out, _CHANGE_HEADS, spare=("ENTRY", "PHASE"))
    async for changes in replay.pages(journal):
        table.say([_tell_change(out, change) for change in changes])
        if out.is_gone:
            break
    counts = replay.counted()
    out.record("summary", {"policy": policy.digest, **counts})
    if counts["stricter"] + counts["laxer"]:
        out.say()
    verdicts, sagas = counted(counts["verdicts"], "verdict"), counted(counts["sagas"], "saga")
    out.say(
        f"{verdicts} of {sagas}: {counts['stricter']} stricter, {counts['laxer']} laxer, "
        f"{counts['unchanged']} unchanged"
    )


def _tell_change(out: Output, change: ChangedVerdict) -> tuple[Part, ...]:
    """Record a change; the row that shows it."""
    recorded, now, facts = change.recorded, change.now, change.recorded.facts
    out.record("change", change.fields())
    texts = (
        visible(change.saga),
        str(recorded.entry),
        visible(facts.contract.topic),
        facts.phase,
        recorded.decision,
        now.decision,
        f"{now.rule} (was {visible(recorded.rule)})",
    )
    return cells(texts, {5: DECISIONS[now.decision]})


# -- coverage ---------------------------------------------------------------------------------------------------------


def tell_coverage(out: Output, contracts: Sequence[Contract], known: DrilledAt) -> None:
    if not contracts:
        out.say("no actions; name the modules that declare them")
    rows: list[tuple[Part, ...]] = []
    for contract in sorted(contracts, key=lambda contract: (contract.topic, contract.version)):
        at = drilled_at(known, contract)
        out.record("action", _action_fields(contract, at))
        kind = "read-only" if not contract.side_effect else str(contract.reversibility)
        style = {"undeclared": "bold red", "irreversible": "yellow"}.get(kind, "")
        drilled = moment(at)[:10] if at is not None else "never" if contract.side_effect else "-"
        texts = (visible(contract.topic), str(contract.version), kind, drilled, visible(contract.no_rollback or ""))
        rows.append(cells(texts, {2: style}))
    Table(out, _ACTION_HEADS, spare=("VERSION",)).say(rows)
    kinds = [contract.reversibility for contract in contracts if contract.side_effect]
    counts = {
        "actions": len(contracts),
        "undeclared": kinds.count(Reversibility.UNDECLARED),
        "irreversible": kinds.count(Reversibility.IRREVERSIBLE),
        "never_drilled": sum(each.side_effect and drilled_at(known, each) is None for each in contracts),
    }
    out.record("summary", counts)
    if contracts:
        out.say()
        out.say(
            f"{counted(counts['actions'], 'action')}: {counts['undeclared']} undeclared, "
            f"{counts['irreversible']} irreversible, {counts['never_drilled']} never drilled"
        )


def _action_fields(contract: Contract, at: int | None) -> dict[str, object]:
    return {
        "topic": contract.topic,
        "version": contract.version,
        "side_effect": contract.side_effect,
        "reversibility": contract.reversibility,
        "no_rollback": contract.no_rollback,
        "compensation_declared": contract.compensation_declared,
        "mitigation": contract.mitigation,
        "idempotent": contract.idempotent,
        "probe": contract.probe,
        "risk": contract.risk,
        "drilled": at,
    }


# -- adopt, show ------------------------------------------------------------------------------------------------------


def tell_adopted(out: Output, policy: Policy, by: str, why: str, *, is_new: bool) -> None:
    out.record("policy", {"digest": policy.digest, "adopted": is_new, "by": by, "why": why})
    if is_new:
        out.say(f"policy {policy.digest[:_SHORT]} ", ("adopted", "green"), f" by {visible(by)}: {visible(why)}")
    else:
        out.say(f"policy {policy.digest[:_SHORT]} is in force already; nothing is written")


async def tell_in_force(out: Output, journal: Journal) -> None:
    """The newest policy of a journal, else the built-in one, as its text stands on record."""
    found = await in_force(journal)
    at, by, why = found.adopted_at, found.by, found.why
    adopted = "never: this is the built-in one, which judges where none was adopted"
    if at is not None:
        adopted = f"{moment(at)} by {visible(by)}"
    out.record("policy", asdict(found))
    out.say(("policy      ", "dim"), (visible(found.digest), "bold"))
    out.say(("adopted     ", "dim"), adopted)
    if why:
        out.say(("why         ", "dim"), visible(why))
    out.say()
    for line in lines_of(found.text):
        out.say(visible(line))
