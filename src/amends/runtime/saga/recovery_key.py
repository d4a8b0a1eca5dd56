"""A saga that does nothing: its incident says that a recovery key changed the roster of people."""

from __future__ import annotations

from amends.errors import CallPerson
from amends.runtime.files.topics import RECOVERY
from amends.runtime.saga.work import Work, saga


@saga(RECOVERY, version=1)
async def recovery_key_used(_: Work, person: str, key: str, change: str) -> None:
    """Have a person look at what a recovery key did."""
    raise CallPerson(
        f"the recovery key {key} of {person} was used to {change}; where nobody of you did that, revoke that key and "
        "what it enrolled (amends person list shows both), and resolve this with what you found"
    )
