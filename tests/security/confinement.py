"""A tree with a journal in it, a tool that may do anything, and somebody who is not root: for attacks on both."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import functools
import os
import sys
import tempfile
from collections.abc import Callable, Coroutine, Generator
from dataclasses import replace
from pathlib import Path
from typing import Any, ParamSpec

from amends import Coordinator, action, saga
from amends.changeset import Files, Terms
from amends.core.words.values import Json, SagaId
from amends.runtime.engine.handle import Ended
from amends.runtime.saga.work import Work

P = ParamSpec("P")
NOBODY = 65534
SYSTEM_PYTHON = "/usr/bin/python3"
for _each in ("ascii", "latin-1", "idna"):
    codecs.lookup(_each)  # not to be looked for once somebody else may not read where it lies
VIEWS = ("overlay", "copy")


def in_a_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test that awaits, in a loop of its own."""

    @functools.wraps(test)
    def whole(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return whole


@action("tool.run")
def tool(files: Files, script: str) -> str:
    """An agent's tool: whatever it was told to run."""
    ran = files.run(["sh", "-c", script])
    return ran.stdout + ran.stderr


@action("tool.run_as_it_likes")
def unconfined_tool(files: Files, script: str) -> str:
    return files.run(["sh", "-c", script], confine=False).stdout


@saga("confinement.work")
async def work(s: Work, root: str, script: str, provider: str) -> dict[str, Any]:
    files = s.files(root, provider=provider)
    said = await s.do(tool, files, script)
    return {"said": said, **await s.land()}


@saga("confinement.unconfined")
async def unconfined_work(s: Work, root: str, script: str) -> str:
    return await s.do(unconfined_tool, s.files(root), script)


@saga("confinement.verified")
async def verified_work(s: Work, root: str, verify: list[str]) -> dict[str, Any]:
    files = s.files(root)
    await s.do(tool, files, "echo new > new.txt")
    return await s.land(verify=verify)


async def worked(root: Path, script: str, provider: str = "auto", journal: Path | None = None) -> Ended:
    async with Coordinator.open(str(journal or root / "amends.db")) as coordinator:
        ended = await coordinator.run(work, str(root), script, provider)
        record = await ended.evidence()

    async def kept(_: SagaId) -> dict[str, Json]:
        return record

    return replace(ended, source=kept)


@contextlib.contextmanager
def ordinary_user() -> Generator[Path]:
    """A folder of somebody who is not root, and be them."""
    with tempfile.TemporaryDirectory() as place:
        if os.geteuid() != 0:
            yield Path(place)
            return
        os.chown(place, NOBODY, NOBODY)
        ours = sys.executable
        os.setresgid(NOBODY, NOBODY, 0)
        os.setresuid(NOBODY, NOBODY, 0)
        if not os.access(ours, os.X_OK, effective_ids=True):  # root's own interpreter, in a home that is root's alone
            sys.executable = SYSTEM_PYTHON
        try:
            yield Path(place)
        finally:
            sys.executable = ours
            os.setresuid(0, 0, 0)
            os.setresgid(0, 0, 0)


@contextlib.contextmanager
def the_same_user() -> Generator[Path]:
    with tempfile.TemporaryDirectory() as place:
        yield Path(place)


USERS = {"as it runs": the_same_user, "ordinary": ordinary_user}


def terms(provider: str) -> Terms:
    return Terms(provider=provider)


def kept_in_of(evidence: dict[str, Any], step: int = 0) -> object:
    """What the evidence says of how the commands of a step, the first if no other is meant, were kept in."""
    return evidence["amends"]["steps"][step]["confinement"]
