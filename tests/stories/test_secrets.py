"""A saga with a secret, over the life of a journal's key: begun before there was one, rotated, lost."""

import asyncio
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from amends import Coordinator, Done, Secret, Settings, Work, action, saga
from amends.errors import RefusedError
from amends.runtime.declare.registry import Registry
from tests.cli.shell import Shell

PIN = "4711"


def definition(pin: str) -> Any:
    """A saga that gives a secret of its own to a step, waits, and gives it to another; as its author wrote it."""

    @action("door.open", idempotent=True)
    def open_door(pin: Secret, door: int) -> str:
        return f"door {door}: {len(pin.reveal())} digits"

    @open_door.compensation
    def close_door(done: Done) -> None: ...

    @saga("door.both")
    async def both(s: Work, given: Secret) -> list[str]:
        opened = await asyncio.gather(s.do(open_door, Secret(pin), 1), s.do(open_door, given, 2))
        await s.wait_for("go")
        return [opened[0], await s.do(open_door, Secret(pin), 3)]

    return both


def begun(journal: Path, pin: str = PIN) -> None:
    """Begin it, and leave it where it waits."""

    async def whole() -> None:
        async with Coordinator.open(str(journal), registry=Registry(), signals=False) as coordinator:
            handle = await coordinator.start(definition(pin), Secret(pin), id="d")
            await handle.halt()

    asyncio.run(whole())


def ended(journal: Path, pin: str = PIN) -> tuple[str, Any]:
    """Go on with it in a process that knows nothing of the one before; how it ended."""

    async def whole() -> tuple[str, Any]:
        async with Coordinator.open(str(journal), registry=Registry(), signals=False) as coordinator:
            await coordinator.signal("d", "go", None)
        registry = Registry()
        registry.add_definition(definition(pin))
        hasty = Settings(replay_s=1.0)
        async with Coordinator.open(str(journal), registry=registry, signals=False, settings=hasty) as coordinator:
            (one,) = await coordinator.resume()
            return str(one.status), one.result

    return asyncio.run(whole())


def digests(journal: Path) -> set[str]:
    """The digests of secrets that a journal's file has."""
    raw = "".join(each.read_bytes().decode("utf-8", "replace") for each in journal.parent.glob(f"{journal.name}*"))
    return set(re.findall(r'\$secret"\s*:\s*"([^"]+)"', raw))


DONE = ("completed", ["door 1: 4 digits", "door 3: 4 digits"])


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "amends.db"


@pytest.fixture
def unkeyed(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """As an older amends, which made digests without a key."""

    def no_key(*_: object, **__: object) -> None: ...

    monkeypatch.setattr("amends.bootstrap.digest_key", no_key)
    return monkeypatch


def test_who_has_the_journal_cannot_find_a_short_secret_by_trying(journal: Path) -> None:
    begun(journal)
    found = digests(journal)
    assert found
    assert all(one.startswith("hmac-sha256:") for one in found)
    tried = {hashlib.sha256(f"d\x1f{number:04}".encode()).hexdigest() for number in range(10_000)}
    assert not {one.rpartition(":")[2] for one in found} & tried


def test_what_an_older_amends_has_begun_goes_on(journal: Path, unkeyed: pytest.MonkeyPatch) -> None:
    begun(journal)
    assert all(one.startswith("sha256:") for one in digests(journal))
    unkeyed.undo()
    assert ended(journal) == DONE
    assert {one.partition(":")[0] for one in digests(journal)} == {"sha256", "hmac-sha256"}


@pytest.mark.parametrize("old", [True, False])
def test_another_secret_in_its_place_is_seen_whichever_form_is_on_record(
    journal: Path, unkeyed: pytest.MonkeyPatch, *, old: bool
) -> None:
    if not old:
        unkeyed.undo()
    begun(journal)
    unkeyed.undo()
    status, _ = ended(journal, "0815")
    assert status == "incident"


@pytest.mark.parametrize("how", [(), ("--lost",)])
def test_a_saga_goes_on_after_the_key_was_rotated_or_lost(
    journal: Path, monkeypatch: pytest.MonkeyPatch, how: tuple[str, ...]
) -> None:
    begun(journal)
    if how:
        journal.with_name("amends.db.key").unlink()
    said = Shell(journal.parent)("evidence", "rotate", *how)
    assert said.code == 0, said
    monkeypatch.setattr("amends.secrets._keys", {})  # as in another process, which never had the old one
    assert ended(journal) == DONE


def test_the_same_id_joins_under_another_key_and_another_secret_is_refused(
    journal: Path, unkeyed: pytest.MonkeyPatch
) -> None:
    begun(journal)
    unkeyed.undo()

    async def started(pin: str) -> str:
        async with Coordinator.open(str(journal), registry=Registry(), signals=False) as coordinator:
            return (await coordinator.start(definition(PIN), Secret(pin), id="d")).id

    assert asyncio.run(started(PIN)) == "d"
    with pytest.raises(RefusedError, match="another beginning: given is secret"):
        asyncio.run(started("0815"))


def test_the_key_is_not_in_the_journal_and_is_its_owner_s_alone(journal: Path) -> None:
    begun(journal)
    key = journal.with_name("amends.db.key")
    assert key.stat().st_mode & 0o777 == 0o600
    assert json.dumps(key.read_text(encoding="utf-8"))[1:-1] not in journal.read_bytes().decode("utf-8", "replace")
