"""`amends run --plan`: which steps a saga would take, how each is judged, what could not be taken back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from amends.addresses import is_there, shown
from amends.cli import config
from amends.cli.inputs import read_policy
from amends.cli.journal import opened_to_read
from amends.cli.show.output import Output, Part, hint
from amends.cli.show.policy import DECISIONS
from amends.clock import SystemClock
from amends.core.events import PolicyAdopted
from amends.core.words.contracts import Contract
from amends.core.words.values import BUILT_IN, POLICIES, Json, SagaId, StepId
from amends.dataclass import dataclass
from amends.evidence.story.commands import command_line
from amends.gate.environments import DEVELOPMENT, placed
from amends.gate.facts import Facts, with_told
from amends.gate.load import builtin_policy, parse_policy
from amends.gate.policy import Policy
from amends.journal.port.journal import Journal
from amends.runtime.coordinator.dry_run import OpenRule, Planned, outline_of, planned
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.declare.limits import Limits
from amends.runtime.declare.outline import Outlined
from amends.runtime.declare.registry import PROCESS
from amends.runtime.drive.drills import Drills, told_facts
from amends.text import LONGEST_ARGS, short, span, spelled_args, visible

_PLANNED: Final = SagaId("planned")
_INDENT: Final = " " * 6
_SUMMARY: Final = {
    "denied": "would be denied",
    "needs_person": "needs people, or may",
    "throttled": "may have to wait for its turn",
    "irreversible": "cannot be taken back",
    "missing": "lacks a compensation or a probe",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """A run that is asked for."""

    definition: SagaDefinition
    named: Mapping[str, Any]
    actor: str
    env: str | None
    labels: Mapping[str, str]
    limits: Limits | None
    policy: str | None


def show_plan(out: Output, asked: PlannedRun, journal: str) -> int:
    """Tell what would happen; the exit code is 0. Raises what a run raises for an input that does not fit."""
    definition = asked.definition
    definition.check(asked.named)
    steps = outline_of(definition, asked.named)
    outlined = _actions() if steps is None else steps
    policy, told = asyncio.run(_looked(journal, asked.policy, outlined))

    def facts_of(contract: Contract) -> Facts:
        facts = Facts(
            env=asked.env or DEVELOPMENT,
            actor=asked.actor,
            saga=_PLANNED,
            definition=definition.name,
            step=StepId("1"),
            contract=contract,
            args={},
            labels=asked.labels,
        )
        word = policy.env or asked.env or DEVELOPMENT
        return with_told(placed(facts, word, policy, config.environments()), told.get(contract.topic))

    found = planned(outlined, policy, facts_of)
    _tell_head(out, asked, policy, is_function=steps is None)
    _tell_steps(out, found, policy, is_function=steps is None)
    _tell_summary(out, found)
    return 0


def _actions() -> tuple[Outlined, ...]:
    """Actions that a function may do: those that are known here, but the runtime's own."""
    known = [each for each in PROCESS.actions() if not each.topic.startswith(BUILT_IN)]
    ordered = sorted(known, key=lambda each: (each.topic, each.contract.version))
    return tuple(Outlined(label=each.topic, action=each, args={}, open_args=True) for each in ordered)


# -- what judges ------------------------------------------------------------------------------------------------------


async def _looked(
    address: str, file: str | None, steps: Sequence[Outlined]
) -> tuple[Policy, dict[str, dict[str, Json]]]:
    """The policy, and what the gate would be told of other sagas, by topic; nothing is written."""
    given = None if file is None else read_policy(file)
    if not is_there(address):
        return given or builtin_policy(), {}
    async with opened_to_read(address) as journal:
        in_force = await _in_force(journal)
        if given is not None and given.digest != in_force.digest:
            hint(
                f"{given.name} is not the policy in force on {shown(address)}: it is what judges here, and a run is "
                "refused until it is adopted (amends policy adopt)"
            )
        policy = given or in_force
        drills = Drills(journal, SystemClock())
        asked = told_facts(policy)
        contracts = {each.action.contract.topic: each.action.contract for each in steps} if asked else {}
        return policy, {topic: await drills.told(asked, contract) for topic, contract in contracts.items()}


async def _in_force(journal: Journal) -> Policy:
    newest: PolicyAdopted | None = None
    async for entry in journal.read(SagaId(POLICIES)):
        newest = entry.event if isinstance(entry.event, PolicyAdopted) else newest
    if newest is None:
        return builtin_policy()
    return parse_policy(newest.text, name=f"policy {newest.digest[:12]}", adopted=True)


# -- how it looks -----------------------------------------------------------------------------------------------------


def _tell_head(out: Output, asked: PlannedRun, policy: Policy, *, is_function: bool) -> None:
    definition, env = asked.definition, policy.env or asked.env or DEVELOPMENT
    limits = asked.limits or definition.options.limits
    bounds = {name.value: limit.most for name, limit in limits.each()} if limits else {}
    checks = [check.name for check in definition.checks]
    fields = {
        "definition": definition.name,
        "version": definition.version,
        "kind": "function" if is_function else "steps",
        "env": env,
        "actor": asked.actor,
        "policy": policy.digest,
        "verify": checks,
        "limits": {name: str(most) for name, most in bounds.items()},
    }
    out.record("plan", fields)
    facts = [
        ("saga", f"{visible(definition.name)}, version {definition.version}"),
        ("as", f"{visible(asked.actor)} in {visible(env)}"),
        ("policy", f"{visible(policy.name)}, digest {policy.digest[:12]}"),
        ("verify", ", ".join(map(short, checks))),
        ("limits", ", ".join(f"{name} {most}" for name, most in bounds.items())),
    ]
    for name, fact in facts:
        if fact:
            out.say((f"{name:<12}", "dim"), fact)
    out.say()
    if is_function:
        out.say(
            "it is a function, and decides its steps as it runs; the input fits. Of the actions that are known here:"
        )
        out.say()


