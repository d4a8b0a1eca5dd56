"""How long, how often, how much: said on the command line, by the definition, in amends.toml, or not at all."""

import json
import sqlite3
from pathlib import Path

import pytest

from tests.cli.shell import Said, Shell

MODULE = """
from pathlib import Path

import amends
from amends import Done, Limits, NotDone, Retries, Work, action, saga

QUICK = Retries(attempts=20, first_s=0.001, cap_s=0.001)


@action("till.pay", idempotent=True, retries=QUICK, compensation_retries=QUICK)
def pay(n: int) -> int:
    with Path("tried").open("a") as file:
        file.write("x")
    if len(Path("tried").read_text()) < n:
        raise NotDone("the till is down")
    return n


@pay.compensation
def refund(done: Done) -> None:
    with Path("refunds").open("a") as file:
        file.write("x")
    raise OSError("the till is down")


@action("till.close", retries=1)
def close() -> None:
    raise NotDone("closed already")


@close.compensation
def reopen(done: Done) -> None: ...


@saga("till.plain")
async def plain(s: Work, n: int) -> int:
    return await s.do(pay, n)


@saga("till.bounded", attempts=3, compensation_attempts=2, rollback_s=40, lease_s=33, limits=Limits(failures=7))
async def bounded(s: Work, n: int) -> int:
    await s.do(pay, n)
    await s.do(close)
    return n


if __name__ == "__main__":
    ended = amends.run(plain, 9, limits=Limits(failures=2))
    print(ended.status, "-", ended.why)
"""
YAML = """
version: v1
saga: flaky
rollback: 40s
attempts: 4
compensation_attempts: 2
lease: 33s
limits: {failures: 2, then: call}
steps:
  - id: try
    shell: echo x >> tried; exit 1
    exit_codes: {failed: [1]}
    retry: {attempts: 9, first: 1s, cap: 1s}
    no_rollback: a test
"""


@pytest.fixture
def till(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    (tmp_path / "till.py").write_text(MODULE, encoding="utf-8")
    return shell


def tried(shell: Shell, name: str = "tried") -> int:
    path = shell.place / name
    many = path.read_text(encoding="utf-8").count("x") if path.exists() else 0
    path.unlink(missing_ok=True)
    return many


def run(shell: Shell, *words: str, n: int = 99) -> Said:
    return shell("run", *words, "--input", json.dumps({"n": n}))


def begun(shell: Shell, said: Said) -> dict[str, object]:
    """What the journal has of a saga's start."""
    name = said.out.splitlines()[0].removeprefix("saga ")
    first = shell("saga", "show", name, "--json").of_type("entry")[0]
    return {key: first["body"].get(key) for key in ("rollback_s", "attempts", "compensation_attempts")}


def leases(shell: Shell) -> str:
    """A trigger that keeps each lease that is asked for from here on."""
    with sqlite3.connect(shell.place / "amends.db") as database:
        database.execute("CREATE TABLE asked (ttl REAL)")
        database.execute("CREATE TRIGGER asking AFTER INSERT ON worker BEGIN INSERT INTO asked VALUES (new.ttl); END")
    return "SELECT DISTINCT ttl FROM asked"


def test_a_failure_budget_from_python_ends_a_saga_that_fails_and_fails(till: Shell) -> None:
    said = till.python("till.py")
    assert said.out == "rolled_back - limit failures: 3 failures so far, and the limit is 2 failures\n"
    assert tried(till) == 3


def test_the_command_line_comes_before_the_definition_and_that_before_the_file(till: Shell) -> None:
    (till.place / "amends.toml").write_text("attempts = 5\ncompensation_attempts = 4\n", encoding="utf-8")
    said = run(till, "till:plain")
    assert (said.code, tried(till)) == (3, 5)
    assert begun(till, said) == {"rollback_s": None, "attempts": 5, "compensation_attempts": 4}
    said = run(till, "till:bounded")
    assert (said.code, tried(till)) == (3, 3)
    assert begun(till, said) == {"rollback_s": 40, "attempts": 3, "compensation_attempts": 2}
    said = run(till, "till:bounded", "--attempts", "2", "--rollback", "1m", "--compensation-attempts", "1")
    assert (said.code, tried(till)) == (3, 2)
    assert begun(till, said) == {"rollback_s": 60, "attempts": 2, "compensation_attempts": 1}
    assert "(rollback within 60 s, attempts of a step: 2, of a compensation: 1): n=99" in said.out


def test_a_compensation_is_tried_as_often_as_the_saga_says_and_then_a_person_is_called(till: Shell) -> None:
    assert run(till, "till:bounded", n=1).code == 4
    assert tried(till, "refunds") == 2
    assert run(till, "till:bounded", "--compensation-attempts", "1", n=1).code == 4
    assert tried(till, "refunds") == 1


def test_limits_of_the_line_of_the_definition_and_of_the_file(till: Shell) -> None:
    (till.place / "amends.toml").write_text('[limits]\nfailures = 4\nthen = "call"\n', encoding="utf-8")
    said = run(till, "till:plain")
    assert (said.code, tried(till)) == (4, 5)
    assert "limit failures: 5 failures so far, and the limit is 4 failures" in said.out
    assert run(till, "till:bounded", "--attempts", "20").code == 3  # the definition's own: seven, and rolled back
    assert tried(till) == 8
    said = run(till, "till:plain", "--limit", "retries=1", "--limit", "failures=9")
    assert (said.code, tried(till)) == (3, 2)
    assert "till.pay would be retry 2, and the limit is 1 retry" in said.out


def test_a_limit_that_stopped_a_saga_is_raised_and_it_goes_on(till: Shell) -> None:
    (till.place / "amends.toml").write_text('limits = {failures = 2, then = "pause"}\n', encoding="utf-8")
    assert run(till, "till:plain", "--id", "s", n=5).code == 6
    said = till("saga", "raise-limit", "s", "--failures", "9", "--module", "till", "--by", "person:ann")
    assert (said.code, tried(till)) == (0, 5)
    assert "limit failures raised to 9 failures by person:ann" in till("saga", "show", "s").out


def test_a_yaml_saga_has_bounds_and_limits(till: Shell) -> None:
    (till.place / "flaky.yaml").write_text(YAML, encoding="utf-8")
    said = till("run", "flaky.yaml")
    assert (said.code, tried(till)) == (4, 3)
    assert "limit failures: 3 failures so far, and the limit is 2 failures" in said.out
    assert begun(till, said) == {"rollback_s": 40, "attempts": 4, "compensation_attempts": 2}
    said = till("run", "flaky.yaml", "--limit", "failures=9", "--attempts", "2")
    assert (said.code, tried(till)) == (3, 2)


def test_the_lease_is_that_of_the_line_else_of_the_definition_else_of_the_file(till: Shell) -> None:
    (till.place / "amends.toml").write_text('lease = "50s"\n', encoding="utf-8")
    assert run(till, "till:plain", n=1).code == 0
    question = leases(till)
    for words, ttl in ((["till:plain"], 50), (["till:bounded"], 33), (["till:bounded", "--lease", "1m"], 60)):
        run(till, *words, n=1)
        with sqlite3.connect(till.place / "amends.db") as database:
            assert database.execute(question).fetchall() == [(ttl,)]
            database.execute("DELETE FROM asked")
    assert till("resume", "till", "--lease", "45s").code in {0, 4}
    with sqlite3.connect(till.place / "amends.db") as database:
        assert database.execute(question).fetchall() == [(45,)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('journal = "x.db"\nrolback = "1m"\n', ":2: unknown key 'rolback'; did you mean rollback?"),
        ("lease = 30\n", ':1: lease has to be a duration of at most 366d, such as "30s" or "15m", not 30'),
        ("\nattempts = 0\n", ":2: attempts has to be a whole number from 1 to 1000, not 0"),
        ("[limits]\nfailures = 3\nretrys = 3\n", ":3: unknown limit 'retrys'; did you mean retries?"),
        ("[limits]\n\nfailures = -3\n", ":3: failures=-3 must be more than 0, or leave the limit out"),
        ('[limits]\nfailures = 3\nthen = "puase"\n', ":3: then: 'puase' is no response; did you mean pause?"),
        ("limits = {failures = 1.5}\n", ":1: failures=1.5 must be a whole number"),
        ("limits = 3\n", ":1: limits has to be a table, such as {failures = 5}, not 3"),
    ],
)
def test_a_mistake_in_the_file_is_told_with_its_line_and_the_right_word(till: Shell, text: str, told: str) -> None:
    (till.place / "amends.toml").write_text(text, encoding="utf-8")
    complaint = till("saga", "list").complaint
    assert complaint.endswith(f"amends.toml{told}"), complaint


