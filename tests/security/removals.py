"""A journal with a failed saga in it, and hands that edit its file without its key."""

import json
import sqlite3
from hashlib import sha256
from pathlib import Path

from tests.cli.shell import Said, Shell

FORGET = ("evidence", "forget", "--ended-before", "0m", "--yes")


def failed_saga(place: Path) -> Shell:
    """A directory whose journal has a saga that went wrong, and one that went well; and the journal's key, pinned."""
    shell = Shell(place)
    (place / "pay.py").write_text(PAY, encoding="utf-8")
    assert shell("run", "pay:pay", "--id", "bad", "--input", '{"cents": 99}', "--actor", "agent:desk").code == 3
    assert shell("run", "pay:pay", "--id", "good", "--input", '{"cents": 1}', "--actor", "agent:desk").code == 0
    (place / "pub").write_text(shell("evidence", "key").out, encoding="utf-8")
    (place / "verify.py").write_text(shell("evidence", "verifier").out, encoding="utf-8")
    return shell


PAY = """
from amends import Done, Fatal, Work, action, saga


@action("card.charge")
def charge(cents: int) -> str:
    if cents > 50:
        raise Fatal("declined", happened=False)
    return "paid"


@charge.compensation
def refund(done: Done) -> None: ...


@saga("pay")
async def pay(s: Work, cents: int) -> str:
    return await s.do(charge, cents)
"""


def _digest(text: str) -> str:
    return f"sha256:{sha256(text.encode()).hexdigest()}"


def edit(shell: Shell, *statements: str) -> None:
    """As whoever may write the file, and has no key."""
    database = sqlite3.connect(shell.place / "amends.db")
    database.create_function("digest", 1, _digest)
    for statement in statements:
        database.execute(statement)
    database.commit()
    database.close()


STRIP = "UPDATE entry SET body = digest(body) WHERE saga = (SELECT id FROM saga WHERE name = 'bad')"
MARK = "UPDATE saga SET removed = 1, labels = '{}' WHERE name = 'bad'"


def verdicts(shell: Shell, *words: str) -> list[Said]:
    """What is said of the journal where it lies, and of a bundle of all of it, by each of the verifiers."""
    exported = shell("evidence", "export", "-o", "all.jsonl")
    assert exported.code == 0, exported
    return [
        shell("evidence", "verify", "--key", "@pub", *words),
        shell("evidence", "verify", "all.jsonl", "--key", "@pub", *words),
        shell.python("verify.py", "all.jsonl", "--key", "@pub", *words),
    ]


def broken_index(shell: Shell, index: str, *statements: str) -> None:
    """Change rows behind an index's back: it is taken out of the schema, and put back as it was."""
    file = shell.place / "amends.db"
    database = sqlite3.connect(file, isolation_level=None)
    database.execute("PRAGMA writable_schema = ON")
    row = database.execute("SELECT * FROM sqlite_schema WHERE name = ?", (index,)).fetchone()
    database.execute("DELETE FROM sqlite_schema WHERE name = ?", (index,))
    database.close()
    database = sqlite3.connect(file, isolation_level=None)
    for statement in statements:
        database.execute(statement)
    database.execute("PRAGMA writable_schema = ON")
    database.execute("INSERT INTO sqlite_schema VALUES (?, ?, ?, ?, ?)", row)
    database.close()


def removals(said: Said) -> list[dict[str, object]]:
    (record,) = [json.loads(line) for line in said.out.splitlines()]
    found: list[dict[str, object]] = record["removals"]
    return found
