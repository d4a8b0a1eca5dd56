"""A coordinator that tells others: on a real file, to a real server, with real kills."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from amends import Coordinator, Fatal, Registry, Settings, Work, saga
from amends.errors import SecretUnavailableError
from amends.journal.port.leases import Identity, own_identity
from amends.notify import Command, Webhook
from amends.notify.notice import TYPES
from amends.notify.progress import Progress
from amends.notify.target import Target
from tests.runtime.notices.receiver import SECRET, Receiver, receiving
from tests.runtime.support import World

QUICK = Settings(park_s=0.01, poll_s=0.05, settle_s=1)
PATIENCE_S = 60
MARK_S = 120.0


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AMENDS_WEBHOOK_SECRET", SECRET)


async def until(there: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not there():
            await asyncio.sleep(0.01)


def types(receiver: Receiver) -> list[str]:
    return [str(came.said["type"]) for came in receiver.came]


def test_a_coordinator_tells_of_approvals_and_incidents_as_long_as_it_is_open(tmp_path: Path) -> None:
    world = World()
    send = world.action("send", no_rollback="a mail cannot be unsent")
    jam = world.action("jam", undo=[Fatal("jammed")])
    fail = world.action("fail", Fatal("broken", happened=False))

    @saga("test.mail")
    async def mail(s: Work) -> None:
        await s.do(send)

    @saga("test.jam")
    async def jamming(s: Work) -> None:
        await s.do(jam)
        await s.do(fail)

    async def whole(receiver: Receiver) -> None:
        async with Coordinator.open(
            str(tmp_path / "amends.db"),
            env="production",
            settings=QUICK,
            registry=Registry(),
            notify=[Webhook(receiver.url, types=TYPES), Command(["tee", str(tmp_path / "told.json")])],
        ) as coordinator:
            handle = await coordinator.start(mail, id="m")
            await until(lambda: types(receiver) == ["approval.requested"])
            approval = receiver.came[0].verified()["data"]["approval"]
            await coordinator.grant(str(approval), by="person:ana")
            assert (await handle).status == "completed"
            await coordinator.run(jamming, id="j")
        assert types(receiver) == ["approval.requested", "approval.granted", "incident.opened"]
        assert receiver.came[2].verified()["data"]["incident"] == "j/1"
        assert '"incident":"j/1"' in (tmp_path / "told.json").read_text(encoding="utf-8")

    with receiving() as receiver:
        asyncio.run(whole(receiver))
        assert len(set(receiver.ids)) == 3


def test_after_a_500_the_same_notice_is_told_again_before_the_next(tmp_path: Path) -> None:
    world = World()
    send = world.action("send", no_rollback="a mail cannot be unsent")

    @saga("test.mail")
    async def mail(s: Work) -> None:
        await s.do(send)

    async def whole(receiver: Receiver) -> None:
        async with Coordinator.open(
            str(tmp_path / "amends.db"), env="production", settings=QUICK, notify=[Webhook(receiver.url)]
        ) as coordinator:
            for name in ("a", "b"):
                _ = await coordinator.start(mail, id=name)
                await until(lambda: bool(receiver.came))
            await until(lambda: len(receiver.came) == 3)

    with receiving(500) as receiver:
        asyncio.run(whole(receiver))
    first, again, second = receiver.came
    assert (first.id, first.body) == (again.id, again.body)
    assert [came.said["data"]["saga"] for came in (again, second)] == ["a", "b"]


def test_what_cannot_be_told_is_found_out_at_once_and_nothing_is_left_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AMENDS_WEBHOOK_SECRET")

    async def whole() -> None:
        with pytest.raises(SecretUnavailableError):
            await Coordinator.open(str(tmp_path / "amends.db"), notify=[Webhook("https://example.com")])

    before = threading.active_count()
    asyncio.run(whole())
    assert threading.active_count() == before


KILLED = """
import asyncio, os, signal, sys
from amends import Webhook
from amends.clock import SystemClock
from amends.journal.sqlite import SqliteJournal
from amends.runtime.coordinator.couriers import Couriers
from amends.runtime.settings import Settings

left = int(sys.argv[3])

class Hook(Webhook):
    async def deliver(self, notice, now):
        global left
        delivery = await super().deliver(notice, now)
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return delivery

async def main():
    journal = await SqliteJournal.open(sys.argv[1], SystemClock())
    hook = Hook(sys.argv[2], timeout_s=float(sys.argv[4]), name="hook")
    done = await Couriers(journal, [hook], SystemClock(), Settings()).once()
    await journal.close()
    sys.exit(0 if done else 6)

