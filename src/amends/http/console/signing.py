"""Decisions that take a signature: the text is shown with the command that signs it, and comes back with the form.

The key never comes here. What is signed is made by the same code that verifies it: it is asked for a signature, says
over which text, and is given none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from starlette.responses import Response

from amends.errors import ProofError
from amends.http.console.visit import Visit
from amends.runtime.drive.roster import Proof

T = TypeVar("T")
STATEMENT = "statement"
SIGNATURE = "signature"


async def proved(visit: Visit, decide: Callable[[Proof | None], Awaitable[T]]) -> T | Response:
    """A decision, with the signature of the form where it has one; else, where one lacks, the page that asks for it."""
    form = visit.form
    if form[SIGNATURE].strip():
        try:
            return await decide(f"{form[STATEMENT]}{form[SIGNATURE].strip()}\n")
        except ProofError as exc:
            return await _ask(visit, form[STATEMENT], str(exc), 409)
    try:
        return await decide(None)
    except ProofError:
        said: list[str] = []

        def asked(text: str) -> str:
            said.append(text)
            return ""

        try:
            await decide(asked)
        except ProofError:
            if not said:
                raise
        return await _ask(visit, said[0], "", 200)


async def _ask(visit: Visit, statement: str, trouble: str, status: int) -> Response:
    kept = [(name, value) for name, value in visit.form.pairs if name not in {"csrf", STATEMENT, SIGNATURE}]
    return await visit.show("sign.html", status, statement=statement, kept=kept, trouble=trouble)
