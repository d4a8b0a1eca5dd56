"""Decisions that take a signature: the text is shown with the command that signs it, and comes back with the form.

Where the page may run a script, a passkey signs it instead: what the browser gives is put together here with the key
that it is by.

The key never comes here. What is signed is made by the same code that verifies it: it is asked for a signature, says
over which text, and is given none.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from typing import TypeVar

from starlette.responses import Response

from amends.core.state.deciders import normal
from amends.errors import ProofError
from amends.evidence.proof.keys import PASSKEY, is_signature
from amends.evidence.proof.statement import StatementList
from amends.http.console.visit import Visit
from amends.operate.signing import statement_of
from amends.runtime.drive.roster import Proof

_OF_THE_PAGE = frozenset({"csrf", "statement", "signature", "passkey"})
T = TypeVar("T")
STATEMENT = "statement"
SIGNATURE = "signature"
PASSKEY_SAID = "passkey"
_LONGEST = 16_384
_ROOMS_OF_TARGETS = frozenset({"people", "policy", "workers"})


async def proved(visit: Visit, decide: Callable[[Proof | None], Awaitable[T]]) -> T | Response:
    """A decision, with the signature of the form where it has one; else, where one lacks, the page that asks for it."""
    form = visit.form
    is_signed = bool(form[SIGNATURE].strip() or form[PASSKEY_SAID])
    try:
        if form[PASSKEY_SAID]:
            return await decide(f"{form[STATEMENT]}{await _by_passkey(visit)}")
        return await decide(f"{form[STATEMENT]}{form[SIGNATURE].strip()}\n" if is_signed else None)
    except ProofError as exc:
        statement = await statement_of(decide)
        if not statement:
            raise
        return await _ask(visit, statement, str(exc) if is_signed else "", 409 if is_signed else 200)


def _back(path: str) -> str:
    """The page to go back to without deciding: where a form's target is no page, the room that it is of."""
    room = path.split("/")[1]
    return f"/{room}" if room in _ROOMS_OF_TARGETS or path == "/approvals/review" else path


async def _by_passkey(visit: Visit) -> str:
    """A passkey's signature of the form, by whichever of the person's keys it is. Raises ProofError where by none."""
    said = _said(visit.form[PASSKEY_SAID])
    roster = await visit.coordinator.roster()
    for one in roster.living():
        if one.key.kind == PASSKEY and normal(one.person) == normal(visit.who):
            whole = b"WEBAUTHN" + b"".join(len(part).to_bytes(4, "big") + part for part in (one.key.blob, *said))
            if is_signature(one.key, whole, visit.form[STATEMENT]):
                return f"-----BEGIN PASSKEY SIGNATURE-----\n{base64.b64encode(whole).decode()}\n"
    raise ProofError(f"this passkey is not enrolled for {visit.who}: an administrator does that, on the page People")


def _said(text: str) -> tuple[bytes, bytes, bytes]:
    """The authenticator's data, the client's, and the signature, as the page sends them."""
    parts = text.split(".")
    try:
        if len(text) > _LONGEST or len(parts) != len(("authenticator", "client", "signature")):
            raise ValueError(text[:40])
        first, second, third = (base64.b64decode(part, validate=True) for part in parts)
    except ValueError:
        raise ProofError("what the passkey said cannot be read; try again, or sign with the command") from None
    return first, second, third


async def _ask(visit: Visit, statement: str, trouble: str, status: int) -> Response:
    kept = [(name, value) for name, value in visit.form.pairs if name not in _OF_THE_PAGE]
    living = (await visit.coordinator.roster()).living()
    has_passkey = any(one.key.kind == PASSKEY and normal(one.person) == normal(visit.who) for one in living)
    return await visit.show(
        "sign.html",
        status,
        statement=str(statement),
        each=statement.statements if isinstance(statement, StatementList) else (),
        kept=kept,
        trouble=trouble,
        has_passkey=has_passkey,
        back=_back(visit.request.url.path),
    )
