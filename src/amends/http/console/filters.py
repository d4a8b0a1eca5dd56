"""Filters that a person keeps under a name: the fields of an address, on the journal, for that person alone."""

from __future__ import annotations

import hashlib
import json
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, urlencode

from starlette.responses import Response
from starlette.routing import BaseRoute

from amends.core.state.deciders import normal
from amends.core.words.values import canonical
from amends.errors import InputError
from amends.http.callers import Scope
from amends.http.console.visit import MOST_FIELDS, Visit, decided
from amends.journal.port.journal import Journal

FIELDS: Final = ("q", "status", "since", "definition", "topic", "env", "parent")
MOST: Final = 20
LONGEST_NAME: Final = 60
_LONGEST_QUERY: Final = 1_000
_FOLDER: Final = "amends.filters/"


class SavedFilter(NamedTuple):
    """`query` is what stands after the question mark of its address."""

    name: str
    query: str


async def filters_of(journal: Journal, person: str) -> tuple[SavedFilter, ...]:
    """By name."""
    kept = await journal.cursors(_folder_of(person))
    found = (json.loads(one.note) for one in kept)
    return tuple(sorted(SavedFilter(one["name"], one["query"]) for one in found))


def _folder_of(person: str) -> str:
    """One for every spelling of a person's name."""
    return f"{_FOLDER}{_digest(normal(person))}/"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def query_of(said: str) -> str:
    """The fields of a filter, and no others."""
    pairs = parse_qsl(said, max_num_fields=MOST_FIELDS)
    return urlencode([(name, value) for name, value in pairs if name in FIELDS])


async def _keep(visit: Visit) -> Response:
    name, query = " ".join(visit.form["name"].split()), query_of(visit.form["query"])
    if not 0 < len(name) <= LONGEST_NAME:
        raise InputError(f"give the filter a name of 1 to {LONGEST_NAME} characters")
    if not 0 < len(query) <= _LONGEST_QUERY:
        raise InputError("there is no filter to keep: choose something in the form first" if not query else "too long")
    known = await filters_of(visit.journal, visit.who)
    if len(known) >= MOST and name not in {one.name for one in known}:
        raise InputError(f"you keep {MOST} filters already; forget one of them first")
    note = canonical({"name": name, "query": query})
    await visit.journal.move_cursor(_folder_of(visit.who) + _digest(name), 1, note=note)
    visit.tell(f"Kept as {name}.")
    return visit.go(f"/sagas?{query}")


async def _forget(visit: Visit) -> Response:
    await visit.journal.move_cursor(_folder_of(visit.who) + _digest(visit.form["name"]), 0)
    visit.tell("Forgotten.")
    return visit.go("/sagas")


def routes() -> list[BaseRoute]:
    return [
        decided("/filters/sagas", _keep, Scope.VIEW),
        decided("/filters/sagas/forget", _forget, Scope.VIEW),
    ]
