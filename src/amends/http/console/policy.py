"""The policy: its rules and how often each spoke, what it makes of some facts, and a draft tried on history."""

from __future__ import annotations

import json
from typing import Final, NamedTuple, cast

from starlette.responses import Response
from starlette.routing import BaseRoute

from amends.core.words.values import OWN, Json
from amends.core.words.verdict import Verdict
from amends.errors import AmendsError, InputError
from amends.gate.described import described_facts
from amends.gate.environments import placed
from amends.gate.explain import Heard, heard
from amends.gate.load import parse_policy
from amends.gate.policy import Policy, judge
from amends.http.callers import Scope
from amends.http.console.signing import proved
from amends.http.console.visit import Visit, decided, shown
from amends.http.problems import status_of
from amends.journal.port.journal import SagaQuery
from amends.operate.judging import in_force, policy_in_force
from amends.operate.replay import ChangedVerdict, Replay
from amends.runtime.drive.roster import Proof
from amends.text import lines_of

REPLAYED: Final = 500
MOST_CHANGES: Final = 100
EXAMPLE: Final = '{"env": "production", "topic": "payments.charge", "args.cents": 129900, "side_effect": true}'


class TriedDraft(NamedTuple):
    """A draft that was tried on the past: how much that was, and the first changes."""

    counts: dict[str, int]
    changes: tuple[ChangedVerdict, ...]


async def _show(
    visit: Visit,
    status: int = 200,
    *,
    trouble: str = "",
    draft: str | None = None,
    replay: TriedDraft | None = None,
) -> Response:
    found, policy = await in_force(visit.journal), await policy_in_force(visit.journal)
    survey = await visit.survey()
    hits = {rule: count for (digest, rule), count in survey.hits.items() if digest == policy.digest}
    facts = visit.asked["facts"]
    explained: tuple[Verdict, tuple[Heard, ...]] | None = None
    if facts.strip() and not trouble:
        try:
            explained = _explained(visit, policy, facts)
        except AmendsError as exc:
            status, trouble = status_of(exc), str(exc)
    return await visit.show(
        "policy.html",
        status,
        found=found,
        policy=policy,
        lines=lines_of(found.text),
        hits=hits,
        by_line={rule.line: rule.id for rule in policy.rules},
        sagas=survey.sagas,
        facts=facts,
        example=EXAMPLE,
        explained=explained,
        draft=found.text if draft is None else draft,
        is_draft=draft is not None,
        replay=replay,
        trouble=trouble,
        why=visit.form["why"],
    )


async def _page(visit: Visit) -> Response:
    return await _show(visit)


def _explained(visit: Visit, policy: Policy, text: str) -> tuple[Verdict, tuple[Heard, ...]]:
    try:
        given: object = json.loads(text)
    except ValueError as exc:
        raise InputError(f"the facts are no JSON ({exc}); write them as in {EXAMPLE}") from None
    if not isinstance(given, dict):
        raise InputError(f"the facts are an object, as in {EXAMPLE}")
    facts = described_facts(cast("dict[str, Json]", given))
    facts = placed(facts, facts.env, policy, visit.served.environments)
    return judge(policy, facts), heard(policy, facts)


# -- a draft ----------------------------------------------------------------------------------------------------------


async def _try(visit: Visit) -> Response:
    """Judge what the newest sagas did by a draft. Nothing is changed."""
    draft = visit.form["draft"]
    try:
        policy = parse_policy(draft, name="draft")
    except AmendsError as exc:
        return await _show(visit, status_of(exc), trouble=str(exc), draft=draft)
    return await _show(visit, draft=draft, replay=await _replayed(visit, policy))


async def _replayed(visit: Visit, policy: Policy) -> TriedDraft:
    rows = (await visit.journal.sagas(SagaQuery(without=OWN, limit=REPLAYED))).rows
    begin = min((row.started_at for row in rows), default=visit.now)
    replay = Replay(policy=policy, begin=begin, end=visit.now + 1, environments=visit.served.environments)
    changes = [change async for page in replay.pages(visit.journal) for change in page]
    return TriedDraft(replay.counted(), tuple(changes[:MOST_CHANGES]))


async def _adopt(visit: Visit) -> Response:
    form = visit.form
    draft, why = form["draft"], form["why"].strip()
    try:
        if not why:
            raise InputError("say why the policy changes: it goes on record")
        parse_policy(draft, name="draft")
        answered = await proved(visit, lambda proof: _adopted(visit, draft, why, proof))
    except AmendsError as exc:
        return await _show(visit, status_of(exc), trouble=str(exc), draft=draft)
    if isinstance(answered, Response):
        return answered
    visit.tell("Adopted: it judges from now on." if answered else "It is the one that judges already.")
    return visit.go("/policy")


async def _adopted(visit: Visit, draft: str, why: str, proof: Proof | None) -> bool:
    return await visit.coordinator.adopt(parse_policy(draft, name="draft"), by=visit.who, why=why, proof=proof)


def routes() -> list[BaseRoute]:
    return [
        shown("/policy", _page),
        decided("/policy/try", _try, Scope.VIEW),
        decided("/policy/adopt", _adopt, Scope.ADMIN),
    ]
