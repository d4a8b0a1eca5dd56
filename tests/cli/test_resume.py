"""`amends resume`: what a dead process left behind is taken up, by whoever knows how."""

from typing import IO, cast

from tests.cli.shell import PATIENCE_S, Shell


def test_a_saga_whose_process_was_killed_is_brought_to_its_end(amends: Shell) -> None:
    amends.kill_in_the_middle("d-1")
    said = amends("resume", "shop")
    assert said.code == 0
    head, *lines, end = said.out.splitlines()
    assert (head, end) == (
        "saga d-1",
        "saga d-1 rolled back: lorry.wait: the process ended before the outcome was recorded",
    )
    assert [line[14:] for line in lines] == [
        "forward   2  lorry.wait        lost: the process ended before the outcome was recorded",
        "saga         rollback began: lorry.wait (step 2): the process ended before the outcome was recorded",
        "back      2  lorry.wait        compensation began (attempt 1, uncertain whether it happened)",
        "back      2  lorry.wait        compensation succeeded",
        "back      1  stock.reserve     compensation began (attempt 1)",
        "back      1  stock.reserve     compensation succeeded",
        "saga         rolled back",
    ]
    assert amends.world == ["+ ramp", "- lorry", "- ramp"]


FLAKY = """
import os
from pathlib import Path

from amends import Work, action, saga


@action("line.call", read_only=True, retries=3)
def call(name: str) -> str:
    tries = Path(f"tries-{name}")
    tries.write_text(tries.read_text() + "x" if tries.exists() else "x")
    if tries.read_text() == "x":
        os.kill(os.getpid(), 9)
    if tries.read_text() == "xx":
        raise ConnectionError("engaged")
    return name


@saga("line.calls")
async def calls(s: Work, name: str) -> str:
    return await s.do(call, name)
"""


def test_waits_are_shown_as_they_happen_and_of_several_sagas_each_line_says_whose(amends: Shell) -> None:
    (amends.place / "line.py").write_text(FLAKY)
    for name in ("ann", "berta"):
        assert amends("run", "line:calls", "--input", f'{{"name": "{name}"}}', "--id", name).code == -9
    said = amends("resume", "line")
    assert said.code == 0
    head, first, *lines = said.out.splitlines()
    alone = head.removeprefix("saga ")
    (other,) = {"ann", "berta"} - {alone}
    assert "failed: the process ended before the outcome was recorded (again in " in first
    assert {line[:7] for line in lines} == {"ann    ", "berta  ", "saga an", "saga be"}
    for name in (alone, other):
        own = [line.partition("line.call")[2].strip() for line in lines if line.startswith(f"{name} ")]
        assert f"call name={name} (attempt 2)" in own
        assert any(line.startswith("failed: ConnectionError: engaged (line.py:15, in call) (again in ") for line in own)
        assert f"call name={name} (attempt 3)" in own
        assert f"succeeded: {name}" in own


def test_json_is_how_each_saga_ended(amends: Shell) -> None:
    amends.kill_in_the_middle("d-1")
    amends.kill_in_the_middle("d-2")
    said = amends.here("resume", "shop", "--json")
    assert {(end["type"], end["id"], end["status"]) for end in said.records} == {
        ("ended", "d-1", "rolled_back"),
        ("ended", "d-2", "rolled_back"),
    }


def test_nothing_to_resume_is_said_and_is_no_error(amends: Shell) -> None:
    assert amends.here("run", "shop:chat").code == 0
    said = amends.here("resume", "shop")
    assert (said.code, said.out, said.err) == (0, "nothing to resume\n", "")
    assert amends.here("resume", "shop", "--json").out == ""


def test_a_saga_that_no_given_module_declares_is_named_and_left_alone(amends: Shell) -> None:
    amends.kill_in_the_middle("d-1")
    (amends.place / "other.py").touch()
    said = amends.here("resume", "other")
    assert (said.code, said.out) == (6, "nothing resumed; 1 saga is left that no module named here declares\n")
    told = "saga d-1 (shop.deliver) is left running: no module named here declares it; go on with: amends resume shop"
    assert said.err == f"amends: {told}\n"
    assert amends.world == ["+ ramp"]


def test_a_saga_that_another_process_drives_is_named_and_left_alone(amends: Shell) -> None:
    with amends.awaiting_lorry("deliver", "--id", "d-1") as process:
        said = amends.here("resume", "shop")
        assert said.code == 0
        assert said.err == "amends: saga d-1 (shop.deliver) is left running: another process drives it\n"
        amends.let_lorry_come()
        assert process.wait(PATIENCE_S) == 0
        assert "lorry.wait        succeeded" in cast("IO[str]", process.stdout).read()


def test_a_resumed_saga_that_needs_a_person_makes_the_exit_code_4(amends: Shell) -> None:
    amends.kill_in_the_middle("d-1")
    shop = amends.place / "shop.py"
    source = shop.read_text(encoding="utf-8")
    shop.write_text(source.replace('note("- lorry")', 'raise amends.ChangedSince("it has left")'), encoding="utf-8")
    said = amends.here("resume", "shop")
    assert said.code == 4
    assert said.out.endswith("\nsaga d-1 incident: it has left\n  amends incident show d-1/1\n")
    assert "compensation failed: someone changed it since: it has left\n" in said.out
    assert "incident 1 opened: changed since: it has left; left: steps 2, 1\n" in said.out
