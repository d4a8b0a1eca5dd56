"""The policy that judges on a journal, and what it makes of facts: as data."""

from __future__ import annotations

from amends.core.events import PolicyAdopted
from amends.core.words.values import POLICIES, SagaId
from amends.dataclass import dataclass
from amends.gate.explain import Heard
from amends.gate.load import builtin_policy, parse_policy
from amends.gate.policy import Policy
from amends.journal.port.journal import Journal


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """The newest policy of a journal, as its text stands on record; of the built-in one nobody says when, or why."""

    digest: str
    adopted_at: int | None
    by: str
    why: str
    text: str


async def in_force(journal: Journal) -> InForce:
    """The policy that judges: the newest that was adopted, else the built-in one."""
    found: InForce | None = None
    async for entry in journal.read(SagaId(POLICIES)):
        match entry.event:
            case PolicyAdopted(digest=digest, text=text, by=by, why=why):
                found = InForce(digest=digest, adopted_at=entry.at, by=by, why=why, text=text)
            case _:
                pass
    if found is not None:
        return found
    built_in = builtin_policy()
    return InForce(digest=built_in.digest, adopted_at=None, by="", why="", text=built_in.text)


async def policy_in_force(journal: Journal) -> Policy:
    """The policy that judges, ready to judge."""
    found = await in_force(journal)
    return (
        builtin_policy() if found.adopted_at is None else parse_policy(found.text, name=found.digest[:12], adopted=True)
    )


def heard_fields(each: Heard) -> dict[str, object]:
    return {
        "id": each.rule.id,
        "decision": each.rule.decision,
        "line": each.rule.line,
        "matched": each.matched,
        "holds": each.holds,
        "condition": None if each.condition is None else {"fact": each.condition.fact, **each.condition.wants},
        "saw": each.saw,
        "exempt": each.exempt,
        "in_doubt": each.in_doubt,
    }
