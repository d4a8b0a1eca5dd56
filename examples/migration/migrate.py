"""A migration tool as small as it gets: NAME.up.sql and NAME.down.sql, each in one transaction of SQLite.

    migrate.py up|down|status DATABASE NAME
    migrate.py check DATABASE
    migrate.py copy DATABASE TO

`up` and `down` may be repeated; `status` ends with 0 where a migration is applied and with 1 where it is not.
"""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

HERE = Path(__file__).parent


def applied(database: sqlite3.Connection, name: str) -> bool:
    database.execute("CREATE TABLE IF NOT EXISTS applied (name TEXT PRIMARY KEY)")
    return database.execute("SELECT 1 FROM applied WHERE name = ?", (name,)).fetchone() is not None


def move(database: sqlite3.Connection, name: str, way: str) -> None:
    database.execute("BEGIN IMMEDIATE")
    try:
        if applied(database, name) is (way == "up"):
            return
        for statement in (HERE / f"{name}.{way}.sql").read_text(encoding="utf-8").split(";"):
            database.execute(statement)
        change = "INSERT INTO applied VALUES (?)" if way == "up" else "DELETE FROM applied WHERE name = ?"
        database.execute(change, (name,))
        database.execute("COMMIT")
    finally:
        if database.in_transaction:
            database.execute("ROLLBACK")


def main(way: str, path: str, *rest: str) -> int:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        if way == "status":
            return 0 if applied(database, rest[0]) else 1
        if way == "check":
            return 0 if database.execute("PRAGMA integrity_check").fetchone() == ("ok",) else 1
        if way == "copy":
            Path(rest[0]).unlink(missing_ok=True)
            database.execute("VACUUM INTO ?", rest)
            return 0
        move(database, rest[0], way)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
