"""The journal of a server, for who only looks: its lists and entries over HTTP, as a journal at hand gives them.

It is read where it is asked, and nothing of it has to be waited for by a loop, as with a journal that is looked at.
What only the server's own process may see or do is refused, with where to do it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast
from urllib.parse import quote

from amends.clock import SystemClock
from amends.core.words.values import OWN, Json, SagaId
from amends.errors import InputError, UnknownError
from amends.journal.codec import decode
from amends.journal.port.entries import RemovedEntry
from amends.journal.port.journal import (
    ApprovalRow,
    Entry,
    IncidentRow,
    Journal,
    LeaseHolder,
    PersonQuery,
    SagaQuery,
    SagaRow,
)
from amends.journal.port.leases import WorkerRow
from amends.journal.port.lists import ApprovalPage, IncidentPage, SagaPage
from amends.journal.port.locks import LockPage, LockQuery, LockRow
from amends.remote.asking import row as row_of
from amends.remote.errors import refusal
from amends.remote.server import Fields, blocking_client, problem_of, unreachable

if TYPE_CHECKING:
    from httpx2 import Response  # of an extra, loaded by who connects

_PAGE: Final = 1000
_LIVING: Final = "drives"


def server_journal(url: str, token: str | None) -> Journal:
    """A server's journal, to be read; what it cannot do it refuses."""
    return cast("Journal", ServerJournal(url, token))


class ServerJournal:
    """Reads alone. `fetch` asks for anything else that the server tells."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url = url
        self._client = blocking_client(url, token)
        self._drivers: dict[SagaId, LeaseHolder] = {}

    def __repr__(self) -> str:
        return f"<journal of the server at {self.url}>"

    async def close(self) -> None:
        self._client.close()

    def fetch(self, path: str, **given: Any) -> Fields:  # noqa: ANN401 - what a query can say
        query = {name: value for name, value in given.items() if value is not None}
        answer = self._answered("GET", path, params=query)
        if not answer.is_success:
            raise refusal(problem_of(answer))
        return cast("Fields", answer.json())

    def send(self, path: str, body: Mapping[str, object]) -> Fields:
        """Ask for something to be done."""
        headers = {"Idempotency-Key": SystemClock().new_id()}
        answer = self._answered("POST", path, json=dict(body), headers=headers)
        if not answer.is_success:
            raise refusal(problem_of(answer))
        return cast("Fields", answer.json())

    def _answered(self, method: str, path: str, **more: Any) -> Response:  # noqa: ANN401 - as httpx2 takes it
        from httpx2 import TransportError

        try:
            return self._client.request(method, f"/v1{path}", **more)
        except TransportError as exc:
            raise unreachable(self.url, exc) from None

    async def record(self, saga: str) -> dict[str, Json]:
        """One saga's record, as the server makes it."""
        return self.fetch(_path("evidence/record", saga))

    async def bundle(self, sagas: Sequence[str] | None, tree_head: str | None) -> AsyncIterator[str]:
        """The lines of a bundle, of these sagas or of the whole journal."""
        query = {name: value for name, value in (("saga", list(sagas or ())), ("tree_head", tree_head)) if value}
        with self._client.stream("GET", "/v1/evidence/bundle", params=query) as answer:
            if not answer.is_success:
                answer.read()
                raise refusal(problem_of(answer))
            for line in answer.iter_lines():
                yield f"{line}\n"

    # -- lists --------------------------------------------------------------------------------------------------------

    async def saga(self, saga: SagaId) -> SagaRow | None:
        if not saga:
            return None
        try:
            return self._row(self.fetch(_path("sagas", saga)))
        except UnknownError:
            return None

    async def sagas(self, query: SagaQuery) -> SagaPage:
        found = self.fetch(
            "/sagas",
            status=[str(one) for one in query.statuses] if query.statuses else None,
            definition=query.definition,
            topic=query.topic,
            env=query.env,
            parent=query.parent,
            label=[f"{name}={value}" for name, value in query.labels] or None,
            started_from=query.started_from,
            started_until=query.started_until,
            ended_from=query.ended_from,
            ended_until=query.ended_until,
            starts_with=query.starts_with or None,
            key=query.key,
            own="true" if not set(OWN) <= set(query.without) else None,
            limit=min(query.limit, 500),
            page=query.before,
        )
        return SagaPage(tuple(map(self._row, found["items"])), found["next"])

    def _row(self, given: Mapping[str, Any]) -> SagaRow:
        row = row_of(SagaRow, given)
        driver = given.get("driver")
        if driver is not None and driver["worker"] is not None:
            self._drivers[row.id] = LeaseHolder(
                driver["worker"], driver["until_at"], driver["state"] != _LIVING, driver["pid"] or 0
            )
        else:
            self._drivers.pop(row.id, None)
        return row

    async def drivers(self, sagas: Collection[SagaId]) -> dict[SagaId, LeaseHolder]:
        """Drivers as they were when the sagas were last read."""
        return {saga: self._drivers[saga] for saga in sagas if saga in self._drivers}

    async def approvals(self, query: PersonQuery) -> ApprovalPage:
        found = self.fetch("/approvals", **_asked(query))
        return ApprovalPage(tuple(row_of(ApprovalRow, one) for one in found["items"]), found["next"])

    async def note_keys(self) -> bool:
        """The server does so when it is asked for a key."""
        return True

    async def incidents(self, query: PersonQuery) -> IncidentPage:
        found = self.fetch("/incidents", **_asked(query))
        return IncidentPage(tuple(row_of(IncidentRow, one) for one in found["items"]), found["next"])

    async def locks(self, query: LockQuery) -> LockPage:
        asked = {"resource": query.resource, "saga": query.saga, "limit": min(query.limit, 500), "page": query.after}
        found = self.fetch("/locks", **asked)
        return LockPage(tuple(row_of(LockRow, one) for one in found["items"]), found["next"])

    async def workers(self) -> tuple[WorkerRow, ...]:
        return tuple(WorkerRow(**one) for one in self.fetch("/workers")["items"])

    # -- entries ------------------------------------------------------------------------------------------------------

    async def read(self, saga: SagaId, *, after: int = 0) -> AsyncIterator[Entry]:
        following: int | None = after
        while following is not None:
            try:
                found = self.fetch(f"{_path('sagas', saga)}/entries", after=following, limit=_PAGE)
            except UnknownError:
                return
            for one in found["items"]:
                yield _entry(one)
            following = found["next"]

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise InputError(
            f"this takes the journal itself (its {name}), and the server at {self.url} does not give it away; run it "
            "where the server runs, with --journal"
        )


def _asked(query: PersonQuery) -> Fields:
    every = None if query.open_only else "true"
    return {"every": every, "saga": query.saga, "limit": min(query.limit, 500), "page": query.after}


def _entry(one: Mapping[str, Any]) -> Entry:
    saga, hashed = SagaId(one["saga"]), bytes.fromhex(one["hash"])
    if one["body"] is None:
        return RemovedEntry.of(saga, one["number"], one["at"], one["name"], "", hashed)
    body = json.dumps(one["body"], ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return Entry(saga, one["number"], one["at"], one["name"], body, hashed, decode(one["name"], body))


def _path(kind: str, id: str) -> str:
    return f"/{kind}/{quote(id, safe='')}"
