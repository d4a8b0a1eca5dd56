"""`amends new`: write a starter that runs: one action, its compensation and probe, a saga, a test and a drill."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import click

from amends.cli.options import common
from amends.cli.show.output import Output
from amends.errors import InputError
from amends.text import visible

MODULE: Final = '''"""A first saga: put a thing on a shelf, and take it away again when what follows fails."""

import json
from pathlib import Path

import amends
from amends import Asked, Done, Fatal, Happened, NotHappened, Work, action, saga

SHELF = Path("shelf.json")  # stands for somebody else's system: replace it by calls of yours


def on_the_shelf() -> dict[str, str]:
    return json.loads(SHELF.read_text(encoding="utf-8")) if SHELF.exists() else {}


def keep(things: dict[str, str]) -> None:
    SHELF.write_text(json.dumps(things), encoding="utf-8")


@action("shelf.put", idempotent=True)
def put(thing: str) -> str:
    """Put a thing on the shelf."""
    keep(on_the_shelf() | {amends.key(): thing})  # the same key on every attempt: it is there once
    return thing


@put.compensation
def take_away(done: Done) -> None:
    """Take it off the shelf again."""
    things = on_the_shelf()
    things.pop(done.action_key, None)  # what is not there is taken away already
    keep(things)


@put.probe
def look(asked: Asked) -> Happened | NotHappened:
    thing = on_the_shelf().get(asked.key)
    return NotHappened() if thing is None else Happened(thing)


@action("shelf.weigh", read_only=True)
def weigh(thing: str) -> int:
    """Say how heavy a thing is; the shelf does not bear everything."""
    if len(thing) > 10:
        raise Fatal(f"{thing} is too heavy for the shelf", happened=False)
    return len(thing)


@saga("__NAME__.stock")
async def stock(s: Work, thing: str) -> int:
    await s.do(put, thing)
    return await s.do(weigh, thing)
'''
TEST: Final = '''"""The saga does its work, takes back what it did when that fails, and comes through a drill."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import amends
import __NAME__


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_thing_is_put_on_the_shelf() -> None:
    ended = amends.run(__NAME__.stock, "a cup", journal=":memory:")
    assert (ended.status, ended.result) == ("completed", 5)
    assert list(__NAME__.on_the_shelf().values()) == ["a cup"]


def test_what_is_too_heavy_is_taken_away_again() -> None:
    ended = amends.run(__NAME__.stock, "a grand piano", journal=":memory:")
    assert (ended.status, ended.why) == (
        "rolled_back",
        "shelf.weigh (step 2): a grand piano is too heavy for the shelf",
    )
    assert __NAME__.on_the_shelf() == {}


def test_it_comes_back_from_wherever_it_fails(drill) -> None:
    report = drill(__NAME__.stock, {"thing": "a cup"}, fresh=lambda: __NAME__.keep({}))
    assert report.passed
'''
CONFIG: Final = """# What `amends` goes by here, unless its command line or the environment says otherwise.
journal = "amends.db"
modules = ["__NAME__"]      # where the sagas are: for `amends resume`, `amends work` and those who see to incidents
# policy = "policy.yaml"    # has to be the one in force: amends policy adopt policy.yaml --why …
# env = "production"
"""
PYTEST: Final = """[pytest]
pythonpath = .
"""
PYTEST_FILES: Final = ("pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
"""A directory that has one of them is a project of its own, which says itself how its tests run."""


@click.command()
@click.argument("directory", metavar="DIRECTORY")
@click.option("--name", metavar="NAME", default="shelf", show_default=True, help="The name of the module.")
@common
def new(*, directory: str, name: str, as_json: bool) -> None:
    """Write a starter that runs: an action with its compensation and probe, a saga, a test and a drill.

    DIRECTORY is made where it is not there. Nothing that exists is overwritten.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise InputError(f"--name {name!r} is not a module's name; use a-z 0-9 _ and begin with a letter")
    place, out = Path(directory), Output(as_json=as_json)
    files = {f"{name}.py": MODULE, f"test_{name}.py": TEST, "amends.toml": CONFIG}
    try:
        place.mkdir(parents=True, exist_ok=True)
        if not any((place / file).exists() for file in PYTEST_FILES):
            files["pytest.ini"] = PYTEST
        there = [file for file in files if (place / file).exists()]
        if there:
            raise InputError(f"{directory} has {there[0]} already; name another directory, or another --name")
        for file, text in files.items():
            (place / file).write_text(text.replace("__NAME__", name), encoding="utf-8")
            out.record("written", {"file": str(place / file)})
            out.say(f"wrote {visible(str(place / file))}")
    except OSError as exc:
        raise InputError(f"{directory}: {exc.strerror}") from None
    out.say()
    out.say("try it:")
    for line in (
        f"cd {directory}",
        f"""amends run {name}:stock --input '{{"thing": "a cup"}}'""",
        f"""amends run {name}:stock --input '{{"thing": "a grand piano"}}'   # is taken back""",
        *(() if find_spec("pytest") else ("pip install pytest",)),
        "pytest",
        f"""amends drill {name}:stock --input '{{"thing": "a cup"}}'""",
    ):
        out.say(f"  {visible(line)}")
