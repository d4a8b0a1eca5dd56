"""Callers: how their name was proved, and what they may ask for. Proving it is the business of others."""

from __future__ import annotations

from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final

from starlette.requests import Request

from amends.dataclass import dataclass
from amends.errors import ForbiddenError, UnknownCallerError

__all__ = ["EVERY_SCOPE", "Caller", "ForbiddenError", "Scope", "UnknownCallerError", "caller_of"]


class Scope(StrEnum):
    """Permission of a caller. Nobody who may run sagas can decide by that."""

    VIEW = "view"
    """Read sagas, approvals, incidents, policies, evidence."""
    RUN = "run"
    """Start and drive sagas of the definitions that the caller is for."""
    DECIDE = "decide"
    """Grant, refuse, resolve, retry, raise a limit, roll back, cancel: in their own name only."""
    ADMIN = "admin"
    """Adopt policies, pause everything, enrol people, make tokens."""


EVERY_SCOPE: Final = frozenset(Scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    name: str
    """As the journal has it: `person:anna`, `agent:shop`."""
    scopes: frozenset[Scope]
    definitions: tuple[str, ...] = ("*",)
    """Globs over names of definitions: the ones that RUN is for."""
    proof: str = "token"
    """How the name was proved: `token`, `login` (the socket's peer), `oidc`, `proxy`."""

    def require(self, scope: Scope) -> None:
        """Raises ForbiddenError, which names the scope that is missing."""
        if scope not in self.scopes:
            has = ", ".join(sorted(self.scopes)) or "nothing"
            raise ForbiddenError(f"{self.name} may not do this: it takes the scope {scope}, and they have {has}")

    def require_definition(self, name: str) -> None:
        self.require(Scope.RUN)
        if not any(fnmatchcase(name, one) for one in self.definitions):
            only = ", ".join(self.definitions)
            raise ForbiddenError(f"{self.name} may not run {name}: the token is for {only}")


def caller_of(request: Request) -> Caller:
    """The caller of a request that has passed the door. Raises UnknownCallerError."""
    caller: object = request.scope.get("amends.caller")
    if not isinstance(caller, Caller):
        raise UnknownCallerError(
            "nobody known: send a token as Authorization: Bearer … (commands and clients take it from AMENDS_TOKEN), "
            "or use the server's socket"
        )
    return caller
