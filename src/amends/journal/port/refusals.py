"""Why an append was refused, in the same words for every store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from amends.core.events import Event, SagaStarted
from amends.core.words.values import SagaId
from amends.errors import (
    EvidenceKeyError,
    InputError,
    JournalConflictError,
    JournalStoppedError,
    LeaseLostError,
    UnknownSagaError,
)
from amends.journal.port.leases import Lease
from amends.journal.port.log import Cursor

LONGEST_ID: Final = 200
LONGEST_NAME: Final = 1_000
LONGEST_NOTE: Final = 16_000


def conflict(saga: SagaId, after: int, head: int) -> JournalConflictError:
    return JournalConflictError(
        f"saga {saga}: nothing was written after entry {after}, because the newest is {head}; read on and decide again"
    )


def lease_lost(lease: Lease, epoch: int, worker: str) -> LeaseLostError:
    return LeaseLostError(
        f"saga {lease.saga}: nothing was written, because the lease of {lease.worker} (epoch {lease.epoch}) has ended; "
        f"{worker or 'nobody'} holds it now (epoch {epoch})"
    )


def closed() -> JournalStoppedError:
    return JournalStoppedError("the journal is closed; open it again")


def wrong_lease(saga: SagaId, lease: Lease) -> LeaseLostError:
    return LeaseLostError(f"saga {saga}: nothing was written, because the lease is one for saga {lease.saga}")


def begun(saga: SagaId, events: Sequence[Event], after: int, lease: Lease | None) -> SagaStarted:
    """The start of a saga that the store does not know yet."""
    if after != 0:
        raise conflict(saga, after, 0)
    if not events or not isinstance(events[0], SagaStarted):
        raise UnknownSagaError(f"there is no saga {saga}, and what came is not its start")
    if lease is not None and lease.epoch != 1:
        raise lease_lost(lease, 0, "")
    if not saga.isprintable() or not 0 < len(saga) <= LONGEST_ID:
        raise InputError(f"{saga[:LONGEST_ID]!r} cannot be a saga's id: 1 to {LONGEST_ID} printable characters can")
    return events[0]


def check_name(name: str, what: str) -> None:
    """Raises InputError for what cannot be the name of a cursor or a rate."""
    is_text = name.encode(errors="replace").decode() == name
    if not is_text or not 0 < len(name) <= LONGEST_NAME:
        raise InputError(f"{name[:80]!r} cannot name {what}: 1 to {LONGEST_NAME} characters of text can")


def check_cursor(cursor: Cursor) -> None:
    """Raises InputError for what cannot be kept."""
    check_name(cursor.name, "a cursor")
    if cursor.position < 0:
        raise InputError(f"{cursor.position} is no position in the log; they count from 1, and 0 is before the first")
    if len(cursor.note) > LONGEST_NOTE or cursor.note.encode(errors="replace").decode() != cursor.note:
        raise InputError(f"the note on cursor {cursor.name} cannot be kept: {LONGEST_NOTE} characters of text can")


def not_held(key: str) -> EvidenceKeyError:
    return EvidenceKeyError(
        f"the journal is signed by {key}, and the key that was given is another one; give the right one "
        "(its file, or AMENDS_EVIDENCE_KEY, _KEY_FILE or _KEY_COMMAND), or change keys: amends evidence rotate"
    )
