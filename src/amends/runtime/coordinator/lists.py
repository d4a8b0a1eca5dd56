"""Views of a journal: pages of rows, and one saga whole."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from amends.core.state.saga import Saga
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId
from amends.dataclass import dataclass
from amends.journal.port.journal import Entry, SagaRow

if TYPE_CHECKING:
    from amends.evidence.story.timeline import Line

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One saga, whole: its row in the lists, its state, and every entry.

    Of one that is `pruned` only the row, and the numbers, times and names of the entries are left; its state is empty.
    """

    row: SagaRow
    saga: Saga
    entries: tuple[Entry, ...]

    @property
    def id(self) -> SagaId:
        return self.row.id

    @property
    def status(self) -> SagaStatus:
        return self.row.status

    @property
    def pruned(self) -> bool:
        return any(entry.is_removed for entry in self.entries)

    @property
    def timeline(self) -> tuple[Line, ...]:
        """Lines on what happened, for people."""
        from amends.evidence.story.timeline import timeline

        return timeline(self.entries)


class Listing(Generic[Row]):
    """Awaited, it is its first page; iterated with `async for`, it goes on through all of them.

    next: after a page, where the next one begins; None where there is none.
    """

    def __init__(
        self,
        page: Callable[[str | None], Awaitable[tuple[tuple[Row, ...], str | None]]],
        begins: str | None = None,
    ) -> None:
        self._page = page
        self._begins = begins
        self.next: str | None = None

    def __await__(self) -> Generator[Any, None, list[Row]]:
        return self._first().__await__()

    async def _first(self) -> list[Row]:
        rows, self.next = await self._page(self._begins)
        return list(rows)

    async def __aiter__(self) -> AsyncIterator[Row]:
        cursor = self._begins
        while True:
            rows, cursor = await self._page(cursor)
            for row in rows:
                yield row
            if cursor is None:
                return
