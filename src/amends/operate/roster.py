"""Whether names are proved on a journal, and its root is the one that was pinned: what `amends doctor` says of that."""

from __future__ import annotations

from typing import Literal

from amends.clock import SystemClock
from amends.errors import ProofError
from amends.journal.port.journal import Journal
from amends.runtime.drive.roster import Proofs
from amends.text import counted

_STOP = (
    "have nobody decide or drive anything here; put back the journal that the root is of, or find out who made this one"
)
_PIN = "pin it where an agent cannot write, in amends.toml: root = "


async def roster_state(journal: Journal, root: str | None) -> tuple[Literal["ok", "look", "wrong"], str, str] | None:
    """How it stands, in words, and what to do; None where nobody is enrolled and no root was told."""
    proofs = Proofs(journal, SystemClock(), root)
    try:
        roster = await proofs.refresh()
    except ProofError as exc:
        return "wrong", str(exc), _STOP
    if not roster.root:
        return None
    keys = counted(len(roster.living()), "key proves a name", "keys prove names")
    if roster.troubles:
        return "wrong", f"{keys}; {roster.troubles[0]}", "amends evidence verify --root says what else is not proved"
    if root is None:
        return (
            "look",
            f"{keys}, and nobody has pinned the root: a journal made anew is not seen",
            f'{_PIN}"{roster.root}"',
        )
    return "ok", f"{keys}; the root is the one that was pinned", ""
