"""Policies over HTTP: the one that judges, what one makes of facts and of the past, and adopting another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from starlette.responses import Response

from amends.clock import SystemClock
from amends.core.events import PolicyAdopted
from amends.core.words.verdict import Verdict
from amends.errors import InputError
from amends.gate.described import described_facts
from amends.gate.environments import placed
from amends.gate.explain import heard
from amends.gate.load import parse_policy
from amends.gate.policy import judge
from amends.http.api.operations import At, Leaves, Operation, get, post
from amends.http.api.shapes import SOME_OBJECT, TEXT, WHOLE, many, record, shape
from amends.http.api.signing import decided
from amends.http.callers import Scope
from amends.journal.port.journal import Entry
from amends.operate.judging import InForce, heard_fields, in_force, policy_in_force
from amends.operate.replay import ChangedVerdict, Replay

POLICY: Final = shape(InForce)
_MOST_VERDICTS: Final = 100_000
_MOST_CHANGES: Final = 1_000


async def show_policy(at: At) -> object:
    """Show the policy that judges now: its digest, who adopted it, when and why, and its text."""
    return asdict(await in_force(at.journal))


async def explain_policy(at: At, *, facts: dict[str, Any], text: str | None = None) -> object:
    """Say what a policy makes of some facts, and why. Nothing is changed.

    The facts are named as in rules, flat or nested. `text`: a policy to try; without it, the one that judges now.
    """
    policy = await policy_in_force(at.journal) if text is None else parse_policy(text, name="text")
    described = described_facts(facts)
    described = placed(described, described.env, policy, at.served.environments)
    rules = [heard_fields(each) for each in heard(policy, described)]
    return {"verdict": asdict(judge(policy, described)), "rules": rules}


async def replay_policy(at: At, *, text: str, since: int, until: int | None = None) -> object:
    """Judge what past sagas did by a policy, and show what it would have changed. Nothing is written.

    Sagas that started from `since` on until before `until`, in milliseconds of UTC, are read: the newest first, and
    no more than a hundred thousand verdicts; of the changes, the first thousand are listed.
    """
    now = SystemClock().now()
    replay = Replay(
        policy=parse_policy(text, name="text"),
        begin=since,
        end=now if until is None else until,
        environments=at.served.environments,
    )
    changes = list[ChangedVerdict]()
    async for page in replay.pages(at.journal):
        changes += page[: _MOST_CHANGES - len(changes)]
        if replay.counts["verdicts"] >= _MOST_VERDICTS:
            break
    return {"policy": replay.policy.digest, **replay.counted(), "changes": [one.fields() for one in changes]}


async def adopt_policy(at: At, *, text: str, why: str, proof: str = "") -> object:
    """Have a policy judge from now on, in every process on this journal. For a person.

    What people were asked under the policy before is void, and judged again. `proof` as for a grant.
    """
    if not why.strip():
        raise InputError("why is empty; say why the policy changes")
    policy = parse_policy(text, name="text")
    answered = await decided(
        lambda signed: at.coordinator.adopt(policy, by=at.caller.name, why=why, proof=signed), proof
    )
    return answered if isinstance(answered, Response) else await show_policy(at)


async def _shown(at: At, **_: object) -> object:
    return await show_policy(at)


def _is_of(entry: Entry, given: Mapping[str, object]) -> bool:
    event = entry.event
    return isinstance(event, PolicyAdopted) and event.digest == parse_policy(str(given["text"]), name="text").digest


def operations() -> tuple[Operation, ...]:
    counts = dict.fromkeys(("sagas", "verdicts", "stricter", "laxer", "unchanged"), WHOLE)
    replayed = record(policy=TEXT, **counts, changes=many(SOME_OBJECT))
    adopts = Leaves(events=(PolicyAdopted,), shows=_shown, fits=_is_of, others=frozenset({"text"}))
    explained = record(verdict=shape(Verdict), rules=many(SOME_OBJECT))
    return (
        get("/policy", show_policy, POLICY),
        post("/policy/explain", explain_policy, explained, scope=Scope.VIEW),
        post("/policy/replay", replay_policy, replayed, scope=Scope.VIEW),
        post("/policy/adopt", adopt_policy, POLICY, scope=Scope.ADMIN, leaves=adopts),
    )
