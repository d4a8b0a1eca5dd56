"""A model is asked, and the process is killed while it thinks: nothing is in doubt, and the saga goes on."""

from pathlib import Path

from tests.cli.shell import Shell

MODULE = """
import os
from pathlib import Path

from amends import Flawed, StepFailedError, Work, action, saga


@action("llm.plan", read_only=True)
async def plan() -> str:
    asked = Path("asked")
    asked.write_text(asked.read_text() + "x" if asked.exists() else "x")
    if asked.read_text() == "x":
        os.kill(os.getpid(), 9)
    return "bad"


@plan.validate(tries=2)
def look(result: str) -> None:
    raise Flawed("no such town")


@saga("trip.plan")
async def planned(s: Work) -> str:
    try:
        return await s.do(plan)
    except StepFailedError:
        return "the standard plan"
"""


def test_a_kill_during_a_model_call_leaves_no_doubt(tmp_path: Path) -> None:
    amends = Shell(tmp_path)
    (tmp_path / "planning.py").write_text(MODULE)
    assert amends("run", "planning:planned", "--id", "p").code == -9
    resumed = amends("resume", "planning")
    assert (resumed.code, "saga p completed" in resumed.out) == (0, True), resumed
    assert (tmp_path / "asked").read_text() == "xxx"
    shown = amends("saga", "show", "p")
    assert "the standard plan" in shown.out
    assert "may have taken effect" not in shown.out
