"""A crew of agents keeps one list of notes: each adds to it in turn, one is killed, and a failure restores the list."""

import asyncio
import json
from pathlib import Path

from amends import Coordinator
from tests.cli.shell import Shell

MODULE = """
import os

from amends import Done, Fatal, Work, action, saga


@action("crew.work", idempotent=True)
def work(who: str) -> None:
    if os.environ.get("DIES") == who:
        os._exit(9)


@work.compensation
def unwork(done: Done) -> None: ...


@saga("crew.member")
async def member(s: Work, who: str) -> None:
    await s.documents.update("notes", lambda notes: [*notes, who], default=[])
    await s.do(work, who)


@saga("crew.lead")
async def lead(s: Work, fails: bool) -> list[str]:
    await s.documents.update("notes", lambda notes: [*notes, "lead"], default=[])
    await s.call(member, "ann")
    await s.documents.update("notes", lambda notes: [*notes, "lead again"])
    await s.call(member, "bob")
    if fails:
        raise Fatal("the customer has gone")
    return await s.documents.get("notes")
"""


async def versions(path: Path) -> list[object]:
    async with Coordinator.open(str(path)) as coordinator:
        return [one.body async for one in coordinator.documents.history("notes")]


def test_a_family_writes_one_document_in_turn_and_a_rollback_restores_it(tmp_path: Path) -> None:
    amends = Shell(tmp_path)
    (tmp_path / "crew.py").write_text(MODULE)
    assert amends("run", "crew:lead", "--id", "good", "--input", '{"fails": false}', DIES="ann").code == 9
    resumed = amends("resume", "crew")
    assert "saga good completed" in resumed.out, resumed
    whole = ["lead", "ann", "lead again", "bob"]
    assert json.loads(amends("document", "show", "notes").out) == whole

    assert amends("run", "crew:lead", "--id", "bad", "--input", '{"fails": true}', DIES="bob").code == 9
    resumed = amends("resume", "crew")
    assert "saga bad rolled back" in resumed.out, resumed
    assert json.loads(amends("document", "show", "notes").out) == whole
    assert not amends("incident", "list", "--json").out
    assert asyncio.run(versions(tmp_path / "amends.db")) == [
        *(whole[: n + 1] for n in range(4)),
        *(whole + whole[: n + 1] for n in range(4)),
        *(whole + whole[:n] for n in (3, 2, 1, 0)),
    ]
