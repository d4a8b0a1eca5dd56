"""Found where its extra is installed: `make test-server` makes it so."""

import os
import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any, cast

import pytest

from amends.runtime.declare.action import Action
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.declare.registry import PROCESS

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