def test_the_same_in_a_pyproject(till: Shell) -> None:
    text = '[project]\nattempts = "?"\n\n[tool.amends]\nattempts = 5\n\n[tool.amends.limits]\nfailure = 1\n'
    (till.place / "pyproject.toml").write_text(text, encoding="utf-8")
    assert till("saga", "list").complaint.endswith("pyproject.toml:8: unknown limit 'failure'; did you mean failures?")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--rollback", "30"], "--rollback '30' is no duration of at most 366d; write 30s, 15m, 1h or 2d"),
        (["--lease", "soon"], "--lease 'soon' is no duration of at most 366d; write 30s, 15m, 1h or 2d"),
        (["--limit", "failure=3"], "--limit failure=3: 'failure' is no limit; did you mean failures?"),
        (["--limit", "retries"], "--limit retries says no amount; write --limit retries=5"),
        (["--limit", "retries=few"], "--limit retries=few: retries='few' must be a whole number"),
        (["--limit", "usd=0"], "--limit usd=0: usd=0 must be more than 0, or leave the limit out"),
        (["--limit", "steps=1", "--limit", "steps=2"], "--limit steps is given twice; keep one of them"),
    ],
)
def test_a_mistake_on_the_line_is_told_with_the_right_word(till: Shell, words: list[str], told: str) -> None:
    assert run(till, "till:plain", *words).complaint == told


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("rollback: 30", "rollback has to be a duration of at most 366d, such as 30s, 15m, 1h or 2d, not 30"),
        ("atempts: 3", "unknown key 'atempts' in a saga's file; did you mean attempts?"),
        ("attempts: 0", "attempts has to be a whole number from 1 to 1000, not 0"),
        ("limits: {failure: 3}", "unknown key 'failure' in limits; did you mean failures?"),
        ("limits: {failures: 3, then: rolback}", "unknown then 'rolback'; did you mean rollback?"),
        ("limits: {then: call}", "limits without a limit; write failures, retries or seconds"),
        ("limits: 3", "limits has to be a map, not 3"),
    ],
)
def test_a_mistake_in_a_yaml_saga_is_told_with_its_line(till: Shell, line: str, told: str) -> None:
    text = f"version: v1\nsaga: x\n{line}\nsteps: [{{id: a, run: [echo], read_only: true}}]\n"
    (till.place / "x.yaml").write_text(text, encoding="utf-8")
    said = till("run", "x.yaml")
    assert f"x.yaml:3: {told}" in said.err
