"""A file as the source or the target of a copy. A frozen file has triggers that refuse, so whoever has it open is
refused as well, and older versions of amends too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from amends.journal.codec import removed_digest
from amends.journal.port.transfer import TABLES, CopiedRow, CopyMark, refused
from amends.journal.sqlite import file
from amends.journal.sqlite.database import MARK, MOVED, mark_of

_FROZEN: Final = (
    *((table, "INSERT") for table in ("entry", "saga", "checkpoint", "signer", "document", "ticket", "worker")),
    *((table, "UPDATE") for table in ("entry", "saga", "tree")),
    *((table, "DELETE") for table in ("entry", "saga", "document")),
)


class SqliteTransfer:
    def __init__(self, path: Path, group: int | None = None) -> None:
        self._database = file.open_to_write(
            path, busy_timeout_s=30.0, vfs=None, checked=False, group=group, is_target=True
        )
        self._reading = file.open_to_read(path, busy_timeout_s=30.0, vfs=None)

    def mark(self) -> CopyMark | None:
        return mark_of(self._database)

    def set_mark(self, mark: CopyMark | None) -> None:
        with self._database.transaction():
            self._set_mark(mark)

    def _set_mark(self, mark: CopyMark | None) -> None:
        if mark is None:
            self._database.run("DELETE FROM cursor WHERE name = ?", (MARK,))
        else:
            sql = "INSERT OR REPLACE INTO cursor (name, position, note) VALUES (?, 0, ?)"
            self._database.run(sql, (MARK, " ".join(mark)))

    def freeze(self, mark: CopyMark) -> None:
        words = f"{MOVED}{refused(mark)}".replace("'", "''")
        with self._database.transaction():
            self._drop_triggers()
            for table, verb in _FROZEN:
                self._database.run(
                    f"CREATE TRIGGER moved_{table}_{verb} BEFORE {verb} ON {table} "
                    f"BEGIN SELECT RAISE(ABORT, '{words}'); END"
                )
            self._set_mark(mark)

    def thaw(self) -> None:
        with self._database.transaction():
            self._drop_triggers()
            self._set_mark(None)

    def _drop_triggers(self) -> None:
        for table, verb in _FROZEN:
            self._database.run(f"DROP TRIGGER IF EXISTS moved_{table}_{verb}")

    def is_empty(self) -> bool:
        return self._database.first("SELECT 1 FROM saga LIMIT 1") is None

    def rows(self, table: str) -> Iterator[CopiedRow]:
        with self._reading.each(_SELECT.get(table, f"SELECT {', '.join(TABLES[table])} FROM {table}")) as found:  # noqa: S608 - all of it is constant
            yield from found

    def add(self, table: str, rows: Sequence[CopiedRow]) -> None:
        columns = TABLES[table]
        sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608 - names of ours
        with self._database.transaction():
            if table == "tree":
                self._database.run_many("UPDATE tree SET size = ?, kept = ?", rows)
            elif table == "blob_use":
                self._database.run_many(
                    "INSERT INTO blob_use (saga, blob) SELECT ?, id FROM blob WHERE digest = ?", rows
                )
            else:
                self._database.run_many(sql, map(_packed, rows) if table == "entry" else rows)

    def clear(self) -> None:
        with self._database.transaction():
            for table in TABLES:
                if table == "tree":
                    self._database.run("UPDATE tree SET size = 0, kept = x''")
                elif table == "cursor":
                    self._database.run("DELETE FROM cursor WHERE name <> ?", (MARK,))
                else:
                    self._database.run(f"DELETE FROM {table}")  # noqa: S608 - names of ours

    def close(self) -> None:
        self._reading.close()
        self._database.close()


def _packed(row: CopiedRow) -> CopiedRow:
    """An entry as it lies in the file: of a body that was removed, its digest after the hash."""
    *before, body, hashed = row
    gone = removed_digest(body)
    return row if gone is None else (*before, "", hashed + gone)


_SELECT: Final = {
    "entry": "SELECT seq, saga, number, at, name, body, hash FROM recorded ORDER BY seq",
    "blob": "SELECT digest, CAST(data AS TEXT) FROM blob ORDER BY id",
    "blob_use": "SELECT saga, digest FROM blob_use JOIN blob ON blob.id = blob_use.blob",
    "cursor": f"SELECT name, position, note FROM cursor WHERE name NOT IN ('{MARK}', 'amends.clock')",  # noqa: S608 - all of it is constant
}
