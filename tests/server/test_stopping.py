"""Starting and stopping a server in order: what it says of itself, and what is left behind."""

import signal
from pathlib import Path

import httpx2
import pytest

from tests.server.serving import run_cli, serving


def test_a_server_says_that_it_lives_and_takes_work_without_a_token(tmp_path: Path) -> None:
    with serving(tmp_path / "s") as server:
        for kind, status in (("live", "live"), ("ready", "ready")):
            answer = httpx2.get(f"{server.url}/health/{kind}")
            assert (answer.status_code, answer.json()) == (200, {"status": status})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path / "s") as server:
        assert httpx2.get(f"{server.url}/health/live").status_code == 200
        assert server.stop(number) == 0
        assert not (tmp_path / "s" / "s").exists()
        assert "person:admin" in run_cli("token", "list", journal=server.journal)


def test_after_a_kill_the_next_one_takes_the_socket_over(tmp_path: Path) -> None:
    with serving(tmp_path / "s") as server:
        server.stop(signal.SIGKILL)
        assert (tmp_path / "s" / "s").is_socket()
    with serving(tmp_path / "s", journal=server.journal) as again:
        assert httpx2.get(f"{again.url}/health/ready").status_code == 200
