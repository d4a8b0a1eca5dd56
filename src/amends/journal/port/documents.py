"""Versioned JSON documents: the port, its data, and the rules for changing one. The same for every store.

A document is a name and its versions, 1, 2, 3; one whose newest version has no body is deleted. Until a saga that
changed one has ended, nobody else may: it holds the resource `document:<name>`, and its versions are not final. Others
read the newest version that is. Each write has a key; the same key again is the same write.

A family, a saga with its children and theirs, holds a document as one, until the saga that is nobody's child has ended.
Inside of it, what counts is the sequence: each may go on from what those above it have written, and from what a branch
beside it has, once that has ended. Branches that run side by side conflict. A branch that began later goes back first:
nobody goes on from what such a one has written either. What was taken back is no change any more, even
while whoever took it back is still under way.

A change is taken back by a version with the body from before it. That version *stems* from where its body comes from,
so whoever takes back what is older finds its own again, however many have come and gone meanwhile.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from amends.core.words.values import Json, SagaId
from amends.dataclass import dataclass
from amends.errors import DocumentConflictError, InputError, LeaseLostError

LONGEST_DOCUMENT_NAME: Final = 200


class DocumentWrite(NamedTuple):
    """`body` is its canonical JSON; None deletes it. `expect` is the version that it has to have now, 0 for one that is
    not there, None for any. `takes_back` is the version of the saga's own that this one takes back: only if the newest
    stems from the saga, or from one below it. `keep`: so many versions at least. `epoch` is that of the lease under
    which a saga's driver writes: one that was replaced changes nothing.
    """

    name: str
    body: str | None
    key: str
    saga: SagaId
    by: str
    expect: int | None = None
    takes_back: int = 0
    keep: int = 100
    epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One version of a document. `deleted`: it has no body, and the document was not there from then on.

    `saga` is the one that wrote it, "" outside of sagas; `final` is false as long as that, or one above it, may still
    take it back. `takes_back`: the version that it took back, and that stands no more; 0 where it changed something.
    """

    name: str
    version: int
    body: Json
    deleted: bool
    saga: SagaId
    by: str
    at: int
    final: bool = True
    takes_back: int = 0


class Kin(NamedTuple):
    """A saga as one of a family, as a store knows it. `place` rises with each saga that began."""

    parent: SagaId | None
    ended: bool
    place: int


class DocumentPage(NamedTuple):
    rows: tuple[Document, ...]
    cursor: str | None


class DocumentStore(Protocol):
    """Documents and their versions. `amends.documents` is what people hold of it."""

    async def write(self, write: DocumentWrite) -> Document:
        """A new version; or the one that was written with this key. Raises DocumentConflictError, LeaseLostError."""
        ...

    async def written(self, key: str) -> Document | None:
        """The version that was written with this key."""
        ...

    async def document(self, name: str, *, reader: SagaId | None = None, version: int | None = None) -> Document | None:
        """The newest version that `reader` may go by: its own or its family's, else the newest that is final. Or this
        very version.
        """
        ...

    async def documents(self, prefix: str, *, after: str | None = None, limit: int = 100) -> DocumentPage:
        """The newest final version of each that is there, by name."""
        ...

    async def versions(self, name: str, *, after: str | None = None, limit: int = 100) -> DocumentPage:
        """Versions that are kept, oldest first."""
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


class DocumentsTransaction(Protocol):
    """The documents of a store, in a transaction of its own."""

    def newest(self, name: str, *, without: tuple[SagaId, ...] = ()) -> Document | None:
        """The newest version, leaving out those that these sagas wrote."""
        ...

    def version(self, name: str, version: int) -> Document | None: ...

    def written(self, key: str) -> Document | None: ...

    def holder(self, name: str) -> SagaId | None:
        """The saga that holds the document's resource."""
        ...

    def kin(self, saga: SagaId) -> Kin | None: ...

    def epoch(self, saga: SagaId) -> int | None:
        """Of the saga's newest lease."""
        ...

    def add(self, write: DocumentWrite, version: int) -> Document: ...

    def forget(self, name: str, up_to: int) -> None:
        """Remove the versions up to this one."""
        ...


def changed(shelf: DocumentsTransaction, write: DocumentWrite) -> Document:
    """The document that a write leads to, by the same rules for every store. Raises DocumentConflictError."""
    if write.epoch is not None and shelf.epoch(write.saga) != write.epoch:
        raise LeaseLostError(f"saga {write.saga}: document {write.name} was not written: another worker drives it now")
    before = shelf.written(write.key)
    if before is not None:
        return before
    newest = shelf.newest(write.name)
    _check(shelf, write, newest)
    version = 1 if newest is None else newest.version + 1
    made = shelf.add(write, version)
    final = seen(shelf, write.name, None)
    if final is not None:
        shelf.forget(write.name, min(version - write.keep, final.version - 1))
    return made


