"""A secret that goes through a saga is in no file of the journal and in no evidence of it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from amends import Coordinator, Done, Fatal, Registry, Secret, Work, action, saga
from amends.core.words.values import SagaId
from amends.evidence.record import record
from tests.evidence.given import bundle_of

CANARIES = [f"canary-{number:03d}-{'x' * (number % 7)}" for number in range(60)]


@action("login.use")
async def use(password: Secret, more: dict[str, Any]) -> dict[str, Any]:
    assert password.reveal() in CANARIES
    if more["fails"]:
        raise Fatal(f"the server said: wrong password {password.reveal()}")
    return {"used": True, "again": Secret(password.reveal())}


@use.compensation
async def forget(done: Done) -> None: ...


@saga("login.all")
async def login(s: Work, passwords: list[Any], *, fails: bool) -> None:
    for place, password in enumerate(passwords):
        last = fails and place == len(passwords) - 1
        await s.do(use, password, {"nested": [password], "fails": last})


def leaks(content: bytes) -> list[str]:
    return [canary for canary in CANARIES if canary.encode() in content]


def leaks_of(folder: Path) -> dict[str, list[str]]:
    return {file.name: leaks(file.read_bytes()) for file in folder.iterdir()}


@pytest.mark.parametrize("fails", [False, True], ids=["completed", "rolled back"])
def test_a_secret_is_in_no_file_and_in_no_evidence(tmp_path: Path, fails: bool) -> None:
    async def live() -> None:
        async with Coordinator.open(str(tmp_path / "journal.db"), signals=False, registry=Registry()) as coordinator:
            for first in range(0, len(CANARIES), 6):
                some = [Secret(canary) for canary in CANARIES[first : first + 6]]
                ended = await coordinator.run(login, some, fails=fails, id=f"s{first}")
                assert ended.status == ("rolled_back" if fails else "completed")
            journal = coordinator.journal
            for sagas in (None, ["s0"], ["s6", "s54"]):
                assert leaks(await bundle_of(journal, sagas)) == []
            shown = await coordinator.show("s0")
            found = record(shown.row, shown.saga, shown.entries)
            assert leaks(json.dumps(found).encode()) == []
            assert leaks("".join(line.text for line in shown.timeline).encode()) == []
            newest = await journal.tree_head()
            assert newest is not None
            assert leaks(newest.note.encode()) == []
            assert [one async for one in journal.read(SagaId("s0"))]
            files = ("journal.db", "journal.db-shm", "journal.db-wal", "journal.db.key")
            assert leaks_of(tmp_path) == {name: [] for name in files}

    asyncio.run(live())
    assert leaks_of(tmp_path) == {"journal.db": [], "journal.db.key": []}
