"""From outside: a saga is to go back while its mail is on its way, on a real journal and in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

APP = """
import asyncio, sys
from pathlib import Path
from amends import Coordinator, Work, action, saga

here = Path(__file__).parent
begun, may_end = asyncio.Event(), asyncio.Event()

@action("seat.book")
async def book(seat: str) -> None:
    (here / "seat").write_text(seat)

@book.compensation
async def unbook(done) -> None:
    (here / "seat").unlink(missing_ok=True)

@action("mail.send", no_rollback="a mail cannot be unsent", hold=True)
async def send(to: str) -> None:
    begun.set()
    await may_end.wait()
    with (here / "mails").open("a") as mails:
        mails.write(to + "\\n")

@saga("trip")
async def trip(s: Work) -> None:
    await s.do(send, "ann")
    await s.do(send, "bob")
    await s.do(book, "4C")

async def main() -> None:
    async with Coordinator.open(str(here / "amends.db")) as on:
        await on.start(trip, id="t")
        await begun.wait()
        cancelling = asyncio.ensure_future(on.cancel("t", why="rain"))
        await asyncio.sleep(0.1)
        may_end.set()
        print((await cancelling).status, [str(one.kind) for one in await on.incidents()])

if __name__ == "__main__":
    asyncio.run(main())
may_end.set()
"""


def run(place: Path, *command: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(place), "AMENDS_JOURNAL": str(place / "amends.db")}
    made = [sys.executable, *command]
    return subprocess.run(made, cwd=place, env=env, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("answer", ["retry", "resolve"])
def test_cancelled_while_its_first_mail_goes_out_a_saga_goes_forward_on_a_person_s_word(
    tmp_path: Path, answer: str
) -> None:
    (tmp_path / "trips.py").write_text(APP)
    asked = run(tmp_path, "trips.py")
    assert asked.stdout == "incident ['past_pivot']\n", asked.stderr
    reason = ("--reason", "ann has it") if answer == "resolve" else ()
    said = run(tmp_path, "-m", "amends", "incident", answer, "t/1", *reason, "--module", "trips", "--by", "person:kim")
    assert said.returncode == 0, said.stderr + said.stdout
    shown = run(tmp_path, "-m", "amends", "saga", "list")
    assert "completed" in shown.stdout
    assert (tmp_path / "mails").read_text() == "ann\nbob\n"
    assert (tmp_path / "seat").read_text() == "4C"
