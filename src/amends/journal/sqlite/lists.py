"""The lists, as pages read off an index: a page costs a page, whether there are ten sagas or a million.

A page is asked for by the key at which the one before ended. Several statuses are several ranges of an index, merged:
an `IN` would make SQLite sort all of them. Of several filters the one that finds the fewest sagas is read off its
index, and the others are checked row by row: so many of each are counted first, and where one of them is rarer than
that, no more rows are looked at than it has. A definition and a status are one filter, with an index of both. There are
so few statuses that a definition alone, or nothing at all, is asked for as every status of it: each index less is room
in the file, and time of every saga.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from amends.core.events import IncidentKind
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId, StepId
from amends.journal.port import lists as cursors
from amends.journal.port.entries import PARENT
from amends.journal.port.lists import (
    ApprovalPage,
    ApprovalRow,
    IncidentPage,
    IncidentRow,
    PersonQuery,
    SagaPage,
    SagaQuery,
    SagaRow,
)
from amends.journal.sqlite.database import Database, Row

Value = str | int | None
Statement = tuple[str, tuple[Value, ...]]

COUNTED: Final = 1_000
"""So many sagas of a filter are counted, where there are several."""

_LAST: Final = "\U0010ffff"
"""No id has a character after it."""
_PARENT: Final = f"""json_extract(saga.labels, '$."{PARENT}"')"""
_SAGA: Final = """
    saga.started_at AS started_at, saga.id AS id, saga.name, definition, version, env, actor, status, labels,
    updated_at, ended_at, head, open_incidents, open_approvals, removed
"""


def saga(database: Database, name: SagaId) -> SagaRow | None:
    sql = f"SELECT {_SAGA} FROM saga WHERE name = ?"  # noqa: S608 - all of it is constant
    found = database.first(sql, (name,))
    return None if found is None else _saga_row(found)


def sagas(database: Database, query: SagaQuery) -> SagaPage:
    found = database.rows(*saga_statement(query, _shortest(database, query)))
    page = found[: query.limit]
    cursor = None
    if len(found) > len(page):
        started_at, row, name, *_ = page[-1]
        cursor = name if query.starts_with else cursors.spell(started_at, row)
    return SagaPage(rows=tuple([_saga_row(row) for row in page]), cursor=cursor)


class Filter(NamedTuple):
    """One filter: how it is read off its index, once for each of `wanted`, and how it is checked on another's rows."""

    term: str
    wanted: tuple[tuple[Value, ...], ...]
    check: str
    values: tuple[Value, ...]
    table: str = "saga"
    alias: str = "saga"
    is_sorted: bool = True
    """Whether its index has its sagas in the order of their start."""

    @property
    def source(self) -> str:
        return self.table if self.alias == "saga" else f"{self.table} CROSS JOIN saga ON saga.id = {self.alias}.saga"

    @property
    def started_at(self) -> str:
        return f"{self.alias}.started_at"

    @property
    def row(self) -> str:
        return "saga.id" if self.alias == "saga" else f"{self.alias}.saga"


def _shortest(database: Database, query: SagaQuery) -> int | None:
    """Which filter finds the fewest sagas, as far as so many are counted; the others are checked on what it finds.

    None for how an id begins: its index is in the order of its list, so another one leads only where it finds few.
    """
    filters = _filters(query)
    if query.starts_with:
        lengths = [_length(database, one) for one in filters]
        return lengths.index(min(lengths)) if lengths and min(lengths) < COUNTED else None
    lengths = [_length(database, one) for one in filters] if len(filters) > 1 else [0]
    return lengths.index(min(lengths))


def _length(database: Database, one: Filter) -> int:
    sql = f"SELECT count(*) FROM (SELECT 1 FROM {one.table} WHERE {one.term} LIMIT {COUNTED})"  # noqa: S608 - names of columns; every value is bound
    length = 0
    for values in one.wanted:
        if length < COUNTED:
            length += int(database.rows(sql, values)[0][0])
    return min(length, COUNTED)


