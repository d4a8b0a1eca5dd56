"""The example in TypeScript, compiled and run by node before a real server: killed, taken up again, taken back."""

import json
import shutil
import subprocess
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.server.client import Client
from tests.server.serving import PYTHON, Serving, clean_environment, serving

ROOT = Path(__file__).parents[2]
NODE = Path(PYTHON).parents[1] / "typescript"
"""Where `make test-server` puts the compiler, by tests/server/node/package-lock.json."""


@dataclass
class Agent:
    program: Path
    server: Serving
    token: str
    world: Path

    def run(self, *words: str, crash: Path | None = None) -> "subprocess.CompletedProcess[str]":
        env = {"AMENDS_URL": self.server.url, "AMENDS_TOKEN": self.token, "WORLD": str(self.world)}
        if crash is not None:
            env["CRASH"] = str(crash)
        return subprocess.run(
            ["node", str(self.program), *words],
            env=clean_environment() | env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def deeds(self) -> list[str]:
        return [" ".join(line.split()[:2]) for line in self.world.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("typescript")
    for file in (ROOT / "examples" / "typescript").iterdir():
        shutil.copy(file, folder)
    (folder / "node_modules").symlink_to(NODE / "node_modules")
    compiled = subprocess.run(
        ["node", str(NODE / "node_modules/typescript/bin/tsc"), "--project", str(folder)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert compiled.returncode == 0, compiled.stdout
    return folder / "agent.js"


@pytest.fixture
def agent(program: Path, tmp_path: Path) -> Generator[Agent]:
    with serving(tmp_path / "s") as server:
        yield Agent(program, server, server.new_token("agent:trip", "run", definitions=("trip.*",)), tmp_path / "world")


def test_an_agent_in_typescript_is_killed_goes_on_and_is_taken_back(agent: Agent, tmp_path: Path) -> None:
    crash = tmp_path / "crash"
    crash.touch()
    assert agent.run("book", "lisbon", crash=crash).returncode == -9
    again = agent.run("book", "lisbon")
    assert json.loads(again.stdout)["status"] == "completed", again.stderr
    assert agent.deeds() == ["reserve 12A", "charge visa"], "the probe has found what nobody had reported"
    with Client(agent.server) as admin:
        admin.told("/sagas/lisbon/cancel", {"why": "they changed their mind"})
        worked = agent.run("work", "2")
        assert worked.returncode == 0, worked.stderr
        admin.until("lisbon", "saga.rolled_back")
    assert agent.deeds() == ["reserve 12A", "charge visa", "refund visa", "release 12A"]
