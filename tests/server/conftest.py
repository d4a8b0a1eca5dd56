"""Found where its extra is installed: `make test-server` makes it so."""

import asyncio
import os
import sys
from collections.abc import Generator
from contextlib import AbstractAsyncContextManager
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

from amends import Coordinator
from amends.runtime.declare.action import Action
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.declare.registry import PROCESS
from tests.server import storied_shop as shop
from tests.server.serving import Serving, serving
from tests.server.ways import Way, begun

collect_ignore_glob = [] if find_spec("starlette") else ["test_*"]
if os.geteuid() != 0:
    collect_ignore_glob.append("test_two_users.py")  # only root can play two users

_SHOPS = ("tests.server.storied_shop", "tests.server.world")
"""Modules with actions of the same topics, of which the one counts that was imported last."""


@pytest.fixture(scope="module", autouse=True)
def declared(request: pytest.FixtureRequest) -> None:
    """Have the shop count that the tests of this module use, whichever others this process has imported."""
    used = set[str]()
    module = cast("ModuleType", request.module)  # pyright: ignore[reportUnknownMemberType] - pytest gives it no type
    for thing in vars(module).values():
        used.add(thing.__name__ if isinstance(thing, ModuleType) else str(getattr(thing, "__module__", "")))
    for name in used.intersection(_SHOPS):
        for thing in vars(sys.modules[name]).values():
            if isinstance(thing, Action):
                PROCESS.add_action(cast("Action[..., Any]", thing))
            elif isinstance(thing, SagaDefinition):
                PROCESS.add_definition(cast("SagaDefinition", thing))


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Serving, str, str]]:
    """A server for the stories of a module, the token of an agent, and that of a person."""
    folder = tmp_path_factory.mktemp("stories")
    policy = folder / "policy.yaml"
    policy.write_text(shop.POLICY)
    (folder / "s").mkdir(mode=0o700)
    asyncio.run(begun(folder / "s" / "journal.db", policy))
    with serving(folder / "s") as started:
        agent = started.new_token("agent:shop", "run", "view", definitions=("shop.*",))
        yield started, agent, started.new_token("person:anna", "view", "decide")


@pytest.fixture(params=["embedded", "connected"])
def way(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Way:
    monkeypatch.setenv(shop.WORLD, str(tmp_path / "world"))
    saga = "".join(c if c.isalnum() else "-" for c in request.node.name)[:100]
    if request.param == "connected":
        started, agent, person = request.getfixturevalue("stories")
        return Way(
            "connected",
            lambda: Coordinator.connect(started.socket if saga < "m" else started.url, token=agent),
            lambda: Coordinator.connect(started.url, token=person),
            saga,
            started.journal,
        )
    policy = tmp_path / "policy.yaml"
    policy.write_text(shop.POLICY)

    def embedded() -> AbstractAsyncContextManager[Any]:
        return Coordinator.open(str(tmp_path / "amends.db"), policy=policy, signals=False)

    return Way("embedded", embedded, embedded, saga, tmp_path / "amends.db")
