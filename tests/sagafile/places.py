"""The examples' worlds: a git repository, an office of files, a real SQLite database; and how to look at them."""

import json
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
GIT = ("git", "-c", "user.name=Ann", "-c", "user.email=ann@example.com")


@dataclass(frozen=True)
class World:
    """`look` says all that a saga may change; what is done and what is back are compared by it."""

    file: Path
    given: dict[str, str]
    look: Callable[[], dict[str, str]]
    env: dict[str, str]


def tree(place: Path) -> dict[str, str]:
    files = (path for path in sorted(place.rglob("*")) if path.is_file() and ".git" not in path.parts)
    return {path.relative_to(place).as_posix(): path.read_bytes().hex() for path in files}


def release(place: Path) -> World:
    repository, uploads, news = place / "app", place / "www", place / "news.txt"
    for each in (repository, uploads):
        each.mkdir()
    news.write_text("", encoding="utf-8")
    (repository / "app.py").write_text("print('hello')\n", encoding="utf-8")
    (repository / ".gitignore").write_text("build/\n", encoding="utf-8")
    for words in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "--message", "Begin")):
        subprocess.run([*GIT, *words], cwd=repository, check=True)

    def look() -> dict[str, str]:
        tags = subprocess.run(["git", "tag"], cwd=repository, check=True, capture_output=True, text=True).stdout
        return {"tags": tags, **tree(place)}

    given = {"repository": str(repository), "tag": "v1.0.0", "uploads": str(uploads), "news": str(news)}
    author = {"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "Ann"}
    env = {**author, "GIT_CONFIG_KEY_1": "user.email", "GIT_CONFIG_VALUE_1": "ann@example.com"}
    return World(EXAMPLES / "release.yaml", given, look, env)


def offboarding(place: Path) -> World:
    for name in ("users", "disabled", "keys", "revoked", "tickets", "archive", "home/ann"):
        (place / name).mkdir(parents=True)
    (place / "users/ann.json").write_text(json.dumps({"name": "Ann"}), encoding="utf-8")
    (place / "keys/ann.pub").write_text("ssh-ed25519 AAAA ann\n", encoding="utf-8")
    (place / "home/ann/notes.txt").write_text("notes\n", encoding="utf-8")
    for name, owner in (("1", "ann"), ("2", "bob"), ("3", "ann")):
        (place / f"tickets/{name}.txt").write_text(f"owner: {owner}\nthe roof leaks\n", encoding="utf-8")
    given = {"user": "ann", "to": "bob", "office": str(place)}
    return World(EXAMPLES / "offboarding.yaml", given, lambda: tree(place), {})


def migration(place: Path) -> World:
    path = place / "app.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT)")
        database.execute("CREATE TABLE applied (name TEXT PRIMARY KEY)")
        database.execute("INSERT INTO people (name) VALUES ('Ann Lee'), ('Bob Ray')")
        database.commit()

    def look() -> dict[str, str]:
        with closing(sqlite3.connect(path)) as database:
            columns = sorted(row[1] for row in database.execute("PRAGMA table_info(people)"))
            rows = database.execute(f"SELECT {', '.join(columns)} FROM people ORDER BY id").fetchall()
            applied = database.execute("SELECT name FROM applied").fetchall()
        files = sorted("app.db.copy" if "app.db.0" in path.name else path.name for path in place.iterdir())
        return {"columns": str(columns), "rows": str(rows), "applied": str(applied), "files": str(files)}

    given = {"database": str(path), "name": "0002_split_names"}
    return World(EXAMPLES / "migration/migration.yaml", given, look, {})


def refactoring(place: Path) -> World:
    package = place / "tally"
    shutil.copytree(EXAMPLES / "refactoring" / "tree", package)
    given = {"tree": str(package), "module": "tools", "name": "spending"}
    return World(EXAMPLES / "refactoring/refactoring.yaml", given, lambda: tree(package), {})


WORLDS: dict[str, Callable[[Path], World]] = {
    "release": release,
    "offboarding": offboarding,
    "migration": migration,
    "refactoring": refactoring,
}
