"""Versioned JSON documents: the port, its data, and the rules for changing one. The same for every store.

A document is a name and its versions, 1, 2, 3; one whose newest version has no body is deleted. Until a saga that
changed one has ended, nobody else may: it holds the resource `document:<name>`, and its versions are not final. Others
read the newest version that is. Each write has a key; the same key again is the same write.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from amends.core.values import Json, SagaId
from amends.dataclass import dataclass
from amends.errors import DocumentConflictError, InputError, LeaseLostError

LONGEST_DOCUMENT_NAME: Final = 200


class DocumentWrite(NamedTuple):
    """`body` is its canonical JSON; None deletes it. `expect` is the version that it has to have now, 0 for one that is
    not there, None for any. `own`: only if the saga itself wrote its newest version. `keep`: so many versions at least.
    `epoch` is that of the lease under which a saga's driver writes: one that was replaced changes nothing.
    """

    name: str
    body: str | None
    key: str
    saga: SagaId
    by: str
    expect: int | None = None
    own: bool = False
    keep: int = 100
    epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One version of a document. `deleted`: it has no body, and the document was not there from then on.

    `saga` is the one that wrote it, "" outside of sagas; `final` is false as long as that may still take it back.
    """

    name: str
    version: int
    body: Json
    deleted: bool
    saga: SagaId
    by: str
    at: int
    final: bool = True


class DocumentPage(NamedTuple):
    rows: tuple[Document, ...]
    cursor: str | None


class Filing(Protocol):
    """What a journal does for documents."""

    async def write(self, write: DocumentWrite) -> Document:
        """A new version; or the one that was written with this key. Raises DocumentConflictError, LeaseLostError."""
        ...

    async def written(self, key: str) -> Document | None:
        """The version that was written with this key."""
        ...

    async def document(self, name: str, *, reader: SagaId | None = None, version: int | None = None) -> Document | None:
        """The newest version that `reader` may go by: its own, else the newest that is final. Or this very version."""
        ...

    async def documents(self, prefix: str, *, after: str | None = None, limit: int = 100) -> DocumentPage:
        """The newest final version of each that is there, by name."""
        ...

    async def versions(self, name: str, *, after: str | None = None, limit: int = 100) -> DocumentPage:
        """Those that are kept, oldest first."""
        ...


def resource_of(name: str) -> str:
    return f"document:{name}"


def checked_document_name(name: str) -> str:
    """Raises InputError for what cannot be one."""
    fits = 0 < len(name) <= LONGEST_DOCUMENT_NAME and name.isprintable() and name == name.strip()
    if not fits or name.startswith("/") or name.endswith("/") or "//" in name:
        raise InputError(
            f"{name[:80]!r} cannot name a document: 1 to {LONGEST_DOCUMENT_NAME} printable characters can, "
            "in parts with / between them, as 'prices/2026'"
        )
    return name


class Shelf(Protocol):
    """The documents of a store, in a transaction of its own."""

    def newest(self, name: str, *, without: SagaId | None = None) -> Document | None:
        """The newest version, leaving out those that this saga wrote."""
        ...

    def written(self, key: str) -> Document | None: ...

    def holder(self, name: str) -> SagaId | None:
        """The saga that holds the document's resource."""
        ...

    def epoch(self, saga: SagaId) -> int | None:
        """Of the saga's newest lease."""
        ...

    def add(self, write: DocumentWrite, version: int) -> Document: ...

    def forget(self, name: str, up_to: int) -> None:
        """Remove the versions up to this one."""
        ...


def changed(shelf: Shelf, write: DocumentWrite) -> Document:
    """What becomes of a write: the same rules for every store. Raises DocumentConflictError."""
    if write.epoch is not None and shelf.epoch(write.saga) != write.epoch:
        raise LeaseLostError(f"saga {write.saga}: document {write.name} was not written: another worker drives it now")
    before = shelf.written(write.key)
    if before is not None:
        return before
    newest, holder = shelf.newest(write.name), shelf.holder(write.name)
    _check(write, newest, holder)
    version = 1 if newest is None else newest.version + 1
    made = shelf.add(write, version)
    final = seen(shelf, write.name, None)
    if final is not None:
        shelf.forget(write.name, min(version - write.keep, final.version - 1))
    return made


def _check(write: DocumentWrite, newest: Document | None, holder: SagaId | None) -> None:
    version = 0 if newest is None else newest.version
    if holder is not None and holder != write.saga:
        raise DocumentConflictError(
            f"document {write.name} is being changed by saga {holder}, which has not ended; try again when it has, or "
            f"wait for it first: hold {resource_of(write.name)!r}",
            document=write.name,
        )
    is_own = newest is not None and bool(write.saga) and newest.saga == write.saga
    if write.own and not is_own:
        raise _moved(write, newest, "it was changed since by")
    is_there = newest is not None and not newest.deleted
    expected = write.expect is None or version == write.expect or (write.expect == 0 and not is_there)
    if not expected and not (is_own and holder == write.saga):
        raise _moved(write, newest, f"version {write.expect} was expected, and it was changed by")


def _moved(write: DocumentWrite, newest: Document | None, what: str) -> DocumentConflictError:
    whose = "nobody" if newest is None else (f"saga {newest.saga}" if newest.saga else newest.by)
    version = 0 if newest is None else newest.version
    return DocumentConflictError(
        f"document {write.name} has version {version}: {what} {whose}; read it again, and decide anew",
        document=write.name,
    )


def seen(shelf: Shelf, name: str, reader: SagaId | None) -> Document | None:
    """The version that a reader may go by."""
    holder = shelf.holder(name)
    return shelf.newest(name) if holder is None or holder == reader else shelf.newest(name, without=holder)
