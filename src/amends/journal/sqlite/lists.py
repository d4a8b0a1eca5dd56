"""The lists, as pages read off an index: a page costs a page, whether there are ten sagas or a million.

A page is asked for by the key at which the one before ended. Several statuses are several ranges of an index, merged:
an `IN` would make SQLite sort all of them. Filters other than the one whose index is read are checked row by row.
"""

from __future__ import annotations

import json
from typing import Final

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

Statement = tuple[str, tuple[str | int, ...]]

_LAST: Final = "\U0010ffff"
"""No id has a character after it."""
_PARENT: Final = f"""json_extract(saga.labels, '$."{PARENT}"')"""
_SAGA: Final = """
    saga.started_at AS started_at, saga.id AS id, name, definition, version, env, actor, status, labels, updated_at,
    ended_at, head, open_incidents, open_approvals, removed
"""


def saga(database: Database, name: SagaId) -> SagaRow | None:
    sql = f"SELECT {_SAGA} FROM saga WHERE name = ?"  # noqa: S608 - all of it is constant
    found = database.first(sql, (name,))
    return None if found is None else _saga_row(found)


def sagas(database: Database, query: SagaQuery) -> SagaPage:
    found = database.rows(*saga_statement(query))
    page = found[: query.limit]
    cursor = cursors.spell(*page[-1][:2]) if len(found) > len(page) else None
    return SagaPage(rows=tuple([_saga_row(row) for row in page]), cursor=cursor)


def saga_statement(query: SagaQuery) -> Statement:
    """The filter that is likely the rarest leads, by its index; a plus keeps SQLite from reading another one. How an id
    begins is the rarest of all: what it finds is sorted.
    """
    (lead, wanted), *others = _filters(query) or [("1", (1,))]
    if not wanted:
        lead, wanted = "0", (1,)
    by_topic = query.topic is not None
    table = "saga_topic AS seen CROSS JOIN saga ON saga.id = seen.saga" if by_topic else "saga"
    at, row = ("seen.started_at", "seen.saga") if by_topic else ("saga.started_at", "saga.id")
    by_name = bool(query.starts_with) and not by_topic
    terms = [f"{'+' * by_name}{lead} = ?"]
    values: list[str | int] = []
    if by_name:
        at, row = f"+{at}", f"+{row}"
    if query.starts_with:
        terms.append("saga.name >= ? AND saga.name < ?")
        values += (query.starts_with, query.starts_with + _LAST)
    for column, allowed in others:
        terms.append(f"+{column} IN ({', '.join('?' * len(allowed))})")
        values += allowed
    if query.started_from is not None:
        terms.append(f"{at} >= ?")
        values.append(query.started_from)
    if query.started_until is not None:
        terms.append(f"{at} < ?")
        values.append(query.started_until)
    if query.without:
        terms.append(f"+saga.definition NOT IN ({', '.join('?' * len(query.without))})")
        values += query.without
    if query.before is not None:
        terms.append(f"({at}, {row}) < (?, ?)")
        values += cursors.read(query.before, 2)
    one = f"""
        SELECT * FROM (SELECT {_SAGA} FROM {table} WHERE {" AND ".join(terms)}
                        ORDER BY {at} DESC, {row} DESC LIMIT ?)
    """  # noqa: S608 - column names; every value is bound
    limit = query.limit + 1
    sql = " UNION ALL ".join([one] * len(wanted)) + " ORDER BY started_at DESC, id DESC LIMIT ?"
    return sql, (*(part for value in wanted for part in (value, *values, limit)), limit)


def _filters(query: SagaQuery) -> list[tuple[str, tuple[str | int, ...]]]:
    """Column and allowed values, rarest first."""
    filters: list[tuple[str, tuple[str | int, ...]]] = []
    if query.topic is not None:
        filters.append(("seen.topic", (query.topic,)))
    if query.parent is not None:
        filters.append((_PARENT, (query.parent,)))
    if query.statuses is not None:
        filters.append(("saga.status", tuple([status.value for status in query.statuses])))
    if query.definition is not None:
        filters.append(("saga.definition", (query.definition,)))
    if query.env is not None:
        filters.append(("saga.env", (query.env,)))
    return filters


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
