"""A server's coordinator for people, as the command line asks one: it looks, answers, takes back; it drives nothing.

Its verbs are those of a coordinator on a journal at hand. Names come from the token: whoever says `by` is not believed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, NoReturn, Self

from amends.core.state.saga import evolve, unstarted
from amends.core.words.values import Json
from amends.errors import InputError, ProofError
from amends.journal.port.journal import ApprovalRow, Entry
from amends.remote.asking import Asking
from amends.remote.journal import ServerJournal
from amends.remote.server import Server
from amends.runtime.coordinator.people import Approval, approval_id, asking
from amends.runtime.drive.roster import Proof
from amends.runtime.engine.handle import Ended


def caller_name(url: str, token: str | None) -> str:
    """Whom a server takes the bearer of a token for."""
    return str(ServerJournal(url, token).fetch("/caller")["name"])


class ServedCoordinator:
    """Use it as an async context manager. `journal` is the server's, to be read."""

    registry = None
    """None: others have the actions, and make their calls."""

    def __init__(self, url: str, token: str | None) -> None:
        self.journal = ServerJournal(url, token)
        self._asking = Asking()
        self._asking.server = Server(url, token)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.journal.close()
        await self._asking.server.close()

    def observe(self, observer: Callable[[Entry], None]) -> Callable[[], None]:
        """The server's entries are not seen as they are made; they are read in the end."""
        return lambda: None

    async def roster(self) -> NoReturn:
        raise ProofError("this decision has to be signed: give --ssh-key FILE")

    # -- looking ------------------------------------------------------------------------------------------------------

    async def approvals(self, *, saga: str) -> list[ApprovalRow]:
        return await self._asking.approvals(saga=saga)

    async def approval(self, approval: str) -> Approval:
        saga, step = approval_id(approval)
        state, entries = unstarted(saga), list[Entry]()
        async for entry in self.journal.read(saga):
            state = evolve(state, entry.event)
            entries.append(entry)
        return asking(state, step, entries)

    # -- deciding -----------------------------------------------------------------------------------------------------

    async def grant(
        self, approval: str, *, by: str, why: str = "", digest: str | None = None, proof: Proof | None = None
    ) -> Approval:
        await self._asking.grant(approval, why=why, digest=digest, proof=proof)
        return await self.approval(approval)

    async def refuse(self, approval: str, *, by: str, why: str, proof: Proof | None = None) -> Approval:
        await self._asking.refuse(approval, why=why, proof=proof)
        return await self.approval(approval)

    async def grant_all(
        self, approvals: Mapping[str, str], *, by: str, why: str = "", proof: Proof | None = None
    ) -> tuple[Approval, ...]:
        await self._asking.grant_all(approvals, why=why, proof=proof)
        return tuple([await self.approval(each) for each in approvals])

    async def refuse_all(
        self, approvals: Iterable[str], *, by: str, why: str, proof: Proof | None = None
    ) -> tuple[Approval, ...]:
        named = tuple(dict.fromkeys(approvals))
        await self._asking.refuse_all(named, why=why, proof=proof)
        return tuple([await self.approval(each) for each in named])

    async def comment_incident(self, incident: str, *, text: str, by: str) -> None:
        await self._asking.comment_incident(incident, text=text)

    async def assign_incident(self, incident: str, *, owner: str, by: str) -> None:
        await self._asking.assign_incident(incident, owner=owner)

    async def resolve_incident(
        self, incident: str, *, reason: str, by: str, proof: str = "", signed: Proof | None = None
    ) -> Ended[Any]:
        await self._asking.resolve_incident(incident, reason=reason, proof=proof, signed=signed)
        return await self._asking.standing(incident.partition("/")[0])

    async def retry_incident(
        self,
        incident: str,
        *,
        by: str,
        let_run: bool = False,
        mitigate: bool = False,
        repeat: bool = False,
        proof: Proof | None = None,
    ) -> Ended[Any]:
        await self._asking.retry_incident(incident, let_run=let_run, mitigate=mitigate, repeat=repeat, proof=proof)
        return await self._asking.standing(incident.partition("/")[0])

    async def raise_limit(self, saga: str, *, by: str, proof: Proof | None = None, **most: Any) -> Ended[Any]:  # noqa: ANN401 - of each limit's own kind
        await self._asking.raise_limit(saga, proof=proof, **most)
        return await self._asking.standing(saga)

    async def adopt(self, policy: str, *, by: str, why: str, proof: Proof | None = None) -> bool:
        return await self._asking.adopt(policy, why=why, proof=proof)

    # -- control ------------------------------------------------------------------------------------------------------

    async def cancel(
        self, saga: str, *, why: str, by: str, mitigate: bool = False, proof: Proof | None = None
    ) -> Ended[Any]:
        return await self._asking.cancel(saga, why=why, mitigate=mitigate, proof=proof)

    async def rollback(
        self,
        saga: str,
        *,
        to: str | None,
        last: int | None,
        why: str,
        by: str,
        mitigate: bool = False,
        proof: Proof | None = None,
    ) -> Ended[Any]:
        if to is None and last is None:
            return await self._asking.cancel(saga, why=why, mitigate=mitigate, proof=proof)
        return await self._asking.rollback(saga, to=to, last=last, why=why, proof=proof)

    async def signal(self, saga: str, name: str, payload: Json, *, by: str, early: bool = False) -> None:
        await self._asking.signal(saga, name, payload, early=early)

    async def pause(self, *, by: str, **given: Any) -> int:  # noqa: ANN401 - the clauses, as a coordinator takes them
        return await self._asking.pause(**given)

    async def unpause(self, *, by: str, **given: Any) -> int:  # noqa: ANN401 - the clauses, as a coordinator takes them
        return await self._asking.unpause(**given)

    async def drain(self, *, within: float) -> list[str]:
        raise InputError("--drain looks at what is in flight on the journal; give it where the server runs")
