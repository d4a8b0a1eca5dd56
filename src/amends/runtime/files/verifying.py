"""Knowledge of a landing besides its arguments: in which environment its command runs, and what must not be told.

Both belong to the process and not to the record: the values of secrets are in them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextvars import ContextVar
from typing import Final

from amends.core.state.saga import Saga
from amends.core.words.values import CALL, SagaId
from amends.journal.port.journal import Journal
from amends.runtime.drive.kinship import child_id, former_child_id
from amends.runtime.drive.logbook import load
from amends.runtime.drive.run import Run
from amends.secrets import Secret, secrets_on_record

LANDS: Final = "amends.lands"
"""The label of a landing by hand, or of a resolution: the saga whose work it is."""
verifying_in: ContextVar[Mapping[str, str] | None] = ContextVar("amends_verifying_in", default=None)
"""What the command that verifies a landing sees; otherwise the little that every program needs."""
at_hand: ContextVar[tuple[Secret, ...]] = ContextVar("amends_secrets_at_hand", default=())
"""What the files that land may hold, and no diff or report of them may tell."""


async def secrets_of_work(run: Run) -> tuple[Secret, ...]:
    """All secrets that were given to those who worked on what a saga lands: itself, its children, and whose it is."""
    known = {secret.stored(""): secret for secret in run.all_secrets()}
    journal = run.around.lock_queue.journal
    async for saga in _others(journal, run.book.saga):
        known |= {secret.stored(""): secret for secret in secrets_of_saga(saga)}
    return tuple(known.values())


async def _others(journal: Journal, saga: Saga) -> AsyncIterator[Saga]:
    """The children that shared its files, theirs, and the saga whose work it lands, with those of that."""
    if saga.begun is not None and (owner := saga.begun.labels.get(LANDS)):
        whose = await _loaded(journal, SagaId(owner))
        if whose is not None:
            yield whose
            async for each in _others(journal, whose):
                yield each
    for step in saga.steps.values():
        shares = isinstance(step.args, dict) and step.args.get("files") is not None
        if step.topic != CALL or not shares:
            continue
        for name in dict.fromkeys((child_id(saga.id, step.id), former_child_id(saga.id, step.id))):
            child = await _loaded(journal, name)
            if child is not None:
                yield child
                async for each in _others(journal, child):
                    yield each


async def _loaded(journal: Journal, saga: SagaId) -> Saga | None:
    row = await journal.saga(saga)
    return None if row is None or row.pruned else await load(journal, saga)


def secrets_of_saga(saga: Saga) -> Iterator[Secret]:
    """All that is on record of one, as far as this process can have their values."""
    if saga.begun is not None:
        yield from secrets_on_record(saga.id, saga.begun.input)
    for state in saga.steps.values():
        yield from secrets_on_record(saga.id, state.args, state.result, state.before)


async def secrets_of_owner(journal: Journal, saga: SagaId) -> tuple[Secret, ...]:
    """Secrets on record of a saga that nobody drives here, with those who worked with it."""
    found = await _loaded(journal, saga)
    if found is None:
        return ()
    known = list(secrets_of_saga(found))
    async for other in _others(journal, found):
        known += secrets_of_saga(other)
    return tuple(known)