asyncio.run(main())
"""


def telling(journal: Path, receiver: Receiver, deliveries: int, timeout_s: float = 3) -> subprocess.Popen[bytes]:
    """A process that tells what is pending, and gets a SIGKILL between a delivery and the moving of the cursor."""
    words = (str(journal), receiver.url, str(deliveries), str(timeout_s))
    return subprocess.Popen([sys.executable, "-c", KILLED, *words])


def tell(journal: Path, receiver: Receiver, deliveries: int, timeout_s: float = 3) -> int:
    with telling(journal, receiver, deliveries, timeout_s) as process:
        return process.wait(PATIENCE_S)


def park(journal: Path, *names: str) -> None:
    """Sagas that wait for people."""
    send = World().action("send", no_rollback="a mail cannot be unsent")

    @saga("test.mail")
    async def mail(s: Work) -> None:
        await s.do(send)

    async def whole() -> None:
        async with Coordinator.open(str(journal), env="production", settings=QUICK) as coordinator:
            for name in names:
                await (await coordinator.start(mail, id=name)).halt()

    asyncio.run(whole())


def test_two_processes_tell_each_notice_once(tmp_path: Path) -> None:
    park(tmp_path / "amends.db", *"abcdefgh")
    with receiving() as receiver:
        both = [telling(tmp_path / "amends.db", receiver, 99) for _ in range(2)]
        for process in both:
            with process:
                assert process.wait(PATIENCE_S) == 0
    assert [came.said["data"]["saga"] for came in receiver.came] == list("abcdefgh")


def test_neither_a_secret_nor_a_url_reaches_the_journal_or_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    park(tmp_path / "amends.db", "a", "b")

    async def whole(receiver: Receiver) -> None:
        hooks: list[Target] = [Webhook(f"{receiver.url}&token=t0psecret"), Command(["false", "t0psecret"])]
        async with Coordinator.open(str(tmp_path / "amends.db"), settings=QUICK, notify=hooks):
            await until(lambda: len(receiver.came) == 3 and "exit code 1" in caplog.text)

    with caplog.at_level(logging.DEBUG), receiving(500) as receiver:
        asyncio.run(whole(receiver))
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir()) + caplog.text.encode()
    assert b"it answered 500" in kept
    for secret in (SECRET.removeprefix("whsec_"), "t0psecret"):
        assert secret.encode() not in kept


def test_a_sigkill_between_delivery_and_cursor_tells_it_again_under_the_same_id(tmp_path: Path) -> None:
    park(tmp_path / "amends.db", "a", "b", "c", "d")
    with receiving() as receiver:
        assert tell(tmp_path / "amends.db", receiver, 2) == -signal.SIGKILL
        assert [came.said["data"]["saga"] for came in receiver.came] == ["a", "b"]
        assert tell(tmp_path / "amends.db", receiver, 99) == 0
        assert [came.said["data"]["saga"] for came in receiver.came] == ["a", "b", "b", "c", "d"]
        assert receiver.ids[1] == receiver.ids[2]
        assert receiver.came[1].body == receiver.came[2].body
        assert len(set(receiver.ids)) == 4
        assert tell(tmp_path / "amends.db", receiver, 99) == 0
        assert len(receiver.came) == 5


def test_after_a_sigkill_the_next_process_does_not_wait_for_the_dead_one_s_mark(tmp_path: Path) -> None:
    """The mark holds for two minutes and more, which is longer than anybody waits here."""
    park(tmp_path / "amends.db", "a", "b")
    with receiving() as receiver:
        assert tell(tmp_path / "amends.db", receiver, 1, timeout_s=MARK_S) == -signal.SIGKILL
        assert tell(tmp_path / "amends.db", receiver, 99, timeout_s=MARK_S) == 0
        assert [came.said["data"]["saga"] for came in receiver.came] == ["a", "a", "b"]


def test_a_mark_tells_a_process_that_is_gone_from_one_that_is_not_seen() -> None:
    us = own_identity()
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    dead = Identity(us.boot, us.space, gone.pid, "1")
    blank = Progress(position=0, target="", types=(), began=0)
    assert blank.held("x", 9_000, us).held_s("me", 0, us) == 9
    assert blank.held("x", 9_000, dead).held_s("me", 0, us) == 0
    assert blank.held("x", 9_000, replace(us, boot="another")).held_s("me", 0, us) == 0
    assert blank.held("x", 9_000).held_s("me", 0, us) == 9, "an older version has said nothing of its process"
    assert replace(blank, holder="x", held_until=9_000, process="nonsense").held_s("me", 0, us) == 9
