"""Decisions that are signed elsewhere: the text to sign is asked for here, and the key never comes here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

from amends.errors import ProofError
from amends.runtime.drive.roster import Proof


async def statement_of(decide: Callable[[Proof | None], Awaitable[object]]) -> str:
    """The text that has to be signed for a decision, which is not made by that; '' where there is none."""
    asked = list[str]()

    def sign(text: str) -> str:
        asked.append(text)
        raise ProofError("it is signed elsewhere")

    with suppress(ProofError):
        await decide(sign)
    return asked[0] if asked else ""
