"""Policies that were adopted, and changes of the roster, in words."""

from __future__ import annotations

from amends.core.events import PersonEnrolled, PersonEvent, PolicyAdopted
from amends.errors import InputError
from amends.text import said, short


def told_of_people(event: PersonEvent | PolicyAdopted) -> str:
    if isinstance(event, PolicyAdopted):
        return f"policy {event.digest[:12]} adopted by {short(event.by)}: {said(event.why)}"
    why = f": {said(event.why)}" if event.why else ""
    if not isinstance(event, PersonEnrolled):
        return f"{short(event.person)} has the key {short(event.key)} no more, by {short(event.by)}{why}"
    from amends.evidence.proof.keys import read_key  # with it comes what verifies

    try:
        key = read_key(event.key).fingerprint
    except InputError:
        key = "that cannot be read"
    kind = "recovery key" if event.recovery else "key"
    return f"{short(event.person)} enrolled with the {kind} {key} by {short(event.by)}{why}"