def saga_statement(query: SagaQuery, lead: int | None = None) -> Statement:
    """One filter leads, by its index; a plus keeps SQLite from reading another one. Where it is asked how an id begins,
    ids are the order; else the start is.
    """
    filters = _filters(query) or [_ANY if query.starts_with else _EVERY]
    first = _ANY if query.starts_with and lead is None else filters.pop(lead or 0)
    in_order = first.is_sorted and not query.starts_with
    at, row = (f"{'' if in_order else '+'}{column}" for column in (first.started_at, first.row))
    name = "saga.name" if lead is None else "+saga.name"
    terms, values = [first.term], list[Value]()
    if query.starts_with:
        terms.append(f"{name} >= ? AND {name} < ?")
        values += (query.starts_with, query.starts_with + _LAST)
    for other in filters:
        terms.append(other.check)
        values += other.values
    for bound, moment in ((">=", query.started_from), ("<", query.started_until)):
        if moment is not None:
            terms.append(f"{at} {bound} ?")
            values.append(moment)
    if query.without:
        terms.append(f"+saga.definition NOT IN ({', '.join('?' * len(query.without))})")
        values += query.without
    order, whole = f"{at} DESC, {row} DESC", "started_at DESC, id DESC"
    if query.starts_with:
        order, whole = f"{name} DESC", "name DESC"
    if query.before is not None and query.starts_with:
        terms.append(f"{name} < ?")
        values.append(cursors.read_id(query.before, query.starts_with))
    elif query.before is not None:
        terms.append(f"({at}, {row}) < (?, ?)")
        values += cursors.read(query.before, 2)
    one = f"""
        SELECT * FROM (SELECT {_SAGA} FROM {first.source} WHERE {" AND ".join(terms)} ORDER BY {order} LIMIT ?)
    """  # noqa: S608 - column names; every value is bound
    limit = query.limit + 1
    wanted = first.wanted or ((None,) * first.term.count("?"),)  # no status at all: nothing is equal to NULL
    sql = " UNION ALL ".join([one] * len(wanted)) + f" ORDER BY {whole} LIMIT ?"
    return sql, (*(part for value in wanted for part in (*value, *values, limit)), limit)


def _filters(query: SagaQuery) -> list[Filter]:
    """Likely the rarest first."""
    filters: list[Filter] = []
    if query.key is not None:
        filters.append(_joined("saga_key", "called", {"key": query.key}))
    if query.topic is not None:
        filters.append(_joined("saga_topic", "seen", {"topic": query.topic}))
    filters += [_joined("saga_label", "noted", {"name": name, "value": value}) for name, value in query.labels]
    if query.parent is not None:
        filters.append(_equal(_PARENT, query.parent))
    statuses = None if query.statuses is None else tuple([status.value for status in query.statuses])
    if statuses is not None and query.definition is not None:
        filters.append(_of_status(statuses, query.definition))
    elif statuses is not None:
        filters.append(_of_status(statuses))
    elif query.definition is not None:
        filters.append(_of_definition(query.definition))
    if query.env is not None:
        filters.append(_equal("saga.env", query.env))
    if query.ended_from is not None or query.ended_until is not None:
        filters += _ended(query.ended_from, query.ended_until)
    return filters


def _equal(column: str, value: str) -> Filter:
    return Filter(f"{column} = ?", ((value,),), f"+{column} = ?", (value,))


def _of_status(statuses: tuple[str, ...], definition: str | None = None) -> Filter:
    any_of = f"+saga.status IN ({', '.join('?' * len(statuses))})"
    if definition is None:
        return Filter("saga.status = ?", tuple((status,) for status in statuses), any_of, statuses)
    return Filter(
        "saga.definition = ? AND saga.status = ?",
        tuple((definition, status) for status in statuses),
        f"+saga.definition = ? AND {any_of}",
        (definition, *statuses),
    )


def _of_definition(definition: str) -> Filter:
    return _of_status(_STATUSES, definition)._replace(check="+saga.definition = ?", values=(definition,))


def _joined(table: str, alias: str, key: Mapping[str, str]) -> Filter:
    """By a table of its own, which has the start of each saga too."""
    values = tuple(key.values())
    columns = " AND ".join(f"{alias}.{column} = ?" for column in key)
    place = f"{alias}.started_at = saga.started_at AND {alias}.saga = saga.id"
    check = f"EXISTS (SELECT 1 FROM {table} AS {alias} WHERE {columns} AND {place})"  # noqa: S608 - names of columns; every value is bound
    return Filter(columns, (values,), check, values, table=f"{table} AS {alias}", alias=alias)


