"""Decisions over HTTP: in the caller's own name, and signed where the policy asks for that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from starlette.responses import Response

from amends.errors import ProofError
from amends.evidence.proof.statement import StatementList
from amends.http.problems import problem
from amends.journal.port.journal import Entry
from amends.operate.signing import statement_of
from amends.runtime.drive.roster import Proof

T = TypeVar("T")


async def decided(decide: Callable[[Proof | None], Awaitable[T]], proof: str) -> T | Response:
    """A decision. Where it has to be signed and is not, the problem gives the text: `statement`.

    Of several that are signed once, the problem has the text of each too: `statements`.
    """
    try:
        return await decide(proof or None)
    except ProofError as exc:
        if proof:
            raise
        statement = await statement_of(decide)
        more: dict[str, Any] = {"statements": statement.statements} if isinstance(statement, StatementList) else {}
        return problem(409, str(exc), kind="urn:amends:ProofError", statement=statement, **more)


def of_incident(entry: Entry, given: Mapping[str, object]) -> bool:
    """Whether an entry is about the incident in the path."""
    return str(getattr(entry.event, "incident", "")) == given["number"]