def _check(shelf: DocumentsTransaction, write: DocumentWrite, newest: Document | None) -> None:
    holder = shelf.holder(write.name)
    if holder is not None and holder != write.saga and holder != _line(shelf, write.saga)[-1]:
        raise _taken(write, holder)
    if write.takes_back:
        stem = stem_of(shelf, newest)
        if stem is None or not is_below(shelf, stem.saga, write.saga):
            raise _moved(write, stem or newest, "it was changed since by")
        return
    beside = None if holder is None else _standing_beside(shelf, newest, write.saga)
    if beside is not None:
        raise _beside(write, beside)
    version = 0 if newest is None else newest.version
    is_there = newest is not None and not newest.deleted
    expected = write.expect is None or version == write.expect or (write.expect == 0 and not is_there)
    is_own = newest is not None and holder is not None and is_below(shelf, newest.saga, write.saga)
    if not expected and not is_own:
        raise _moved(write, newest, f"version {write.expect} was expected, and it was changed by")


def _taken(write: DocumentWrite, holder: SagaId) -> DocumentConflictError:
    return DocumentConflictError(
        f"document {write.name} is being changed by saga {holder}, which has not ended; try again when it has, or "
        f"wait for it first: hold {resource_of(write.name)!r}",
        document=write.name,
    )


def _beside(write: DocumentWrite, branch: SagaId) -> DocumentConflictError:
    return DocumentConflictError(
        f"document {write.name} was changed by saga {branch}, which runs beside saga {write.saga} in one family; call "
        "one after the other, or let only one of them change it",
        document=write.name,
    )


def _moved(write: DocumentWrite, newest: Document | None, what: str) -> DocumentConflictError:
    whose = "nobody" if newest is None else (f"saga {newest.saga}" if newest.saga else newest.by)
    version = 0 if newest is None else newest.version
    return DocumentConflictError(
        f"document {write.name} has version {version}: {what} {whose}; read it again, and decide anew",
        document=write.name,
    )


def seen(shelf: DocumentsTransaction, name: str, reader: SagaId | None) -> Document | None:
    """The version that a reader may go by."""
    holder, passed = shelf.holder(name), list[SagaId]()
    while True:
        found = shelf.newest(name, without=tuple(passed))
        if found is None or holder is None or not found.saga or _may_go_by(shelf, found, reader, holder):
            return found
        passed.append(found.saga)


def is_final(shelf: DocumentsTransaction, found: Document) -> bool:
    """Whether nobody may still take it back."""
    holder = shelf.holder(found.name)
    return not found.saga or holder is None or not is_below(shelf, found.saga, holder)


# -- families ---------------------------------------------------------------------------------------------------------


def _line(shelf: DocumentsTransaction, saga: SagaId) -> tuple[SagaId, ...]:
    """A saga and those above it, up to the one that is nobody's child."""
    line = [saga]
    while (kin := shelf.kin(line[-1])) is not None and kin.parent is not None and kin.parent not in line:
        line.append(kin.parent)
    return tuple(line)


def is_below(shelf: DocumentsTransaction, saga: SagaId, above: SagaId) -> bool:
    """Whether it is that very saga, or one that it called, or one that such a one did."""
    return bool(saga) and (saga == above or above in _line(shelf, saga))


def stem_of(shelf: DocumentsTransaction, newest: Document | None) -> Document | None:
    """The version whose body stands now: what was taken back, and what took it back, are passed over."""
    found = newest
    while found is not None and found.takes_back:
        before = shelf.version(found.name, found.takes_back - 1)
        if before is None and found.takes_back > 1:
            return found  # it is not kept any more: nobody is left who could have written it
        found = before
    return found


def beside_of(shelf: DocumentsTransaction, writer: SagaId, other: SagaId) -> SagaId | None:
    """The saga by which what `writer` wrote lies beside `other`, and not before it; None where it lies before it."""
    if not writer or writer == other:
        return None
    line, mine = _line(shelf, writer), _line(shelf, other)
    if line[-1] != mine[-1] or writer in mine:
        return None
    common = next(place for place, saga in enumerate(line) if saga in mine)
    branch = line[common - 1]
    kin = shelf.kin(branch)
    if kin is None or not kin.ended:
        return branch
    under = mine.index(line[common])
    own = shelf.kin(mine[under - 1]) if under else None
    return branch if own is not None and kin.place > own.place else None


def _standing_beside(shelf: DocumentsTransaction, newest: Document | None, other: SagaId) -> SagaId | None:
    """The saga beside `other` whose change stands; None where there is none. What was taken back is no change."""
    stem = stem_of(shelf, newest)
    return None if stem is None else beside_of(shelf, stem.saga, other)


def _may_go_by(shelf: DocumentsTransaction, found: Document, reader: SagaId | None, holder: SagaId) -> bool:
    if not is_below(shelf, found.saga, holder):
        return True
    return reader is not None and is_below(shelf, reader, holder) and _standing_beside(shelf, found, reader) is None
