"""Survey of the newest sagas: which actions they took, how those came out, and which rules of a policy spoke."""

from __future__ import annotations

from collections import Counter
from dataclasses import field
from typing import Final

from amends.core import events as e
from amends.core.state.saga import evolve, unstarted
from amends.core.words.contracts import Contract
from amends.core.words.values import BUILT_IN, OWN, StepId
from amends.dataclass import dataclass
from amends.evidence.drills import contract_digest, last_results, passed_at
from amends.journal.port.journal import Journal, SagaQuery

MOST: Final = 200
"""So many sagas are read: what a person looks at is how it has gone lately."""
_JUDGED: Final = (
    e.ActionDispatched,
    e.ActionAllowed,
    e.ActionDenied,
    e.ApprovalRequested,
    e.StepThrottled,
    e.CompensationStarted,
    e.CompensationDenied,
    e.MitigationStarted,
    e.MitigationDenied,
)
_TRIED: Final = (e.ActionDispatched, e.AttemptStarted)
_TAKEN_BACK: Final = (e.CompensationSucceeded, e.MitigationSucceeded)
_BACK_FAILED: Final = (e.CompensationFailed, e.CompensationLost, e.MitigationFailed, e.MitigationLost)


@dataclass(slots=True, kw_only=True)
class SeenAction:
    """One version of an action, as the newest sagas show it.

    `drilled_at` is when it last passed a drill; `outcome` is how the last one came out.
    """

    contract: Contract
    attempts: int = 0
    failed: int = 0
    lost: int = 0
    taken_back: int = 0
    back_failed: int = 0
    drilled_at: int | None = None
    outcome: str = ""

    @property
    def is_drilled(self) -> bool:
        return self.drilled_at is not None


@dataclass(slots=True, kw_only=True)
class Survey:
    """`hits`: how often each rule of each policy spoke, by the policy's digest and the rule's name."""

    sagas: int = 0
    is_whole: bool = True
    actions: dict[tuple[str, int], SeenAction] = field(default_factory=dict[tuple[str, int], SeenAction])
    hits: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])

    def add(self, contract: Contract) -> SeenAction:
        return self.actions.setdefault((contract.topic, contract.version), SeenAction(contract=contract))

    def note(self, event: e.Event, action: SeenAction | None) -> None:
        """Count one fact about a step of this action."""
        if isinstance(event, _JUDGED):
            self.hits[event.policy, event.rule] += 1
        if action is None:
            return
        action.attempts += isinstance(event, _TRIED)
        action.failed += isinstance(event, e.AttemptFailed)
        action.lost += isinstance(event, e.AttemptLost)
        action.taken_back += isinstance(event, _TAKEN_BACK)
        action.back_failed += isinstance(event, _BACK_FAILED)

    def listed(self) -> list[SeenAction]:
        return [self.actions[key] for key in sorted(self.actions)]


async def survey(journal: Journal, *, most: int = MOST) -> Survey:
    """Read the newest sagas, the newest first."""
    found = Survey()
    page = await journal.sagas(SagaQuery(without=OWN, limit=most))
    found.is_whole = page.cursor is None
    for row in page.rows:
        if row.pruned:
            continue
        found.sagas += 1
        state = unstarted(row.id)
        async for entry in journal.read(row.id):
            if entry.is_removed:
                break
            evolve(state, entry.event)
            step = state.steps.get(getattr(entry.event, "step", None) or StepId(""))
            is_ours = step is not None and step.contract.topic.startswith(BUILT_IN)
            found.note(entry.event, None if step is None or is_ours else found.add(step.contract))
    return found


async def add_drills(journal: Journal, found: Survey) -> None:
    """Have each action say when it last passed a drill, under the contract that it has now."""
    passed, _ = await passed_at(journal)
    results = await last_results(journal)
    for action in found.actions.values():
        contract = action.contract
        which = (contract.topic, contract.version, contract_digest(contract))
        action.drilled_at = passed.get(which)
        action.outcome = results.get(which, (0, ""))[1]
