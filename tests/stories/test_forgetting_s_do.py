"""Somebody writes `mail("ann")` in a saga where `await s.do(mail, "ann")` is meant."""

from pathlib import Path

import pytest

from tests.cli.shell import Shell

MODULE = """
from pathlib import Path

from amends import Done, Work, action, saga


@action("seats.book")
def book(name: str) -> str:
    Path("world.txt").open("a").write(f"+ {name}\\n")
    return name


@book.compensation
def unbook(done: Done) -> None:
    Path("world.txt").open("a").write(f"- {done.args['name']}\\n")


@action("mail.send", no_rollback="a mail cannot be unsent")
async def mail(to: str) -> str:
    Path("world.txt").open("a").write(f"mail {to}\\n")
    return f"told {to}"


@saga("desk.welcome")
async def welcome(s: Work, name: str) -> str:
    await s.do(book, name)
    return await mail(name)


@saga("desk.greet")
async def greet(s: Work, name: str) -> str:
    await s.do(book, name)
    return await s.do(mail, name)
"""
PROGRAM = """
import asyncio
import amends, desk

async def main():
    async with amends.Coordinator.open("desk.db", env="production") as coordinator:
        ended = await coordinator.run(desk.welcome, "ann", id="w-1")
        print(ended.status)
        print(ended.why)
    print(await desk.mail("outside"))

asyncio.run(main())
"""
SAID = (
    "DirectCallError: mail.send was called directly in the function of saga desk.welcome, where the gate and the "
    "journal would not know of it, and nothing was done; write `await s.do(mail, …)` (desk.py:27, in welcome)"
)


@pytest.fixture
def amends(tmp_path: Path) -> Shell:
    (tmp_path / "desk.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    return Shell(tmp_path)


def test_from_the_command_line_no_mail_goes_out_and_the_seat_is_given_back(amends: Shell) -> None:
    said = amends("run", "desk:welcome", "--input", '{"name": "ann"}', "--id", "w-1", "--env", "production")
    assert said.code == 3
    assert said.out.splitlines()[-1] == f"saga w-1 rolled back: {SAID}"
    assert amends.world == ["+ ann", "- ann"]
    assert SAID in amends("saga", "show", "w-1").out


def test_from_python_it_is_the_same_and_outside_of_sagas_it_is_the_function(amends: Shell) -> None:
    said = amends.python("program.py")
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines() == ["rolled_back", SAID, "told outside"]
    assert amends.world == ["+ ann", "- ann", "mail outside"]


def test_as_it_is_meant_the_mail_goes_out_once(amends: Shell) -> None:
    assert amends("run", "desk:greet", "--input", '{"name": "ann"}').code == 0
    assert amends.world == ["+ ann", "mail ann"]