def _ended(since: int | None, until: int | None) -> list[Filter]:
    """By the time of its end, where few ended then; what it finds is sorted. Else row by row, from the newest start."""
    term = "{0}saga.ended_at >= ? AND {0}saga.ended_at < ?"
    values = (since or 0, _END_OF_TIME if until is None else until)
    check = term.format("+")
    return [_EVERY, Filter(term.format(""), (values,), check, values, is_sorted=False)]


_END_OF_TIME: Final = 2**62
_STATUSES: Final = tuple([status.value for status in SagaStatus])
_EVERY: Final = _of_status(_STATUSES)._replace(check="1", values=())
"""Every saga, in the order of their start."""
_ANY: Final = Filter("1 = ?", ((1,),), "1", (), is_sorted=False)
"""Any saga, in no order."""


def _saga_row(found: Row) -> SagaRow:
    started_at, _, name, definition, version, env, actor, status, labels, updated_at, ended_at, *counts = found
    entries, open_incidents, open_approvals, removed = counts
    return SagaRow(
        id=SagaId(name),
        definition=definition,
        version=version,
        env=env,
        actor=actor,
        status=SagaStatus(status),
        labels=json.loads(labels),
        started_at=started_at,
        updated_at=updated_at,
        ended_at=ended_at,
        entries=entries,
        open_incidents=open_incidents,
        open_approvals=open_approvals,
        pruned=bool(removed),
    )


# -- for people -------------------------------------------------------------------------------------------------


def person_statement(table: str, columns: str, is_open: str, query: PersonQuery) -> Statement:
    """Oldest first, from a cursor on; `is_open` is the condition of the table's index of open rows."""
    terms, values = [f"{table}.id > ?"], list[str | int]()
    values += cursors.read(query.after, 1) if query.after is not None else (0,)
    if query.open_only:
        terms.append(is_open)
    if query.saga is not None:
        terms.append(f"{table}.saga = (SELECT id FROM saga WHERE name = ?)")  # noqa: S608 - a table of ours
        values.append(query.saga)
    sql = f"""
        SELECT {table}.id, saga.name, saga.definition, {columns}
          FROM {table} CROSS JOIN saga ON saga.id = {table}.saga
         WHERE {" AND ".join(terms)} ORDER BY {table}.id LIMIT ?
    """  # noqa: S608 - names of columns; every value is bound
    return sql, (*values, query.limit + 1)


def incident_statement(query: PersonQuery) -> Statement:
    columns = "number, kind, step, why, remaining, owner, incident.status, opened_at, closed_at"
    return person_statement("incident", columns, "incident.status = 'open'", query)


def approval_statement(query: PersonQuery) -> Statement:
    columns = "step, topic, rule, approval.status, requested_at, expires_at"
    return person_statement("approval", columns, "approval.status = 'requested'", query)


def incidents(database: Database, query: PersonQuery) -> IncidentPage:
    found = database.rows(*incident_statement(query))
    page = tuple(
        IncidentRow(
            id=f"{name}/{number}",
            saga=SagaId(name),
            number=number,
            definition=definition,
            kind=IncidentKind(kind),
            step=None if step is None else StepId(step),
            why=why,
            left=tuple(json.loads(remaining)),
            owner=owner,
            status=status,
            opened_at=opened_at,
            closed_at=closed_at,
        )
        for _, name, definition, number, kind, step, why, remaining, owner, status, opened_at, closed_at in found[
            : query.limit
        ]
    )
    return IncidentPage(rows=page, cursor=_cursor(found, query))


def approvals(database: Database, query: PersonQuery) -> ApprovalPage:
    found = database.rows(*approval_statement(query))
    page = tuple(
        ApprovalRow(
            id=f"{name}/{step}",
            saga=SagaId(name),
            step=StepId(step),
            definition=definition,
            topic=topic,
            rule=rule,
            status=status,
            requested_at=requested_at,
            expires_at=expires_at,
        )
        for _, name, definition, step, topic, rule, status, requested_at, expires_at in found[: query.limit]
    )
    return ApprovalPage(rows=page, cursor=_cursor(found, query))


def _cursor(found: list[Row], query: PersonQuery) -> str | None:
    return cursors.spell(found[query.limit - 1][0]) if len(found) > query.limit else None
