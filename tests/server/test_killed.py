"""Kills at the worst moment: of a client between its effect and its report, and of the server under its clients."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import amends
from amends import Coordinator, Done, Work, action, saga
from tests.server import storied_shop as shop, storied_verbs as verbs
from tests.server.serving import PYTHON, Serving, clean_environment, run_cli, serving
from tests.server.test_sessions import Agent

CLIENT = """
import asyncio, sys
from amends import Coordinator
from amends.errors import JournalUnreachableError
from tests.server import storied_shop as shop, storied_verbs as verbs

async def whole():
    async with Coordinator.connect(sys.argv[1], token=sys.argv[2]) as coordinator:
        definition = getattr(shop, sys.argv[4], None) or getattr(verbs, sys.argv[4])
        await coordinator.run(definition, "o", id=sys.argv[3])

asyncio.run(whole())
"""


class Moment:
    """The moment in the middle of a step, of one test."""

    def __init__(self) -> None:
        self.at_work, self.go_on = asyncio.Event(), asyncio.Event()


moments = [Moment()]


@action("shop.pack", idempotent=True)
async def pack(order: str) -> str:
    """Pack, and take as long as the test says."""
    shop.note(f"pack {order} {amends.key()}")
    moments[-1].at_work.set()
    await moments[-1].go_on.wait()
    return f"packed {order}"


@pack.compensation
async def unpack(done: Done[str]) -> None:
    shop.note(f"unpack {done.args['order']} {done.result}")


@action("shop.stamp", timeout=60)
async def stamp(order: str) -> str:
    """Stamp, which nobody can ask about and nobody may do twice; it takes as long as the test says."""
    shop.note(f"stamp {order}")
    moments[-1].at_work.set()
    await moments[-1].go_on.wait()
    return f"stamped {order}"


@stamp.compensation
async def unstamp(done: Done[str]) -> None:
    shop.note(f"unstamp {done.args['order']}")


@saga("shop.calls_packing")
async def calls_packing(s: Work, order: str) -> list[str]:
    return [await s.do(shop.reserve, f"{order}-0"), *(await s.call(packing, order))]


@saga("shop.stamping")
async def stamping(s: Work, order: str) -> str:
    return await s.do(stamp, order)


@saga("shop.packing")
async def packing(s: Work, order: str) -> list[str]:
    return [await s.do(shop.reserve, order), await s.do(pack, order)]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(shop.WORLD, str(tmp_path / "world"))
    moments[:] = [Moment()]
    return tmp_path / "world"


@pytest.fixture
def server(tmp_path: Path) -> Generator[Serving]:
    with serving(tmp_path / "s", tcp=False) as started:
        yield started


def kill_in_charge(server: Serving, token: str, folder: Path, saga: str, definition: str = "plain") -> None:
    """Have a client charge, and kill it before it can say so."""
    hangs = folder / "hangs"
    hangs.touch()
    env = {shop.WORLD: os.environ[shop.WORLD], shop.HANGS: str(hangs), "PYTHONPATH": str(Path.cwd())}
    words = [PYTHON, "-c", CLIENT, server.socket, token, saga, definition]
    with subprocess.Popen(words, env=clean_environment() | env, stderr=sys.stderr) as client:
        try:
            until_hanging(hangs, client)
        finally:
            client.kill()


def until_hanging(hangs: Path, client: "subprocess.Popen[bytes]") -> None:
    for _ in range(400):
        if not hangs.exists():
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = client.wait(0.05)
            raise AssertionError(f"the client ended with {code} before it had charged")
    raise AssertionError("the client has not charged")


async def until_at_work(handle: Any) -> None:
    """Raises what ended it before it came to that."""
    running, packing = asyncio.ensure_future(handle.halt()), asyncio.ensure_future(moments[-1].at_work.wait())
    await asyncio.wait({running, packing}, return_when=asyncio.FIRST_COMPLETED)
    packing.cancel()
    if running.done():
        raise AssertionError(f"it ended before its second step: {running.result()}")
    running.cancel()


def charges() -> list[str]:
    return [line for line in shop.lines() if line.startswith("charge")]


def test_a_client_killed_between_effect_and_report_goes_on_without_a_second_effect(
    server: Serving, world: Path, tmp_path: Path
) -> None:
    token = server.new_token("agent:shop", "run", definitions=("shop.*",))

    async def again() -> Any:
        async with Coordinator.connect(server.socket, token=token) as coordinator:
            return await coordinator.run(shop.plain, "o", id="killed")

    kill_in_charge(server, token, tmp_path, "killed")
    ended = asyncio.run(again())
    assert (ended.status, ended.result) == ("completed", {"room": "R-o", "paid": "paid o"})
    assert len(charges()) == 1
    assert [line.split()[0] for line in shop.lines()] == ["reserve", "charge"]


def test_a_client_killed_in_a_child_goes_on_in_that_child(server: Serving, world: Path, tmp_path: Path) -> None:
    token = server.new_token("agent:shop", "run", definitions=("shop.*",))

    async def again() -> Any:
        async with Coordinator.connect(server.socket, token=token) as coordinator:
            return await coordinator.run(verbs.calls_one_that_pays, "o", id="parent")

    kill_in_charge(server, token, tmp_path, "parent", "calls_one_that_pays")
    ended = asyncio.run(again())
    assert (ended.status, ended.result) == ("completed", ["R-o", "paid o"])
    assert [line.split()[0] for line in shop.lines()] == ["reserve", "charge"]


def test_a_worker_goes_on_with_what_a_killed_client_has_left(server: Serving, world: Path, tmp_path: Path) -> None:
    token = server.new_token("agent:shop", "run", "view", definitions=("shop.*",))

    async def worked() -> str:
        async with Coordinator.connect(server.socket, token=token) as coordinator:
            working = asyncio.ensure_future(coordinator.work())
            try:
                async with asyncio.timeout(30):
                    while True:
                        rows = await coordinator.list(status="completed", definition="shop.plain")
                        if rows:
                            return rows[0].id
                        await asyncio.sleep(0.05)
            finally:
                working.cancel()
                await asyncio.wait({working})

    kill_in_charge(server, token, tmp_path, "left")
    assert asyncio.run(worked()) == "left"
    assert len(charges()) == 1


async def through_a_kill(tmp_path: Path, definition: Any, id: str) -> tuple[Any, list[str]]:
    """How a saga ended whose server was killed in the middle of a step, and the names of its entries."""
    with contextlib.ExitStack() as servers:
        first = await asyncio.to_thread(servers.enter_context, serving(tmp_path / "s", tcp=False))
        async with Coordinator.connect(first.socket, token=first.token) as coordinator:
            handle = await coordinator.start(definition, "o", id=id)
            await until_at_work(handle)
            await asyncio.to_thread(first.stop, signal.SIGKILL)
            await asyncio.to_thread(servers.enter_context, serving(tmp_path / "s", tcp=False))
            moments[-1].go_on.set()
            ended = await handle
            return ended, [entry["name"] for entry in (await coordinator.show(id))["entries"]]


def test_a_server_killed_under_a_client_finds_what_it_had_done(world: Path, tmp_path: Path) -> None:
    ended, _ = asyncio.run(through_a_kill(tmp_path, packing, "outlived"))
    assert (ended.status, ended.result) == ("completed", ["R-o", "packed o"])
    packed = [line for line in shop.lines() if line.startswith("pack")]
    assert len(set(packed)) == 1, "an attempt that was lost is made again with its key"


def test_a_server_killed_in_a_child_goes_on_in_that_child(world: Path, tmp_path: Path) -> None:
    ended, _ = asyncio.run(through_a_kill(tmp_path, calls_packing, "parent"))
    assert (ended.status, ended.result) == ("completed", ["R-o-0", "R-o", "packed o"])
    assert [line.split()[0] for line in shop.lines()] == ["reserve", "reserve", "pack"]


def test_a_success_that_is_told_to_the_server_after_a_killed_one_is_on_record(world: Path, tmp_path: Path) -> None:
    ended, names = asyncio.run(through_a_kill(tmp_path, stamping, "stamped"))
    assert (ended.status, ended.result) == ("completed", "stamped o")
    assert shop.lines() == ["stamp o"]
    assert names[1:3] == ["action.dispatched/1", "attempt.succeeded/1"]


def test_an_attempt_is_reported_by_its_token_alone_to_the_next_server(world: Path, tmp_path: Path) -> None:
    with contextlib.ExitStack() as open_ones:
        first = open_ones.enter_context(serving(tmp_path / "s"))
        agent = Agent(first, first.token)
        open_ones.enter_context(agent.client)
        agent.open("told")
        tokens = [agent.step(f"c{number}", order=str(number))["token"] for number in range(3)]
        first.stop(signal.SIGKILL)
        second = open_ones.enter_context(serving(tmp_path / "s", token=first.token))
        again = Agent(second, first.token)
        open_ones.enter_context(again.client)
        assert again.report(tokens[0], "succeeded", result="paid 0") == {"state": "taken"}
        assert again.report(tokens[0], "succeeded", result="paid 0") == {"state": "taken"}, "and once more"
        assert again.report(tokens[1], "failed", why="no such card", fatal=True) == {"state": "taken"}
        forged = tokens[0].partition(".")[0] + "." + tokens[1].partition(".")[2]
        assert "came too late" in again.report(forged, "succeeded", 404)["detail"]
        assert again.open("told", wait=0)["state"] == "settling"
        undoing = again.task("shop.charge")
        assert (undoing["part"], undoing["args"], undoing["certain"]) == ("compensation", {"order": "2"}, False)
        again.report(undoing["token"], "succeeded")
        assert again.open("told")["state"] == "open"
        assert again.step("c0", order="0") == {"state": "succeeded", "call": "c0", "result": "paid 0"}
        failed = again.step("c1", order="1")
        assert (failed["state"], failed["error"]["reason"]) == ("failed", "no such card")
        assert again.step("c2", order="2")["state"] == "lost", "nobody has said how that ended"
        late = again.report(tokens[2], "succeeded", result="paid 2")
        assert late == {"state": "taken"}, "and what was taken back is looked at again"


def test_a_server_killed_in_a_rollback_goes_on_with_it_and_loses_no_task(world: Path, tmp_path: Path) -> None:
    moments[-1].go_on.set()

    async def whole() -> str:
        with contextlib.ExitStack() as servers:
            first = await asyncio.to_thread(servers.enter_context, serving(tmp_path / "s", tcp=False))
            async with Coordinator.connect(first.socket, token=first.token) as coordinator:
                await coordinator.run(packing, "o", id="back")
                cancelling = asyncio.ensure_future(coordinator.cancel("back"))
                while (await coordinator.server.get("/sagas/back"))["status"] != "rolling_back":
                    await asyncio.sleep(0.02)
                await asyncio.to_thread(first.stop, signal.SIGKILL)
                await asyncio.to_thread(servers.enter_context, serving(tmp_path / "s", tcp=False))
                working = asyncio.ensure_future(coordinator.work())
                try:
                    async with asyncio.timeout(60):
                        return str((await cancelling).status)
                finally:
                    working.cancel()
                    await asyncio.wait({working})

    assert asyncio.run(whole()) == "rolled_back"
    assert [line.split()[0] for line in shop.lines()] == ["reserve", "pack", "unpack", "release"]


def test_a_server_that_is_told_to_stop_does_not_wait_for_calls_that_are_out(server: Serving, world: Path) -> None:
    async def until_out() -> None:
        async with Coordinator.connect(server.socket, token=server.token) as coordinator:
            handle = await coordinator.start(packing, "o", id="out")
            await until_at_work(handle)
            assert await asyncio.to_thread(server.stop) == 0
            moments[-1].go_on.set()

    asyncio.run(until_out())
    shown = run_cli("saga", "show", "out", "--json", journal=server.journal)
    names = [json.loads(line).get("name") for line in shown.split("\n") if line]
    assert "attempt.lost/1" in names, (shown, shop.lines())
