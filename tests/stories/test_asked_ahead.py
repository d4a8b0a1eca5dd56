"""A payment is approved ahead and done in a block that fails once, with a kill on the way: it stands once."""

from pathlib import Path

from tests.cli.shell import Shell

MODULE = """
import os
from pathlib import Path

from amends import Done, Work, action, saga

PAID = Path("paid")


def noted(line: str) -> None:
    PAID.write_text((PAID.read_text() if PAID.exists() else "") + line)


@action("payments.pay", idempotent=True)
def pay(who: str) -> None:
    noted("+")


@pay.compensation
def take_back(done: Done) -> None:
    noted("-")
    if "DIES" in os.environ:
        os._exit(9)


@action("payments.wire", no_rollback="it is gone")
def wire(who: str) -> None:
    noted("+")


@saga("shop.pays")
async def pays(s: Work, wired: bool) -> None:
    how = wire if wired else pay
    await s.ask(how, "ann")
    async for attempt in s.attempts("t", max=2):
        async with attempt:
            await s.do(how, "ann")
            if attempt.number == 1:
                raise ValueError("red")
"""


def begun(tmp_path: Path, wired: str) -> Shell:
    amends = Shell(tmp_path)
    (tmp_path / "payments.py").write_text(MODULE)
    asked = amends("run", "payments:pays", "--id", "p", "--input", f'{{"wired": {wired}}}')
    assert "waiting" in asked.out, asked
    assert amends("approval", "grant", "p/1", "--by", "person:kim", "--yes").code == 0
    return amends


def test_what_was_approved_ahead_is_taken_back_with_its_block_and_stands_once(tmp_path: Path) -> None:
    amends = begun(tmp_path, "false")
    assert amends("resume", "payments", DIES="1").code == 9
    resumed = amends("resume", "payments")
    assert "saga p completed" in resumed.out, resumed
    left = (tmp_path / "paid").read_text()
    assert (left.replace("--", "-"), left.count("+")) == ("+-+", 2)


def test_what_was_approved_ahead_and_is_irreversible_happens_once_and_calls_a_person(tmp_path: Path) -> None:
    amends = begun(tmp_path, "true")
    resumed = amends("resume", "payments")
    assert "incident" in resumed.out, resumed
    assert (tmp_path / "paid").read_text() == "+"
