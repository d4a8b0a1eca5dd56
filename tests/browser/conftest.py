"""Found where a browser can be driven: `make test-browser` makes it so."""

from collections.abc import Callable, Generator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

collect_ignore_glob = [] if find_spec("playwright") else ["test_*"]
if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.browser.visitor import Visitor
    from tests.server.serving import Serving


@pytest.fixture(scope="session")
def browser() -> "Generator[Browser]":
    """Debian's chromium, without a window; nothing of it calls anybody by itself."""
    from playwright.sync_api import sync_playwright

    from tests.browser.visitor import ARGS, CHROMIUM

    with sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> "Generator[Serving]":
    """A server on a journal with one saga of each kind; who decides something makes a saga of their own for it."""
    from tests.server import world
    from tests.server.serving import serving

    folder = tmp_path_factory.mktemp("browser") / "j"
    folder.mkdir(mode=0o700)
    world.on(folder / "journal.db", world.many)
    world.on(folder / "journal.db", world.hostile)
    with serving(folder, journal=folder / "journal.db") as one:
        yield one


@pytest.fixture
def visit(browser: "Browser") -> "Generator[Callable[..., Visitor]]":
    """Make visitors: each has a browser's profile of their own, which is held to its promises at the end."""
    from tests.browser.visitor import Visitor

    made: list[Visitor] = []

    def visiting(server: "Serving", name: str = "", *scopes: str, **more: Any) -> Visitor:
        made.append(Visitor(browser, server, **more))
        if name:
            made[-1].log_in(name, *scopes)
        return made[-1]

    yield visiting
    for one in made:
        one.leave()


@pytest.fixture(scope="session")
def pictures() -> Path:
    """Where screenshots go: a directory that AMENDS_PICTURES names, else the tests' own."""
    import os
    import tempfile

    found = Path(os.environ.get("AMENDS_PICTURES") or tempfile.mkdtemp(prefix="amends-pictures-"))
    found.mkdir(parents=True, exist_ok=True)
    return found
