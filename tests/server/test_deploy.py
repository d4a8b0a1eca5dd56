"""The unit and the container file of examples/deploy: what systemd makes of the one, and that both start a server."""

import configparser
import json
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import cast

import httpx2
import pytest

from amends.http.health import routes
from tests.server.serving import PATIENCE_S, clean_environment

DEPLOY = Path(__file__).parents[2] / "examples" / "deploy"
UNIT, CONTAINER = DEPLOY / "amends-serve.service", DEPLOY / "Containerfile"
EXPOSED = 20
"""Tenths: systemd calls what is below 2.0 OK, and a unit that says nothing 9.6 and UNSAFE."""


class _AsWritten(configparser.ConfigParser):
    """Options keep their capitals."""

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def unit() -> configparser.SectionProxy:
    parsed = _AsWritten(strict=False, interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    parsed.read_string(UNIT.read_text(encoding="utf-8").replace("\\\n", " "))
    return parsed["Service"]


def instructions() -> list[tuple[str, str]]:
    """The instructions of the container file's last stage, each with what follows it."""
    text = re.sub(r"^#.*\n", "", CONTAINER.read_text(encoding="utf-8"), flags=re.MULTILINE).replace("\\\n", " ")
    found = [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in text.splitlines() if line)]
    last = max(number for number, (word, _) in enumerate(found) if word == "FROM")
    return found[last:]


@pytest.mark.parametrize("words", [("verify", "--man=no"), ("security", "--offline=true", f"--threshold={EXPOSED}")])
def test_systemd_takes_the_unit_and_finds_it_shut_in(tmp_path: Path, words: tuple[str, ...]) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:  # where there is no systemd, the unit is at least one, and says the same
        assert (unit()["User"], unit()["NoNewPrivileges"], unit()["ProtectSystem"]) == ("amends", "yes", "strict")
        return
    here = tmp_path / UNIT.name
    text = UNIT.read_text(encoding="utf-8").replace("/opt/amends/bin/amends", str(Path("/bin/true")))
    here.write_text(text, encoding="utf-8")
    done = subprocess.run([program, *words, str(here)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    if words[0] == "verify":
        assert done.stderr == ""
        wrong = tmp_path / "wrong.service"
        wrong.write_text(text.replace("ProtectHome=", "ProtectHom="), encoding="utf-8")
        said = subprocess.run([program, *words, str(wrong)], capture_output=True, text=True, check=False, timeout=60)
        assert "ProtectHom" in said.stderr


def test_the_unit_gives_the_journal_to_a_user_of_its_own() -> None:
    said = unit()
    assert (said["StateDirectory"], said["StateDirectoryMode"]) == ("amends", "0700")
    assert (said["RuntimeDirectory"], said["RuntimeDirectoryMode"]) == ("amends", "0755")
    words = shlex.split(said["ExecStart"])
    assert words[words.index("--journal") + 1].startswith("/var/lib/amends/")
    assert words[words.index("--socket") + 1].startswith("/run/amends/")


def test_the_unit_lets_the_kernel_name_who_is_at_the_socket() -> None:
    """In a user namespace of the unit's own, every user of the machine but root was `nobody` to the server."""
    assert unit()["PrivateUsers"] == "no"


def _served(words: list[str], tmp_path: Path) -> None:
    """Start the server with these words, ask it how it is, and end it as a supervisor would."""
    command = [sys.executable, "-m", *words, "--json"]
    place = tmp_path / "place"
    place.mkdir(mode=0o700)
    started = subprocess.Popen(
        command, cwd=place, env=clean_environment() | {"AMENDS_JOURNAL": "j.db"}, stdout=subprocess.PIPE, text=True
    )
    try:
        assert started.stdout is not None
        ready, _, _ = select.select([started.stdout], [], [], 2 * PATIENCE_S)
        line = started.stdout.readline() if ready else ""
        url = json.loads(line)["urls"][-1]
        assert httpx2.get(f"{url}/health/ready").status_code == 200
    finally:
        started.send_signal(signal.SIGTERM)
        code = started.wait(PATIENCE_S)
        if started.stdout is not None:
            started.stdout.close()
    assert code == 0


def test_the_words_of_the_unit_start_a_server(tmp_path: Path) -> None:
    program, *words = shlex.split(unit()["ExecStart"])
    assert Path(program).name == "amends"
    places = {"/var/lib/amends/journal.db": "j.db", "/run/amends/socket": "s", "8722": "0"}
    _served(["amends", *(places.get(word, word) for word in words)], tmp_path)


def test_the_words_of_the_container_start_a_server(tmp_path: Path) -> None:
    (entry,) = [json.loads(rest) for word, rest in instructions() if word == "ENTRYPOINT"]
    here = {"0.0.0.0": "127.0.0.1", "8722": "0"}  # tests stay on loopback
    _served([here.get(word, word) for word in cast("list[str]", entry)], tmp_path)


def test_the_container_runs_as_nobody_in_particular_and_asks_a_route_that_there_is() -> None:
    found = instructions()
    said = dict(found)
    assert said["USER"] == "10001:10001"
    assert (said["VOLUME"], said["STOPSIGNAL"], said["WORKDIR"]) == ("/data", "SIGTERM", "/data")
    assert {word for word, _ in found} <= {
        *("FROM", "RUN", "COPY", "USER", "WORKDIR", "VOLUME", "ENV", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK"),
        "ENTRYPOINT",
    }
    (asked,) = re.findall(r"http://127\.0\.0\.1:8722(/[\w/]+)", said["HEALTHCHECK"])
    assert asked in {getattr(route, "path", "") for route in routes()}
