"""An action answers with what nobody can keep: what happened is on record, and the rest of the process goes on."""

from pathlib import Path

from tests.cli.shell import Shell

MODULE = """
import json
from pathlib import Path

from amends import Done, Retries, Work, action, saga


@action("card.charge", atomic=True, retries=Retries(attempts=4, first_s=0.01, cap_s=0.01))
def charge(cents: int) -> object:
    with Path("charges").open("a") as file:
        file.write("x")
    return json.loads("[" * 600 + "]" * 600)


@charge.compensation
def refund(done: Done) -> None:
    with Path("refunds").open("a") as file:
        file.write("x")


@saga("card.pay")
async def pay(s: Work, cents: int) -> None:
    await s.do(charge, cents)
"""


def test_a_charge_whose_answer_has_no_bottom_is_made_once_and_given_back_once(tmp_path: Path) -> None:
    amends = Shell(tmp_path)
    (tmp_path / "card.py").write_text(MODULE, encoding="utf-8")
    told = amends("run", "card:pay", "--input", '{"cents": 500}', "--id", "pay")
    assert told.code == 3, told
    assert "took effect, but the result is nested deeper than 64 levels" in told.out
    assert ((tmp_path / "charges").read_text(), (tmp_path / "refunds").read_text()) == ("x", "x")
    shown = amends("saga", "show", "pay").out
    assert "succeeded; its result was not kept: the result is nested deeper than 64 levels" in shown
