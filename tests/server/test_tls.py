"""A server with a certificate of its own authority: whoever trusts that one connects, and nobody else sends a token."""

import asyncio
import subprocess
from collections.abc import Generator
from pathlib import Path
from time import monotonic

import pytest

from amends import Coordinator
from amends.errors import JournalUnreachableError
from tests.server.serving import Serving, run_cli, serving


def _openssl(folder: Path, words: str) -> None:
    subprocess.run(["openssl", *words.split()], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, and what it has signed for this machine: `ca.pem`, `server.pem` and `server.key`."""
    folder = tmp_path_factory.mktemp("tls")
    _openssl(folder, "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=authority")
    _openssl(folder, "req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=localhost")
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    signing = "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem -days 2 -extfile names"
    _openssl(folder, signing)
    return folder


@pytest.fixture(scope="module")
def server(certificates: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[Serving]:
    words = ("--tls-cert", str(certificates / "server.pem"), "--tls-key", str(certificates / "server.key"))
    with serving(tmp_path_factory.mktemp("served") / "s", *words) as started:
        assert started.url.startswith("https://")
        yield started


def test_commands_and_programs_trust_the_authority_that_the_environment_names(
    server: Serving, certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted = {"SSL_CERT_FILE": str(certificates / "ca.pem")}
    asked = {"AMENDS_URL": server.url, "AMENDS_TOKEN": server.token}
    assert "no sagas" in run_cli("saga", "list", env=asked | trusted)
    monkeypatch.setenv("SSL_CERT_FILE", trusted["SSL_CERT_FILE"])

    async def connected() -> int:
        async with Coordinator.connect(server.url, token=server.token) as coordinator:
            return len(await coordinator.list())

    assert asyncio.run(connected()) == 0


def test_a_certificate_that_nobody_vouches_for_is_refused_at_once_and_what_to_do_is_said(server: Serving) -> None:
    asked = {"AMENDS_URL": server.url, "AMENDS_TOKEN": server.token}
    said = run_cli("saga", "list", env=asked, check=False)
    assert "is not trusted here" in said
    assert "SSL_CERT_FILE" in said

    async def connected() -> None:
        async with Coordinator.connect(server.url, token=server.token, patience=60) as coordinator:
            await coordinator.list()

    since = monotonic()
    with pytest.raises(JournalUnreachableError, match="SSL_CERT_FILE"):
        asyncio.run(connected())
    assert monotonic() - since < 30, "a certificate does not get better by waiting"


@pytest.mark.parametrize(
    ("cert", "key", "told"),
    [
        ("nowhere.pem", "server.key", "--tls-cert {folder}/nowhere.pem cannot be read: No such file"),
        ("server.pem", "nowhere.key", "--tls-key {folder}/nowhere.key cannot be read: No such file"),
        ("server.pem", "ca.key", "are no certificate with its key"),
        ("names", "server.key", "are no certificate with its key"),
    ],
)
def test_a_certificate_that_is_none_is_refused_in_one_line(
    certificates: Path, tmp_path: Path, cert: str, key: str, told: str
) -> None:
    words = ["--tls-cert", str(certificates / cert), "--tls-key", str(certificates / key), "--port", "0"]
    said = run_cli("serve", *words, journal=tmp_path / "journal.db", check=False)
    assert told.format(folder=certificates) in said
    assert "Traceback" not in said
