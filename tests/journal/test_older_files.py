"""Files of older formats: brought up when they are opened, and what was written then stays as it is."""

import asyncio
import json
import sqlite3
from contextlib import closing
from importlib import resources
from pathlib import Path

import pytest

from amends.core.events import Event, SagaCompleted
from amends.core.transitions import SagaStatus
from amends.core.words.values import SagaId, digest
from amends.journal.codec import chain
from amends.journal.port.journal import SagaQuery, Summary
from amends.journal.sqlite import SqliteJournal
from amends.journal.tree import Subtree
from amends.testing.clock import ManualClock
from amends.testing.journal_suite.samples import STEP, resumed, started, succeeded, walked
from amends.testing.journal_suite.whole import history

SAGA = SagaId("s")
NEWEST = len(list((resources.files("amends.journal.sqlite") / "sql").iterdir()))
RUNNING, COMPLETED = Summary(status=SagaStatus.RUNNING), Summary(status=SagaStatus.COMPLETED)
LARGE = "x" * 300_000
TEXT = json.dumps(LARGE)
BODY = f'{{"attempt":1,"blobs":{{"result":{{"digest":"{digest(TEXT)}","size":{len(TEXT)}}}}},"step":"{STEP}"}}'
FORMAT_5 = """
    DROP TABLE saga_key;
    DROP TABLE keys_noted;
    DROP VIEW recorded;
    DROP TABLE subtree;
    DROP TABLE saga_label;
    DROP INDEX saga_definition_status;
    DROP INDEX saga_ended;
    CREATE INDEX saga_started ON saga (started_at);
    CREATE INDEX saga_definition ON saga (definition, started_at);
    PRAGMA user_version = 5;
"""
FORMAT_4 = f"""
    {FORMAT_5}
    DROP TABLE blob_use;
    CREATE TABLE blob_use (
        saga INTEGER NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (saga, digest)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX blob_use_digest ON blob_use (digest);
    PRAGMA user_version = 4;
"""


async def write_format_4(path: Path) -> None:
    """A file as format 4 had it, with a large result in one piece."""
    journal = await SqliteJournal.open(path, ManualClock())
    events: list[Event] = [started(), succeeded("x")]
    for after, event in enumerate(events):
        await journal.append(SAGA, [event], after=after, summary=RUNNING)
    await journal.close()
    with closing(sqlite3.connect(path)) as database:
        ((before, at),) = database.execute("SELECT hash, (SELECT at FROM entry WHERE seq = 2) FROM entry WHERE seq = 1")
        hashed = chain(before, SAGA, 2, at, "attempt.succeeded/1", BODY)
        database.execute("UPDATE entry SET body = ?, hash = ? WHERE seq = 2", (BODY, hashed))
        database.execute("UPDATE saga SET hash = ?", (hashed,))
        database.executescript(FORMAT_4)
        database.execute("INSERT INTO blob (digest, data) VALUES (?, ?)", (digest(TEXT), TEXT))
        database.execute("INSERT INTO blob_use (saga, digest) VALUES (1, ?)", (digest(TEXT),))
        database.commit()


def test_what_format_4_kept_in_one_piece_is_read_goes_on_and_is_removed(ram_path: Path) -> None:
    path = ram_path / "old.db"

    async def live() -> None:
        await write_format_4(path)
        journal = await SqliteJournal.open(path, ManualClock())
        (_, old) = [entry async for entry in journal.read(SAGA)]
        assert (old.body, old.event) == (BODY, succeeded(LARGE))
        await journal.append(SAGA, [SagaCompleted(result=history(0, 40))], after=2, summary=COMPLETED)
        (*_, new) = [entry async for entry in journal.read(SAGA)]
        assert new.event == SagaCompleted(result=history(0, 40))
        assert await journal.payload(digest(TEXT)) == TEXT
        await journal.remove_payloads(by="person:ann", why="it is old", ended_before=2**50)
        assert await journal.payload(digest(TEXT)) is None
        await journal.close()

    asyncio.run(live())
    with closing(sqlite3.connect(path)) as database:
        left = [database.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("blob", "blob_use")]
        assert (left, database.execute("PRAGMA user_version").fetchone()[0]) == ([0, 0], NEWEST)


WANTED = [Subtree(1, 9), Subtree(513, 8), Subtree(257, 3), Subtree(769, 0)]


@pytest.mark.parametrize("sql", [FORMAT_5, "DELETE FROM subtree WHERE place = 1"])
def test_what_is_kept_of_the_tree_is_made_for_older_files_and_done_without_where_some_is_missing(
    ram_path: Path, sql: str
) -> None:
    """Format 5 kept nothing of it; a program of that time, with the file still open, goes on not to."""
    path = ram_path / "old.db"

    async def live() -> None:
        journal = await SqliteJournal.open(path, ManualClock())
        await journal.append(SAGA, [started(), *[resumed()] * 799], after=0, summary=RUNNING)
        roots = await journal.subtrees(WANTED)
        await journal.close()
        with closing(sqlite3.connect(path)) as database:
            database.executescript(sql)
        journal = await SqliteJournal.open(path, ManualClock())
        assert await journal.subtrees(WANTED) == roots
        await journal.append(SAGA, [resumed()] * 300, after=800, summary=RUNNING)
        assert await journal.subtrees([Subtree(1, 10)])
        await journal.close()

    asyncio.run(live())
    with closing(sqlite3.connect(path)) as database:
        kept = database.execute("SELECT height, place FROM subtree ORDER BY 1, 2").fetchall()
        assert kept == [(8, place) for place in range(4) if place != 1 or sql == FORMAT_5]


def test_sagas_of_older_files_are_found_by_their_labels_and_the_keys_of_their_calls(ram_path: Path) -> None:
    path = ram_path / "old.db"

    async def live() -> None:
        journal = await SqliteJournal.open(path, ManualClock())
        await journal.append(SAGA, [started(), *walked("1")], after=0, summary=RUNNING)
        await journal.close()
        with closing(sqlite3.connect(path)) as database:
            database.executescript(FORMAT_5)
        journal = await SqliteJournal.open(path, ManualClock())
        for value, names in (("travel", ["s"]), ("another", [])):
            page = await journal.sagas(SagaQuery(labels=(("team", value),)))
            assert [row.id for row in page.rows] == names
        assert await journal.note_keys()
        assert [row.id for row in (await journal.sagas(SagaQuery(key="k" * 32))).rows] == ["s"]
        await journal.close()

    asyncio.run(live())
