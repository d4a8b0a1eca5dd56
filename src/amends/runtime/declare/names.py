"""Names that users give, checked at the door: ids, actors, statuses, labels."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, cast

from amends.core.state.deciders import DELEGATES, OWNER, checked_name, mistake_in, normal
from amends.core.transitions import SagaStatus
from amends.core.words.values import BUILT_IN, CONTROL, PEOPLE, PERSON, POLICIES, RUNTIME, SagaId
from amends.errors import InputError, UnknownIncidentError

OURS: Final = frozenset({RUNTIME, "system:family", "system:gate"})
"""Who nobody else is."""
SYSTEM: Final = "system:local"
"""Who prunes by the rule of whoever runs a journal. In older journals, also who started sagas of their own accord."""
LONGEST_ID: Final = 128
LONGEST_LABELS: Final = 64 * 1024
MOST_LABELS: Final = 1000
_MEANT: Final = {"owner": OWNER, "owners": OWNER, "delegates": DELEGATES, "delegate": DELEGATES}
BELOW: Final = "~"
"""Stands between a parent's id and its step in the id of a child, and in no id that a caller asks for."""


def incident_id(name: str) -> tuple[SagaId, int]:
    saga, slash, number = name.rpartition("/")
    if not slash or not number.isdecimal():
        raise UnknownIncidentError(
            f"{name!r} is not an incident's id; they look like 01k…/1: see `amends incident list`"
        )
    return SagaId(saga), int(number)


def checked_actor(name: str | None) -> str:
    """An actor's name, in the form in which it is kept; None: whoever is logged in. Raises InputError."""
    if name is None:
        return login()
    kept = checked_name(name)
    if kept.casefold() in OURS:
        raise InputError(f"{name!r} is what the runtime calls itself in the journal; write system:<another name>")
    return kept


def login() -> str:
    """The person whose process this is, by its user and not by what the environment says."""
    return _login(os.getuid())


@lru_cache(maxsize=1)
def _login(uid: int) -> str:
    import pwd

    try:
        return checked_name(f"person:{pwd.getpwuid(uid).pw_name}")
    except (KeyError, InputError):  # a container may have no name for its user, or one that is none here
        return f"person:uid-{uid}"


def checked_id(name: str) -> str:
    if name in {POLICIES, CONTROL, PEOPLE}:
        what = {POLICIES: "policies", CONTROL: "pauses and holds"}.get(name, "roster of people")
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
    """Labels as they are kept. Who a saga is for has to be named as actors are: what nobody reads protects nothing."""
    checked = dict(labels or {})
    if len(checked) > MOST_LABELS:
        raise InputError(f"{len(checked)} labels are too many; give at most {MOST_LABELS}")
    for name, value in checked.items():
        if not isinstance(cast("object", name), str) or not isinstance(cast("object", value), str):
            raise InputError(f"label {name!r}: names and values must be strings")
        if not (name + value).isascii() and not is_text(name + value):
            raise InputError(f"label {name!r} holds half a surrogate pair, which is not text; decode it properly first")
        if name.startswith(BUILT_IN):
            raise InputError(f"label {name!r}: names that begin with amends. are the runtime's own; use another")
        meant = _MEANT.get(normal(name))
        if meant is not None and meant != name:
            raise InputError(f"label {name!r}: the runtime reads {meant!r}; write {meant}=person:<name>")
    size = sum(len(name) + len(value) for name, value in checked.items())
    if size > LONGEST_LABELS:
        raise InputError(f"labels of {size:,} characters in all are too long; give at most {LONGEST_LABELS:,}")
    if OWNER in checked:
        checked[OWNER] = _named(OWNER, checked[OWNER])
        if not checked[OWNER].startswith(PERSON):
            raise InputError(
                f"label 'owner': {checked[OWNER]!r} is no person, and a person sees to what is left of a saga: write "
                "owner=person:<name>; who else it is done for, or by, stands in delegates="
            )
    if DELEGATES in checked:
        checked[DELEGATES] = ",".join(_named(DELEGATES, each) for each in checked[DELEGATES].split(","))
    return checked


def _named(label: str, name: str) -> str:
    """An actor that a label names."""
    name = name.strip()
    if ";" in name:
        raise InputError(
            f"label {label!r}: {name!r} is not an actor; commas stand between names: {label}=agent:a,person:b"
        )
    try:
        return checked_name(name)
    except InputError as exc:
        if name and ":" not in name and not mistake_in(name):
            raise InputError(f"label {label!r}: {name!r} is not an actor; write {label}=person:{name}") from None
        raise InputError(f"label {label!r}: {exc}") from None


def is_text(text: str) -> bool:
    """Whether it can be stored: half a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
