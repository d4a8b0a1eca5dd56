"""How long a page of a list takes among few sagas and among many."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from amends.clock import SystemClock
from amends.core.events import ActionDispatched, AttemptSucceeded, Event, SagaCompleted, SagaStarted
from amends.core.transitions import SagaStatus
from amends.core.words.contracts import Contract, Topic
from amends.core.words.values import SagaId, StepId
from amends.journal.port.evidence import Notary
from amends.journal.port.journal import SagaQuery, Summary
from amends.journal.sqlite import SqliteJournal

QUERIES = {
    "all": SagaQuery(),
    "status": SagaQuery(statuses=(SagaStatus.COMPLETED,)),
    "definition": SagaQuery(definition="bench.d3"),
    "env": SagaQuery(env="production"),
    "label": SagaQuery(labels=(("tenant", "t3"),)),
    "definition and status": SagaQuery(definition="bench.d3", statuses=(SagaStatus.COMPLETED,)),
}
NO_MATCH = {
    "definition and status": SagaQuery(definition="bench.d3", statuses=(SagaStatus.PAUSED,)),
    "another definition and status": SagaQuery(definition="bench.none", statuses=(SagaStatus.COMPLETED,)),
    "label and env": SagaQuery(labels=(("tenant", "none"),), env="production"),
    "label, env and end": SagaQuery(labels=(("tenant", "t3"),), env="production", ended_until=1),
    "all": SagaQuery(
        labels=(("tenant", "t3"),), env="production", definition="bench.d3", statuses=(SagaStatus.INCIDENT,)
    ),
}


async def page_times(path: Path, sagas: int) -> dict[str, float]:
    """Milliseconds of CPU for a page of each kind, the best of many."""
    journal = await filled(path, sagas)
    best: dict[str, float] = {}
    no_match = {f"no match, {name}": query for name, query in NO_MATCH.items()}
    for name, query in {**QUERIES, **no_match}.items():
        for _ in range(30):
            since = time.process_time()
            page = await journal.sagas(query)
            best[name] = min(best.get(name, 9.9), time.process_time() - since)
            if len(page.rows) != (0 if name in no_match else query.limit):
                raise AssertionError(f"{name}: {len(page.rows)} rows")
    await journal.close()
    return best


async def filled(path: Path, sagas: int, notary: Notary | None = None, *, calls: bool = False) -> SqliteJournal:
    """A journal with so many sagas, two of three of which have ended. calls: each made one; its number is the key."""
    clock = SystemClock()
    journal = await SqliteJournal.open(path, clock, notary=notary)

    async def one(number: int) -> None:
        saga = SagaId(clock.new_id())
        begun = SagaStarted(
            definition=f"bench.d{number % 10}",
            version=1,
            input={"n": number},
            actor="system:bench",
            env="production" if number % 2 else "staging",
            labels={"tenant": f"t{number % 10}"},
        )
        done = number % 3 != 0
        made = _call(number) if calls else ()
        events = (begun, *made, SagaCompleted(result=None)) if done else (begun, *made)
        status = SagaStatus.COMPLETED if done else SagaStatus.RUNNING
        await journal.append(saga, events, after=0, summary=Summary(status=status))

    for first in range(0, sagas, 1000):
        await asyncio.gather(*(one(number) for number in range(first, min(sagas, first + 1000))))
    return journal


def _call(number: int) -> tuple[Event, ...]:
    topic, step = Topic(f"bench.t{number % 10}"), StepId("1")
    asked = ActionDispatched(
        step=step,
        topic=topic,
        version=1,
        args={"n": number},
        digest="d" * 32,
        rule="default",
        policy="p" * 64,
        key=f"{number:032x}",
        contract=Contract(topic=topic),
    )
    return (asked, AttemptSucceeded(step=step, attempt=1, result=number))
