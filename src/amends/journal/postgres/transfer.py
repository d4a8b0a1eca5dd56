"""A database as the source or the target of a copy. Both take its owner: a frozen one has triggers that refuse."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import psycopg

from amends.errors import JournalError
from amends.journal.port.transfer import TABLES, CopiedRow, CopyMark, refused
from amends.journal.postgres import database as troubles
from amends.journal.postgres.address import PostgresAddress
from amends.journal.postgres.database import MOVED, connected, mark_of

_FROZEN: Final = ("entry", "saga", "checkpoint", "signer", "document", "ticket", "worker", "tree")
_NUMBERED: Final = ("saga", "incident", "approval", "ticket", "document", "signer", "admission", "batch")
_CHUNK: Final = 2_000


class PostgresTransfer:
    def __init__(self, address: str) -> None:
        self._address = PostgresAddress(address)
        self._database = connected(self._address, is_target=True)
        self._reading = connected(self._address, is_target=True)

    def mark(self) -> CopyMark | None:
        return mark_of(self._database)

    def set_mark(self, mark: CopyMark | None) -> None:
        with self._transaction():
            self._set_mark(mark)

    def _set_mark(self, mark: CopyMark | None) -> None:
        self._database.run("DELETE FROM moved")
        if mark is not None:
            self._database.run("INSERT INTO moved (id, how, note) VALUES (1, %s, %s)", tuple(mark))

    @contextmanager
    def _transaction(self) -> Generator[None]:
        """A transaction whose troubles are told in our words."""
        try:
            with self._database.raw.transaction():
                yield
        except psycopg.Error as exc:
            raise _owned(troubles.said(self._address, exc)) from None

    def freeze(self, mark: CopyMark) -> None:
        words = refused(mark).replace("'", "''")
        with self._transaction():
            self._database.run(_REFUSE.replace("{words}", words.replace("%", "%%")))
            for table in _FROZEN:
                self._database.run(f"DROP TRIGGER IF EXISTS moved ON {table}")
                self._database.run(
                    f"CREATE TRIGGER moved BEFORE INSERT OR UPDATE OR DELETE ON {table} "
                    "FOR EACH STATEMENT EXECUTE FUNCTION refuse_moved()"
                )
            self._set_mark(mark)

    def thaw(self) -> None:
        with self._transaction():
            for table in _FROZEN:
                self._database.run(f"DROP TRIGGER IF EXISTS moved ON {table}")
            self._set_mark(None)

    def is_empty(self) -> bool:
        return self._database.first("SELECT 1 FROM saga LIMIT 1") is None

    def rows(self, table: str) -> Iterator[CopiedRow]:
        sql = _SELECT.get(table, f"SELECT {', '.join(TABLES[table])} FROM {table}")  # noqa: S608 - names of ours
        raw = self._reading.raw
        with raw.transaction(), raw.cursor(name="amends_copy") as cursor:
            cursor.itersize = _CHUNK
            cursor.execute(sql.encode())
            yield from cursor

    def add(self, table: str, rows: Sequence[CopiedRow]) -> None:
        columns = TABLES[table]
        with self._transaction():
            if table == "tree":
                ((size, kept),) = rows
                self._database.run(_TREE, (size, kept))
                self._renumber()
            elif table == "entry":
                self._add_entries(rows)
            else:
                marks = ", ".join("%s::int::boolean" if name in {"nudged", "removed"} else "%s" for name in columns)
                sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608 - names of ours
                self._database.run_many(sql, rows)
                if table == "saga":
                    self._database.run(_FAMILIES)

    def _add_entries(self, rows: Sequence[CopiedRow]) -> None:
        """As one batch, which has its positions already."""
        sql = "INSERT INTO batch (count, is_end, at, first) VALUES (%s, false, %s, %s) RETURNING id"
        ((batch,),) = self._database.rows(sql, (len(rows), rows[-1][3], rows[0][0]))
        placed: list[tuple[Any, ...]] = [(*row[1:], batch, place) for place, row in enumerate(rows)]
        self._database.run_many(_ENTRY, placed)

    def _renumber(self) -> None:
        """Number what is added from here on after what came along."""
        for table in _NUMBERED:
            self._database.run(
                f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), (SELECT coalesce(max(id), 0) + 1 FROM {table}), false)"  # noqa: S608, E501 - names of ours
            )

    def clear(self) -> None:
        with self._transaction():
            for table in (*TABLES, "batch"):
                if table == "tree":
                    self._database.run("UPDATE tree SET size = 0, kept = '', signed = 0, since = 0, owed = false")
                else:
                    self._database.run(f"DELETE FROM {table}")  # noqa: S608 - names of ours

    def close(self) -> None:
        self._reading.close()
        self._database.close()


def _owned(error: JournalError) -> JournalError:
    return type(error)(f"{error}; copying takes the owner of the tables")


_REFUSE: Final = f"""
    CREATE OR REPLACE FUNCTION refuse_moved() RETURNS trigger LANGUAGE plpgsql AS $moved$
    BEGIN RAISE EXCEPTION '{{words}}' USING ERRCODE = '{MOVED}'; END $moved$
"""
_TREE: Final = """
    UPDATE tree SET size = %s, kept = %s, owed = false,
        signed = coalesce((SELECT max(size) FROM checkpoint), 0),
        since = coalesce((SELECT at FROM checkpoint ORDER BY size DESC LIMIT 1), (SELECT min(at) FROM signer), 0)
"""
_FAMILIES: Final = """
    UPDATE saga SET parent = labels::json ->> 'amends.parent', root = labels::json ->> 'amends.root'
     WHERE (parent IS NULL AND root IS NULL) AND (labels LIKE '%amends.parent%' OR labels LIKE '%amends.root%')
"""
_ENTRY: Final = """
    INSERT INTO entry (saga, number, at, name, body, hash, batch, place) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
"""
_SAGA: Final = ", ".join(f"{name}::int" if name in {"nudged", "removed"} else name for name in TABLES["saga"])
_SELECT: Final = {
    "saga": f"SELECT {_SAGA} FROM saga ORDER BY id",  # noqa: S608 - all of it is constant
    "entry": """
        SELECT batch.first + entry.place, entry.saga, entry.number, entry.at, entry.name, entry.body, entry.hash
          FROM batch JOIN entry ON entry.batch = batch.id ORDER BY batch.first, entry.place
    """,
}
