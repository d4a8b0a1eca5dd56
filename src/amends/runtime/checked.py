"""What users call things, checked at the door: ids, actors, statuses, labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from amends.core.transitions import SagaStatus
from amends.core.values import CONTROL, POLICIES, SagaId
from amends.errors import InputError, UnknownIncidentError

SYSTEM: Final = "system:local"
LONGEST_ID: Final = 128
ACTORS: Final = ("agent", "person", "system")
BELOW: Final = "~"
"""Stands between a parent's id and its step in the id of a child, and in no id that a caller asks for."""


def incident_id(name: str) -> tuple[SagaId, int]:
    saga, slash, number = name.rpartition("/")
    if not slash or not number.isdecimal():
        raise UnknownIncidentError(
            f"{name!r} is not an incident's id; they look like 01k…/1: see `amends incident list`"
        )
    return SagaId(saga), int(number)


def checked_actor(name: str) -> str:
    """Who does something: `agent:`, `person:` or `system:`, and a name."""
    kind, colon, rest = name.partition(":")
    if kind not in ACTORS or not colon or not rest.strip() or len(name) > LONGEST_ID or not name.isprintable():
        raise InputError(
            f"{name!r} is not an actor: write agent:<name>, person:<name> or system:<name>, "
            f"at most {LONGEST_ID} characters"
        )
    return name


def checked_id(name: str) -> str:
    if name in {POLICIES, CONTROL}:
        what = "policies" if name == POLICIES else "pauses and holds"
        raise InputError(f"the id {name} is taken: the journal keeps its {what} under it")
    if not 0 < len(name) <= LONGEST_ID or not name.isascii() or not name.isprintable() or "/" in name:
        raise InputError(f"{name!r} is not a saga id: use 1 to {LONGEST_ID} printable ASCII characters without '/'")
    return name


def require_own_id(name: str) -> None:
    """A saga that is to begin has no child's id: only the runtime gives those. One that exists may have any."""
    if BELOW in name:
        raise InputError(
            f"the id {name!r} has a {BELOW}, as only the ids of children have, which the runtime gives: saga a's are "
            f"a{BELOW}1, a{BELOW}2; use another character, as in {name.replace(BELOW, '-')!r}"
        )


def checked_status(name: str) -> SagaStatus:
    try:
        return SagaStatus(name)
    except ValueError:
        raise InputError(f"{name!r} is not a status; they are {', '.join(SagaStatus)}") from None


def checked_labels(labels: Mapping[str, str] | None) -> dict[str, str]:
    checked = dict(labels or {})
    for name, value in checked.items():
        if not isinstance(cast("object", name), str) or not isinstance(cast("object", value), str):
            raise InputError(f"label {name!r}: names and values must be strings")
        if name.startswith("amends."):
            raise InputError(f"label {name!r}: names that begin with amends. are the runtime's own; use another")
    return checked
