"""Documents inside a saga: `s.state` and `s.documents`, whose reads and changes are steps of built-in actions.

A change is judged, journaled and resumed like any other step. It takes the document's resource, without waiting, so
that until the saga has ended nobody but its family changes it; taking it back writes the body of before as a new
version, unless someone else has changed it since.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from amends.core.words.contracts import Reversibility, key_of
from amends.core.words.values import LARGEST_VALUE, SagaId, canonical
from amends.dataclass import dataclass
from amends.documents.documents import spelled_body
from amends.errors import (
    ChangedSince,
    DeadlockError,
    DocumentConflictError,
    Fatal,
    InputError,
    StepFailedError,
    StepFatalError,
)
from amends.journal.port.documents import Document, DocumentWrite, checked_document_name
from amends.journal.port.journal import Journal
from amends.runtime.declare.action import Action, Asked, Done, Happened, NotHappened, key
from amends.runtime.declare.decorators import action
from amends.runtime.drive.validation import DoNamed
from amends.secrets import secrets_in

if TYPE_CHECKING:
    from amends.runtime.saga.open import Drive


@dataclass(frozen=True, slots=True, kw_only=True)
class Office:
    """Where the built-in actions of one drive find the documents, and on whose behalf they write."""

    journal: Journal
    saga: SagaId
    epoch: int | None
    actor: str
    most_bytes: int
    keep: int

    async def write(
        self, name: str, body: str | None, use: str, *, expect: int | None = None, takes_back: int = 0
    ) -> Document:
        asked = DocumentWrite(name, body, use, self.saga, self.actor, expect, takes_back, self.keep, self.epoch)
        return await self.journal.write(asked)


office: ContextVar[Office] = ContextVar("amends_office")


@dataclass(frozen=True, slots=True)
class DocumentOwner:
    """Whose documents they are, where the journal is elsewhere and looks at their size itself."""

    actor: str
    most_bytes: int = LARGEST_VALUE


# -- the built-in actions ---------------------------------------------------------------------------------------------


@action("amends.document.get", read_only=True)
async def get_document(name: str) -> dict[str, Any]:
    """Read the newest version of a document that is final, or this saga's own or its family's."""
    here = office.get()
    found = await here.journal.document(name, reader=here.saga)
    if found is None:
        return {"version": 0, "body": None, "deleted": True}
    return {"version": found.version, "body": found.body, "deleted": found.deleted}


async def _change(name: str, body: str | None, expect: int | None) -> dict[str, Any]:
    try:
        made = await office.get().write(name, body, key(), expect=expect)
    except DocumentConflictError as exc:
        raise Fatal(str(exc), happened=False) from None
    return {"version": made.version}


@action("amends.document.set", idempotent=True, resources=["document:{name}"], lock_wait=0)
async def set_document(name: str, body: Any, expect: int | None = None) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """Write a new version of a document."""
    return await _change(name, canonical(body), expect)


@action("amends.document.delete", idempotent=True, resources=["document:{name}"], lock_wait=0)
async def delete_document(name: str, expect: int | None = None) -> dict[str, Any]:
    """Delete a document."""
    return await _change(name, None, expect)


async def _restore(done: Done) -> None:
    """Write what was there before as a new version, unless someone else has changed it since."""
    here, name = office.get(), str(done.args["name"])
    mine = await here.journal.written(done.action_key)
    if mine is None:
        return  # it never happened
    before = None if mine.version == 1 else await here.journal.document(name, version=mine.version - 1)
    if before is None and mine.version > 1:
        raise Fatal(f"version {mine.version - 1} of document {name} is not kept any more; restore it by hand")
    body = None if before is None or before.deleted else canonical(before.body)
    try:
        await here.write(name, body, done.key, takes_back=mine.version)
    except DocumentConflictError as exc:
        raise ChangedSince(str(exc)) from None


def _probe(change: Action[..., Any]) -> Callable[[Asked], Coroutine[Any, Any, Happened | NotHappened]]:
    """Whether a change stands now: it was written, and not taken back since. It is never written twice."""

    async def find(asked: Asked) -> Happened | NotHappened:
        journal = office.get().journal
        mine = await journal.written(asked.key)
        taken_back = await journal.written(key_of(asked.saga, asked.step, change.topic, "undo"))
        return NotHappened() if mine is None or taken_back is not None else Happened({"version": mine.version})

    return find


for _one in (set_document, delete_document):
    _one.compensation(_restore)
    _one.probe(_probe(_one))
    _one.contract = replace(_one.contract, reversibility=Reversibility.REVERSIBLE)


# -- what a saga's function holds -------------------------------------------------------------------------------------


class State:
    """A saga's way to documents; each method is a step, or two, and is awaited."""

    def __init__(self, do: DoNamed, *, own: bool, owner: Callable[[], Office | DocumentOwner] = office.get) -> None:
        self._do = do
        self._own = own
        self._owner = owner
        self._seen: dict[str, int] = {}

    def _name(self, name: str) -> str:
        """Its own documents stand under the name of the saga's actor."""
        return checked_document_name(f"{self._owner().actor}/{name}" if self._own else name)

    async def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - any JSON value
        """Content of the document: this saga's own change, else the newest version that is final."""
        found = await self._read(self._name(name))
        return default if found["deleted"] else found["body"]

    async def set(self, name: str, body: Any, *, expect: int | None = None) -> int:  # noqa: ANN401 - any JSON value
        """Write it; its new version. What this saga has read must be unchanged since; `expect` says it outright.

        Raises DocumentConflictError, TooLargeError, NotJsonError.
        """
        full = self._name(name)
        if any(True for _ in secrets_in(body)):
            raise InputError(f"document {full} cannot hold a secret: it is kept as it is; store a reference instead")
        spelled_body(full, body, self._owner().most_bytes)
        return await self._write(set_document, {"name": full, "body": body}, expect)

    async def update(self, name: str, change: Callable[[Any], Any], default: Any = None) -> Any:  # noqa: ANN401 - any JSON
        """Read it, have `change` make a new body of it, and write that if nobody changed it meanwhile; the new body."""
        body = change(await self.get(name, default))
        await self.set(name, body)
        return body

    async def delete(self, name: str, *, expect: int | None = None) -> None:
        """Delete it."""
        await self._write(delete_document, {"name": self._name(name)}, expect)

    async def _read(self, full: str) -> dict[str, Any]:
        found = cast("dict[str, Any]", await self._do(get_document, {"name": full}))
        self._seen[full] = 0 if found["deleted"] else found["version"]
        return found

    async def _write(self, change: Action[..., Any], named: dict[str, object], expect: int | None) -> int:
        full = str(named["name"])
        named["expect"] = self._seen.get(full) if expect is None else expect
        try:
            made = await self._do(change, named)
        except DeadlockError:
            raise
        except (StepFailedError, StepFatalError) as exc:
            raise DocumentConflictError(exc.reason, document=full) from None
        self._seen[full] = made["version"]
        return int(made["version"])


class SessionState:
    """Documents, as a session reads and writes them: each change is a step."""

    def __init__(self, act: Callable[[Callable[[Drive], Coroutine[Any, Any, Any]]], Any], *, own: bool) -> None:
        self._act = act
        self._own = own

    def _of(self, drive: Drive) -> State:
        return State(drive.work.do_named, own=self._own)

    async def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - any JSON value
        """The document; `default` where there is none."""
        return await self._act(lambda drive: self._of(drive).get(name, default))

    async def set(self, name: str, body: Any, *, expect: int | None = None) -> int:  # noqa: ANN401 - any JSON value
        """Write it; gives its version. Raises DocumentConflictError where it is not of the version `expect`."""
        return int(await self._act(lambda drive: self._of(drive).set(name, body, expect=expect)))

    async def update(self, name: str, change: Callable[[Any], Any], default: Any = None) -> Any:  # noqa: ANN401 - any JSON
        """Write what `change` makes of it; gives that."""
        return await self._act(lambda drive: self._of(drive).update(name, change, default))

    async def delete(self, name: str, *, expect: int | None = None) -> None:
        """Delete it, as a rollback brings it back."""
        await self._act(lambda drive: self._of(drive).delete(name, expect=expect))
