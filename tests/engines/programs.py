"""Workers of the engines' tests, in processes of their own, and the world that their sagas change: files named by keys.

A step's effect is a file whose name is the step's key, and whose words say which step of which saga it was. The same
step done under two keys would be two files with the same words.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import socket
from collections.abc import Callable, Coroutine
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import amends
from amends import Asked, Coordinator, Done, Ended, Fatal, Happened, NotHappened, Settings, Work, action, saga

if TYPE_CHECKING:
    from temporalio.client import Client

CONTEXT: Final = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["tests.engines.programs", "amends.journal.postgres", "amends.adapters.restate", "amends.adapters.temporal"]
)
EngineName = Literal["restate", "temporal"]


def world() -> Path:
    return Path(os.environ["AMENDS_TEST_WORLD"])


def settings() -> Settings:
    """With AMENDS_TEST_ALONE, nobody looks for anything by himself while a test lasts: what happens, the engine did."""
    return Settings(lease_s=5.0, poll_s=60 if "AMENDS_TEST_ALONE" in os.environ else 0.2, park_s=0.05, drain_s=2.0)


class Counted(Coordinator):
    """A coordinator that keeps a file of which sagas it was asked to drive."""

    async def drive(self, saga: str) -> Ended:
        with world().with_name("asked").open("a") as asked:
            asked.write(f"{saga}\n")
        return await super().drive(saga)


@action("world.put", idempotent=True)
async def put(name: str, step: str, slow_s: float) -> str:
    await asyncio.sleep(slow_s)
    begun = world().with_name(f"{world().name}-{os.getpid()}-{amends.key()}")
    begun.write_text(f"{name}/{step}")
    begun.replace(world() / amends.key())  # it took effect whole, or not at all
    return amends.key()


@put.compensation
async def take(done: Done) -> None:
    (world() / done.action_key).unlink(missing_ok=True)


@put.probe
async def find(asked: Asked) -> Happened | NotHappened:
    return Happened(asked.key) if (world() / asked.key).exists() else NotHappened()


@action("world.pay", idempotent=True)
async def pay(name: str, step: str) -> str:
    """A put that people are asked for."""
    (world() / amends.key()).write_text(f"{name}/{step}")
    return amends.key()


@pay.compensation
async def refund(done: Done) -> None:
    (world() / done.action_key).unlink(missing_ok=True)


@action("world.refuse", atomic=True)
async def refuse() -> None:
    raise Fatal("it is full", happened=False)


@refuse.compensation
async def unrefuse(done: Done) -> None: ...


@saga("world.fills")
async def fills(s: Work, name: str, slow_s: float = 0.05) -> str:
    for step in "abcdef":
        await s.do(put, name, step, slow_s)
    return name


@saga("world.goes_back")
async def goes_back(s: Work, name: str) -> None:
    for step in "abcd":
        await s.do(put, name, step, 0.05)
    await s.do(refuse)


@saga("world.naps")
async def naps(s: Work, name: str, seconds: float) -> str:
    await s.do(put, name, "a", 0.02)
    await s.sleep(seconds)
    await s.do(put, name, "b", 0.02)
    return name


@saga("world.asks")
async def asks(s: Work, name: str) -> str:
    await s.do(put, name, "a", 0.02)
    await s.do(pay, name, "b")
    await s.do(put, name, "c", 0.02)
    return name


@saga("world.listens")
async def listens(s: Work, name: str) -> object:
    await s.do(put, name, "a", 0.02)
    answer = await s.wait_for("answer")
    await s.do(put, name, "b", 0.02)
    return answer


@saga("world.calls")
async def calls(s: Work, name: str, seconds: float) -> object:
    await s.do(put, name, "a", 0.02)
    return await s.call(naps, f"{name}.child", seconds)


STEPS: Final = {
    "world.fills": "abcdef",
    "world.goes_back": "",
    "world.naps": "ab",
    "world.asks": "abc",
    "world.listens": "ab",
}
"""The steps whose effects stand when a saga has come to its end."""

POLICY: Final = """\
version: v1
default: allow
rules:
  - {id: ask, when: {topic: world.pay, phase: forward}, decision: require_human}
"""


def live(engine: EngineName, journal: str, address: str, port: int, environment: dict[str, str]) -> None:
    """Be a worker until SIGTERM: `address` is the engine's, `port` where it calls this worker, if it does."""
    os.environ.pop("AMENDS_TEST_ALONE", None)  # the server of forks has that of the first test
    os.environ.update(environment)
    asyncio.run((_restate if engine == "restate" else _temporal)(journal, address, port))


async def _restate(journal: str, address: str, port: int) -> None:
    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    from amends.adapters.restate import saga_app

    config = Config()
    with socket.socket() as shared:  # by several workers, as behind a load balancer
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        shared.bind(("127.0.0.1", port))
        config.bind = [f"fd://{shared.detach()}"]
    config.errorlog = None
    opened = Counted.open(journal, settings=settings(), signals=False)
    await serve(saga_app(opened, ingress=address), config, shutdown_trigger=_told_to_end())


def app() -> Any:
    """A worker that Restate calls, as hypercorn's command line has it."""
    from amends.adapters.restate import saga_app

    journal, ingress = os.environ["AMENDS_TEST_JOURNAL"], os.environ["AMENDS_TEST_INGRESS"]
    return saga_app(Counted.open(journal, settings=settings(), signals=False), ingress=ingress)


async def _temporal(journal: str, address: str, port: int) -> None:
    from amends.adapters.temporal import TemporalEngine

    ends = _told_to_end()
    while (client := await _connected(address)) is None:  # the server may be away just now
        await asyncio.sleep(0.1)
    async with Counted.open(journal, settings=settings(), signals=False) as coordinator:
        working = asyncio.ensure_future(TemporalEngine(coordinator, client).work())
        ending = asyncio.ensure_future(ends())
        await asyncio.wait([working, ending], return_when=asyncio.FIRST_COMPLETED)
        working.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await working


async def _connected(address: str) -> Client | None:
    from temporalio.client import Client

    try:
        return await Client.connect(address)
    except RuntimeError:
        return None


def _told_to_end() -> Callable[[], Coroutine[Any, Any, Any]]:
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    return told.wait


def start_worker(engine: EngineName, journal: str, address: str, port: int, environment: dict[str, str]) -> BaseProcess:
    worker = CONTEXT.Process(target=live, args=(engine, journal, address, port, environment), daemon=True)
    worker.start()
    return worker
