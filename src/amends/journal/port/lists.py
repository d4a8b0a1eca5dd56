"""The part of the port that lists sagas, incidents and approvals, page by page.

Where a page ended is text, to be handed back. It names a key, never an offset, so new rows do not shift pages.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from amends.core.events import IncidentKind
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId, StepId
from amends.dataclass import dataclass
from amends.errors import InputError

_DIGITS: Final = 18  # more does not fit into a column


@dataclass(frozen=True, slots=True, kw_only=True)
class SagaRow:
    id: SagaId
    definition: str
    version: int
    env: str
    actor: str
    status: SagaStatus
    labels: dict[str, str]
    started_at: int
    updated_at: int
    ended_at: int | None
    entries: int
    open_incidents: int
    open_approvals: int
    pruned: bool = False
    """What its entries held was removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentRow:
    """`id` is `<saga>/<number>`."""

    id: str
    saga: SagaId
    number: int
    definition: str
    kind: IncidentKind
    step: StepId | None
    why: str
    left: tuple[StepId, ...]
    owner: str
    status: str
    opened_at: int
    closed_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRow:
    """`id` is `<saga>/<step>`."""

    id: str
    saga: SagaId
    step: StepId
    definition: str
    topic: str
    rule: str
    status: str
    requested_at: int
    expires_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SagaQuery:
    """Filters are joined by and; None means any. Newest first; `before` is the cursor of the page before.

    `starts_with` is how the id begins: such a list is in the order of ids, the last first. `key` is that of a call, as
    far as `note_keys` has noted them. `without` names definitions whose sagas are left out; `labels` are names and
    values, all of which a saga has. From a time on, and until before one.
    """

    statuses: tuple[SagaStatus, ...] | None = None
    definition: str | None = None
    topic: str | None = None
    env: str | None = None
    parent: SagaId | None = None
    started_from: int | None = None
    started_until: int | None = None
    ended_from: int | None = None
    ended_until: int | None = None
    labels: tuple[tuple[str, str], ...] = ()
    starts_with: str = ""
    key: str | None = None
    without: tuple[str, ...] = ()
    before: str | None = None
    limit: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonQuery:
    """For approvals and incidents; oldest first, because the oldest has waited longest. `after` is a cursor."""

    open_only: bool = True
    saga: SagaId | None = None
    after: str | None = None
    limit: int = 100


class SagaPage(NamedTuple):
    rows: tuple[SagaRow, ...]
    cursor: str | None


class IncidentPage(NamedTuple):
    rows: tuple[IncidentRow, ...]
    cursor: str | None


class ApprovalPage(NamedTuple):
    rows: tuple[ApprovalRow, ...]
    cursor: str | None


class Lists(Protocol):
    """Lists of sagas, and of what waits for people, as people see them."""

    async def saga(self, saga: SagaId) -> SagaRow | None: ...

    async def sagas(self, query: SagaQuery) -> SagaPage: ...

    async def note_keys(self) -> bool:
        """Go on noting the keys of calls from the log, for who looks for one; whether all of them are noted now.

        They are noted apart from the appends: a key is as good as random, so each would cost its step a page more.
        """
        ...

    async def incidents(self, query: PersonQuery) -> IncidentPage: ...

    async def approvals(self, query: PersonQuery) -> ApprovalPage: ...


def spell(*key: int) -> str:
    return ".".join(map(str, key))


def read(cursor: str, parts: int) -> tuple[int, ...]:
    """Raises InputError for what no page has said."""
    texts = cursor.split(".")
    if len(texts) != parts or not all(_is_number(text) for text in texts):
        raise InputError(f"{cursor!r} is not a cursor; pass the one that the page before came with, unchanged")
    return tuple(map(int, texts))


def read_id(cursor: str, starts_with: str) -> str:
    """The id at which a page in the order of ids ended. Raises InputError for what no page has said."""
    if not cursor.startswith(starts_with):
        raise InputError(f"{cursor!r} is not a cursor; pass the one that the page before came with, unchanged")
    return cursor


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and text.isascii() and len(text) <= _DIGITS