def _tell_steps(out: Output, steps: Sequence[Planned], policy: Policy, *, is_function: bool) -> None:
    turns = [each.step.turn for each in steps if not each.step.recovers]
    for each in steps:
        out.record("step", _fields(each, policy))
        is_beside = not is_function and not each.step.recovers and turns.count(each.step.turn) > 1
        beside = f"  (turn {each.step.turn}, in parallel)" if is_beside else ""
        recovers = f"  (if {short(each.step.recovers)} fails)" if each.step.recovers else ""
        topic = "" if each.step.label == each.contract.topic else f"  {visible(each.contract.topic)}"
        out.say((short(each.step.label), "bold"), f"{topic}{beside}{recovers}")
        if not is_function:
            _tell_call(out, each)
        _tell_judged(out, each, policy)
        for text in (*each.step.notes, *_marks(each)):
            out.say(_INDENT, (visible(text), "yellow" if text in _marks(each) else "dim"))


def _tell_call(out: Output, each: Planned) -> None:
    line = command_line(each.args)
    text = spelled_args(each.args) if line is None else visible(line, LONGEST_ARGS)
    if text:
        out.say(f"{_INDENT}{text}")


def _tell_judged(out: Output, each: Planned, policy: Policy) -> None:
    verdict = each.verdict
    decision: Part = (verdict.decision, DECISIONS[verdict.decision])
    out.say(_INDENT, decision, f" by {_rule(verdict.rule, each.line, policy)}{_needs(each)}")
    for rate in verdict.rates:
        out.say(f"{_INDENT}throttled: at most {rate.most} in {rate.per_s:g} s, by {visible(rate.rule)}")
    for one in each.open:
        what = f"decided when {', '.join(map(visible, one.facts))} is known: "
        out.say(f"{_INDENT}{what}", (one.decision, DECISIONS[one.decision]), f" by {_rule(one.rule, one.line, policy)}")


def _rule(rule: str, line: int, policy: Policy) -> str:
    return f"{visible(rule)} ({visible(policy.name)}:{line})" if line and policy.text else visible(rule)


def _needs(each: Planned) -> str:
    if not each.verdict.needs:
        return ""
    people = [
        f"{need.approvals} {'person' if need.approvals == 1 else 'people'}"
        + (f" of {visible(', '.join(need.approvers))}" if need.approvers else "")
        for need in each.verdict.needs
    ]
    return f"; needs {', '.join(people)}, within {span(round(each.verdict.expires_s * 1000))}"


def _marks(each: Planned) -> list[str]:
    """Marks of a step: what could not be taken back, and what is missing."""
    contract, found = each.contract, list[str]()
    if contract.side_effect and contract.no_rollback is not None:
        held = "; it is held, and goes out when nothing can fail any more" if contract.hold else ""
        pivot = "pivot: from here on, forward only; " if each.is_pivot else ""
        found.append(f"{pivot}cannot be taken back: {contract.no_rollback}{held}")
    return [*found, *(f"missing: {text}" for text in each.missing)]


def _tell_summary(out: Output, steps: Sequence[Planned]) -> None:
    found = {
        "needs_person": [each.step.label for each in steps if each.may_ask],
        "denied": [each.step.label for each in steps if each.verdict.decision == "deny"],
        "throttled": [each.step.label for each in steps if each.verdict.rates],
        "irreversible": [each.step.label for each in steps if each.contract.no_rollback is not None],
        "pivot": next((each.step.label for each in steps if each.is_pivot), None),
        "missing": [each.step.label for each in steps if each.missing],
        "decided_when_known": [each.step.label for each in steps if each.open],
    }
    out.record("summary", {"steps": len(steps), **found})
    out.say()
    for name, meant in _SUMMARY.items():
        where = found[name]
        if isinstance(where, list) and where and steps[0].step.turn:
            out.say(f"{meant}: {'step' if len(where) == 1 else 'steps'} {', '.join(map(short, where))}")
    out.say("nothing was run, and nothing is written")


def _fields(each: Planned, policy: Policy) -> dict[str, object]:
    contract, step = each.contract, each.step
    return {
        "step": step.label,
        "turn": step.turn or None,
        "after": step.after,
        "recovers": step.recovers or None,
        "topic": contract.topic,
        "version": contract.version,
        "args": None if step.open_args else each.args,
        "decision": each.verdict.decision,
        "rule": each.verdict.rule,
        "line": each.line or None,
        "policy": policy.digest,
        "why": each.verdict.why or None,
        "needs": [asdict(need) for need in each.verdict.needs],
        "rates": [asdict(rate) for rate in each.verdict.rates],
        "decided_when_known": [_open_fields(one) for one in each.open],
        "reversibility": contract.reversibility if contract.side_effect else "read_only",
        "no_rollback": contract.no_rollback,
        "pivot": each.is_pivot,
        "held": contract.hold,
        "missing": each.missing,
        "notes": step.notes,
    }


def _open_fields(one: OpenRule) -> dict[str, object]:
    return {"rule": one.rule, "decision": one.decision, "line": one.line or None, "facts": one.facts}
