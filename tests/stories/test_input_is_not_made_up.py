"""What a saga is given is what somebody said: nothing that is missing or misspelt is made to fit."""

from pathlib import Path

import pytest

from tests.cli.shell import Shell

MODULE = """
from amends import SagaDefinition, Step, Work, action, saga


@action("mail.greet", no_rollback="a mail cannot be unsent")
def greet(name: str, words: str = "hello") -> str:
    open("world.txt", "a").write(f"{name} {words}\\n")
    return f"{words} {name}"


@saga("desk.welcome")
async def welcome(s: Work, name: str) -> str:
    return await s.do(greet, name)


line = SagaDefinition("desk.line", [Step(greet)])
"""
FILE = """version: v1
saga: write
inputs: {name: {}}
steps: [{id: put, run: [touch, "${input.name}"], no_rollback: it stays}]
"""
PROGRAM = """
import amends, desk
from amends.errors import InputError
from amends.sagafile import load_saga

for definition, given in (
    (desk.welcome, {}), (desk.welcome, {"nam": "x"}), (desk.line, {}), (desk.line, {"nam": "x"}),
    (load_saga("write.yaml"), {"nam": "x"}),
):
    try:
        amends.run(definition, **given, journal=":memory:")
    except InputError as exc:
        print(exc)
"""


@pytest.fixture
def amends(tmp_path: Path) -> Shell:
    (tmp_path / "desk.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "write.yaml").write_text(FILE, encoding="utf-8")
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    return Shell(tmp_path)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("desk:welcome",), "saga desk.welcome needs name; give it with --input '{\"name\": …}'"),
        (("desk:welcome", "--input", '{"nam": "x"}'), "saga desk.welcome has no input 'nam'; did you mean name?"),
        (
            ("desk:welcome", "--input", '"x"'),
            "saga desk.welcome takes an object of inputs, not 'x'; write {\"name\": …}, or say --input-as name",
        ),
        (
            ("desk:welcome", "--input", '"x"', "--input-as", "nme"),
            "saga desk.welcome has no input 'nme'; did you mean name?",
        ),
        (
            ("desk:welcome", "--input-as", "name"),
            "--input-as name says what the input is, and there is none; give it with --input",
        ),
        (("desk:line",), "saga desk.line, step greet needs name in the input"),
        (("desk:line", "--input", '{"nam": "x"}'), "saga desk.line has no input 'nam'; did you mean name?"),
        (("write.yaml",), "saga write needs name; give it with --input '{\"name\": …}'"),
        (("write.yaml", "--input", '{"nam": "x"}'), "saga write has no input 'nam'; did you mean name?"),
    ],
)
@pytest.mark.parametrize("command", ["run", "drill"])
def test_the_command_line_refuses_before_anything_runs(
    amends: Shell, command: str, words: tuple[str, ...], told: str
) -> None:
    assert amends.here(command, *words).complaint == told
    assert not (amends.place / "world.txt").exists()
    assert not (amends.place / "amends.db").exists()


def test_from_python_it_is_told_as_python_tells_it(amends: Shell) -> None:
    said = amends.python("program.py")
    assert said.err == ""
    assert said.out.splitlines() == [
        "saga desk.welcome: missing a required argument: 'name'; it takes (name)",
        "saga desk.welcome: got an unexpected keyword argument 'nam'; did you mean name? it takes (name)",
        "saga desk.line, step greet needs name in the input",
        "saga desk.line has no input 'nam'; did you mean name?",
        "saga write has no input 'nam'; did you mean name?",
    ]


def test_one_value_stands_for_one_input_where_that_is_asked_for(amends: Shell) -> None:
    assert amends("run", "desk:welcome", "--input", '{"name": "ann"}').code == 0
    assert amends("run", "desk:welcome", "--input", "-", "--input-as", "name", stdin=b'"bob"').code == 0
    assert amends("run", "desk:line", "--input", '"eve"', "--input-as", "name").code == 0
    assert amends.world == ["ann hello", "bob hello", "eve hello"]
    assert amends("run", "write.yaml", "--input", '"new.txt"', "--input-as", "name").code == 0
    assert (amends.place / "new.txt").exists()


def test_a_drill_on_record_whose_input_does_not_fit_any_more_is_not_made_to_fit(amends: Shell) -> None:
    given = ("--input", '"ann"', "--input-as", "name")
    assert amends("drill", "desk:welcome", *given, "--only", "as-it-is").code == 0
    assert amends("drill", "desk:welcome", *given, "--env", "staging").code == 0
    renamed = MODULE.replace("s: Work, name: str", "s: Work, person: str").replace(
        "s.do(greet, name)", "s.do(greet, person)"
    )
    (amends.place / "desk.py").write_text(renamed, encoding="utf-8")
    assert amends("drill", "desk:welcome", "--changed").complaint == (
        "desk:welcome does not take the input of its last drill: saga desk.welcome has no input 'name'; "
        "it takes person; drill it once without --changed"
    )
