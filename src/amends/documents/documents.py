"""`coordinator.documents`: versioned JSON documents beside the sagas, read and changed from outside of them.

What sagas do with documents are steps, in saga.documents. Here a change is one write, made or refused.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from amends.clock import Clock
from amends.core.state.deciders import checked_name
from amends.core.words.values import SagaId, canonical
from amends.errors import DocumentConflictError, TooLargeError
from amends.journal.port.documents import Document, DocumentWrite, checked_document_name
from amends.journal.port.journal import Journal

_PAGE: Final = 100


def spelled_body(name: str, body: object, most: int) -> str:
    """A document's canonical JSON. Raises NotJsonError or TooLargeError."""
    text = canonical(body, what=f"document {name}")
    if len(text.encode()) > most:
        raise TooLargeError(
            f"document {name} takes {len(text.encode())} bytes as JSON, and at most {most} are kept "
            "(document_bytes); split it, or keep it elsewhere and store a reference"
        )
    return text


class Documents:
    """All documents of a journal. Reads see final versions: none that a saga under way may still take back."""

    def __init__(self, journal: Journal, clock: Clock, *, most_bytes: int, keep: int, by: str) -> None:
        """`by` is who writes where nobody says it."""
        self._journal = journal
        self._clock = clock
        self._most_bytes = most_bytes
        self._keep = keep
        self._by = by

    async def get(self, name: str) -> Document | None:
        """Its newest final version; None where there is none, or it was deleted."""
        found = await self._journal.document(checked_document_name(name))
        return None if found is None or found.deleted else found

    async def list(self, prefix: str = "") -> list[Document]:
        """Documents whose names begin so, by name."""
        found: list[Document] = []
        cursor: str | None = None
        while True:
            page = await self._journal.documents(prefix, after=cursor, limit=_PAGE)
            found += page.rows
            cursor = page.cursor
            if cursor is None:
                return found

    async def history(self, name: str) -> AsyncIterator[Document]:
        """Every version that is kept, oldest first, with those that are not final: `async for`."""
        cursor: str | None = None
        while True:
            page = await self._journal.versions(checked_document_name(name), after=cursor, limit=_PAGE)
            for one in page.rows:
                yield one
            cursor = page.cursor
            if cursor is None:
                return

    async def put(self, name: str, body: Any, *, expect: int | None = None, by: str | None = None) -> Document:  # noqa: ANN401 - any JSON value
        """Write a new version. `expect` is the version that it has to have now, 0 for one that is not there yet.

        Raises DocumentConflictError where it has another, or a saga that has not ended holds it.
        """
        text = spelled_body(name, body, self._most_bytes)
        return await self._write(name, text, expect, by)

    async def delete(self, name: str, *, expect: int | None = None, by: str | None = None) -> None:
        """Delete it; its versions are kept as long as any."""
        await self._write(name, None, expect, by)

    async def _write(self, name: str, text: str | None, expect: int | None, by: str | None) -> Document:
        asked = DocumentWrite(
            name=checked_document_name(name),
            body=text,
            key=f"put-{self._clock.new_id()}",
            saga=SagaId(""),
            by=self._by if by is None else checked_name(by),
            expect=expect,
            keep=self._keep,
        )
        return await self._journal.write(asked)


__all__ = ["Document", "DocumentConflictError", "Documents", "spelled_body"]
