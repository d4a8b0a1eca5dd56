"""What can be told of, by the names that targets are given and notices carry."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from amends.errors import InputError
from amends.evidence.heads import HEAD

ASKING: Final = ("approval.requested", "incident.opened", "drill.missed")
"""What a target is told of unless it asks for something else: whatever needs a person."""
TYPES: Final = (
    "approval.requested",
    "approval.granted",
    "approval.refused",
    "approval.expired",
    "approval.voided",
    "incident.opened",
    "incident.retried",
    "incident.resolved",
    "drill.missed",
)
"""What entries of the log are told of as."""
_ALL: Final = (*TYPES, HEAD)


def checked_types(types: Iterable[str]) -> tuple[str, ...]:
    """Raises InputError for what nobody can be told of."""
    import difflib

    wanted = tuple(dict.fromkeys(types))
    for name in wanted:
        if name not in _ALL:
            nearest = difflib.get_close_matches(name, _ALL, n=1)
            meant = f"did you mean {nearest[0]}? " if nearest else ""
            raise InputError(f"{name!r} is no type of notice; {meant}they are {', '.join(_ALL)}")
    if not wanted:
        raise InputError(f"a target that is told of nothing is none; the types are {', '.join(_ALL)}")
    return wanted


def wire_names(types: Iterable[str]) -> frozenset[str]:
    """The names in the log that notices of these types are made from, old spellings among them."""
    from amends.journal.codec import UPCASTS, WIRE

    wanted = frozenset(types)
    return frozenset(name for name in (*WIRE, *UPCASTS) if name.partition("/")[0] in wanted)
