"""`amends engine sync` asked wrongly, or where nobody answers. What it does otherwise is told by the stories."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.engines.servers import free_ports


def synced(journal: str, *words: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "amends", "engine", "sync", "--journal", journal, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("words", [(), ("--restate", "http://127.0.0.1:1", "--temporal", "127.0.0.1:1")])
def test_one_engine_has_to_be_named(words: tuple[str, ...], postgresql: str) -> None:
    assert synced(postgresql, *words) == (
        2,
        "amends: name the engine: --restate URL or --temporal HOST:PORT\n",
    )


def test_an_address_that_is_none_is_refused(postgresql: str) -> None:
    code, said = synced(postgresql, "--restate", "restate:8080")
    assert (code, said) == (
        2,
        "amends: 'restate:8080' is no address of Restate's ingress: write http://HOST:8080\n",
    )


def test_an_engine_that_does_not_answer_is_named(postgresql: str) -> None:
    (port,) = free_ports(1)
    code, said = synced(postgresql, "--temporal", f"127.0.0.1:{port}")
    assert code == 2
    assert said.startswith(f"amends: Temporal at 127.0.0.1:{port} does not answer: ")


def test_a_journal_on_which_nothing_is_left_needs_nobody_told(postgresql: str) -> None:
    (port,) = free_ports(1)
    assert synced(postgresql, "--restate", f"http://127.0.0.1:{port}") == (0, "told the engine of 0 sagas\n")
