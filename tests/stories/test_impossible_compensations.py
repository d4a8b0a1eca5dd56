"""A compensation that could never be called is refused when its module is imported, not when it is needed."""

from pathlib import Path

import pytest

from tests.cli.shell import Shell

HEAD = """from amends import Work, action, saga


@action("seats.book")
def book(name: str) -> str:
    return name


"""
TAIL = """

@saga("desk.welcome")
async def welcome(s: Work, name: str) -> str:
    return await s.do(book, name)
"""
PROGRAM = """
from amends.errors import DeclarationError

try:
    import desk
except DeclarationError as exc:
    print(exc)
"""
CASES = {
    "@book.compensation\ndef unbook(done, key): ...": (
        "seats.book: its compensation desk:unbook, line 9 could never be called: it is called with one argument, a "
        "Done: unbook(done); missing a required argument: 'key'"
    ),
    "@book.compensation\ndef unbook(done): ...\n\n@book.compensation\ndef give_back(done): ...": (
        "seats.book has a compensation already, desk:unbook, line 9, and desk:give_back, line 12 would take its place "
        "unseen; keep one of them, or declare another action with a topic or a version of its own"
    ),
    "@book.probe\ndef is_booked(): ...": (
        "seats.book: its probe desk:is_booked, line 9 could never be called: it is called with one argument, an Asked: "
        "is_booked(asked); too many positional arguments"
    ),
    "@book.before\ndef seen(nam, room): ...": (
        "seats.book: its before desk:seen, line 9 could never be called: it is called with one argument, an Asked: "
        "seen(asked), or with any of name by name; missing a required argument: 'nam'"
    ),
    "@book.compensation\nasync def unbook(done):\n    yield": (
        "seats.book: its compensation desk:unbook, line 9 is a generator: called, it would not run a line of it; "
        "return what it gives, and do not yield it"
    ),
    "class Desk:\n    @action('desk.rent')\n    def rent(self, name): ...": (
        "desk.rent: desk:Desk.rent, line 10 is a method, and no step would give it its object; put @staticmethod above "
        "@action, move it out of the class, or register('desk.rent', an_object.rent)"
    ),
}


@pytest.mark.parametrize(("text", "told"), CASES.items(), ids=["two", "second", "probe", "before", "yields", "method"])
def test_it_is_refused_from_python_and_from_the_command_line(tmp_path: Path, text: str, told: str) -> None:
    amends = Shell(tmp_path)
    (tmp_path / "desk.py").write_text(HEAD + text + TAIL, encoding="utf-8")
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    said = amends.python("program.py")
    assert (said.out, said.err) == (f"{told}\n", "")
    for command in ("run", "drill"):
        complaint = amends.here(command, "desk:welcome", "--input", '{"name": "ann"}').complaint
        assert complaint.startswith(f"module desk cannot be imported: DeclarationError: {told} (")
        assert f"{tmp_path}/desk.py:" in complaint
    assert not (tmp_path / "amends.db").exists()


def test_a_yaml_step_has_one_compensation(tmp_path: Path) -> None:
    text = "version: v1\nsaga: a\nsteps:\n  - id: x\n    run: [a]\n    compensate: [b]\n    compensate: [c]\n"
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    said = "a.yaml:7: the key 'compensate' twice in one map; the first is in line 6"
    assert Shell(tmp_path).here("run", "a.yaml").complaint == said
