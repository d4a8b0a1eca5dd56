"""The report of observe mode: by topic, the calls, what the policy would have said, and whether there is a way back."""

from __future__ import annotations

from collections import Counter
from dataclasses import field

from amends.core.events import ActionAllowed, ActionDispatched
from amends.core.words.values import StepId
from amends.dataclass import dataclass
from amends.gateway.model import UNSEEN_BEFORE
from amends.gateway.observing import OBSERVED
from amends.gateway.sagas import DEFINITION
from amends.journal.port.journal import Journal, SagaQuery
from amends.runtime.drive.logbook import load

_PAGE = 200


@dataclass(frozen=True, slots=True)
class Observed:
    """One topic: calls, the verdicts that were not put into force (`deny by no-mail`), its reversibility, and how many
    of the calls a person would have to take back, as nobody saw what was there before.
    """

    topic: str
    calls: int
    reversibility: str
    verdicts: Counter[str] = field(default_factory=Counter[str])
    unseen: int = 0


async def observed(journal: Journal) -> list[Observed]:
    """All that came through a gateway, by topic."""
    calls: Counter[str] = Counter()
    unseen: Counter[str] = Counter()
    ways: dict[str, str] = {}
    verdicts: dict[str, Counter[str]] = {}
    cursor: str | None = None
    while True:
        page = await journal.sagas(SagaQuery(definition=DEFINITION, before=cursor, limit=_PAGE))
        for row in page.rows:
            if row.pruned:
                continue
            rules: dict[StepId, str] = {}
            async for entry in journal.read(row.id):
                if isinstance(entry.event, ActionAllowed | ActionDispatched):
                    rules[entry.event.step] = entry.event.rule
            state = await load(journal, row.id)
            for step in state.steps.values():
                if step.topic.startswith("amends."):
                    continue
                calls[step.topic] += 1
                unseen[step.topic] += isinstance(step.before, dict) and UNSEEN_BEFORE in step.before
                ways[step.topic] = str(step.contract.reversibility) if step.contract.side_effect else "changes nothing"
                mark, _, rest = rules.get(step.id, "").partition(":")
                if mark == OBSERVED:
                    decision, _, rule = rest.partition(":")
                    verdicts.setdefault(step.topic, Counter())[f"{decision} by {rule}"] += 1
        cursor = page.cursor
        if cursor is None:
            break
    return [
        Observed(topic, calls[topic], ways[topic], verdicts.get(topic, Counter()), unseen[topic])
        for topic in sorted(calls)
    ]
