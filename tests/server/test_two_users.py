"""An agent with a shell, and a server of another user: it can do what its token lets it, and nothing else.

The journal, its key and its socket belong to one user. The agent is another one, which runs any program it likes. All
that succeeds where both are one user (to adopt a lax policy, to approve as somebody, to edit the file) has no way in.
"""

import asyncio
import os
import pwd
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import HTTPConnection

from amends.errors import InputError
from amends.http.peers import UID, Peers, peer_scopes
from tests.security.others import STRANGER, VICTIM, a_place, amends_as, folder
from tests.server.client import Client
from tests.server.serving import Serving
from tests.server.two_users import served_by_another

STRICT = """\
version: v1
default: deny
rules:
  - {id: reading, when: {side_effect: false}, decision: allow}
  - {id: two-people, when: {topic: account.delete}, decision: require_human, approvals: 2}
"""
LAX = "version: v1\ndefault: allow\nrules: []\n"
MODULE = """
from pathlib import Path
from amends import action, saga

@action("account.delete", no_rollback="an account that is gone is gone")
def delete(name: str) -> None:
    Path(name).touch()

@saga("account.close")
async def close(s, name: str) -> None:
    await s.do(delete, name)
"""
SHELL = """
import os, sys
os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
os.execv("/bin/sh", ["sh", "-c", sys.argv[2]])
"""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A server's user with the journal; `agent` is the agent's home, `token` its token."""

    server: Serving
    home: Path
    agent: Path
    token: str

    def shell(self, command: str) -> subprocess.CompletedProcess[str]:
        """A command line of the agent's, as its user."""
        words = [sys.executable, "-c", SHELL, str(STRANGER), command]
        return subprocess.run(words, cwd="/", capture_output=True, text=True, timeout=60, check=False)

    def amends(self, *words: str) -> str:
        """A command of `amends` of the agent's, on the server's journal."""
        said = amends_as(STRANGER, self.agent, *words, "--journal", str(self.server.journal))
        assert said.code != 0, said
        return said.err


@pytest.fixture(scope="module")
def machine() -> Generator[Machine]:
    with a_place() as place:
        home = folder(place / "amends", VICTIM)
        shared = folder(place / "run", VICTIM, 0o755)
        agent = folder(place / "agent", STRANGER)
        for name, text in (("policy.yaml", STRICT), ("account.py", MODULE)):
            (home / name).write_text(text)
            os.chown(home / name, VICTIM, VICTIM)
        (agent / "lax.yaml").write_text(LAX)
        os.chown(agent / "lax.yaml", STRANGER, STRANGER)
        on = ["--journal", str(home / "journal.db")]
        why = ["--why", "first", "--by", "person:admin"]
        assert amends_as(VICTIM, home, "policy", "adopt", "policy.yaml", *why, *on).code == 0
        admin = _token(home, "person:admin", "view", "decide", "admin")
        token = _token(home, "agent:shop", "run")
        words = ["--module", "account", "--env", "production", "--peer", "65533=view"]
        with served_by_another(home, shared, *words, token=admin) as server:
            yield Machine(server=server, home=home, agent=agent, token=token)


def _token(home: Path, name: str, *scopes: str) -> str:
    words = [word for scope in scopes for word in ("--scope", scope)]
    on = ["--by", "person:admin", "--journal", str(home / "journal.db")]
    said = amends_as(VICTIM, home, "token", "create", name, *words, *on)
    assert said.code == 0, said
    return said.out.strip().splitlines()[-1]


@pytest.mark.parametrize("name", ["journal.db", "journal.db-wal", "journal.db.key"])
def test_the_agents_shell_can_neither_read_nor_replace_what_is_the_servers(machine: Machine, name: str) -> None:
    path = machine.home / name
    assert path.exists()
    for command in (
        f"cat {path}",
        f"cp {path} {machine.agent}/copy",
        f"echo x > {path}",
        f"rm -f {path} && ! ls {path}",
    ):
        done = machine.shell(command)
        assert done.returncode != 0
        assert "denied" in done.stderr
    assert machine.shell(f"ls {machine.home}").returncode != 0
    assert machine.shell(f"touch {machine.home}/journal.db-journal").returncode != 0


def test_the_agents_shell_cannot_take_the_sockets_place(machine: Machine) -> None:
    socket = machine.server.socket.removeprefix("unix://")
    assert machine.shell(f"rm -f {socket}; test ! -e {socket}").returncode != 0
    assert machine.shell(f"mv {socket} {socket}2").returncode != 0


def test_the_agents_own_command_line_decides_nothing_on_the_servers_journal(machine: Machine) -> None:
    for words in (
        ("policy", "adopt", "lax.yaml", "--why", "x", "--by", "person:boss"),
        ("token", "create", "person:boss", "--scope", "admin", "--by", "person:boss"),
        ("journal", "backup", str(machine.agent / "copy.db")),
    ):
        assert machine.amends(*words)
    assert not (machine.agent / "copy.db").exists()
    with Client(machine.server) as admin:
        assert admin.get("/policy").json()["text"] == STRICT
        assert {one["name"] for one in admin.get("/tokens").json()["items"]} >= {"person:admin", "agent:shop"}


def test_the_agents_token_starts_sagas_and_neither_adopts_nor_approves(machine: Machine) -> None:
    with (
        Client(machine.server) as admin,
        Client(machine.server, machine.token) as agent,
        admin.client("person:anna", "view", "decide") as anna,
        admin.client("person:olga", "view", "decide") as olga,
    ):
        body = {"definition": "account.close", "input": {"name": str(machine.home / "closed")}, "id": "c1"}
        assert agent.told("/sagas", body)["actor"] == "agent:shop"
        anna.until("c1", "approval.requested")
        (asked,) = anna.get("/approvals", saga="c1").json()["items"]
        grant, digest = f"/approvals/{asked['id']}/grant", anna.get(f"/approvals/{asked['id']}").json()["digest"]
        _is_refused_everything(agent, grant, digest)
        anna.told(grant, {"digest": digest})
        _is_refused_everything(agent, grant, digest)
        assert agent.saga("c1")["status"] == "waiting"
        assert not (machine.home / "closed").exists()
        assert anna.post(grant, {"digest": digest}).status_code == 409  # one person is not two
        olga.told(grant, {"digest": digest})
        anna.until("c1", "saga.completed")
        assert (machine.home / "closed").exists()
    said = amends_as(VICTIM, machine.home, "evidence", "verify", "--journal", str(machine.server.journal))
    assert said.code in {0, 7}, said


def _is_refused_everything(agent: Client, grant: str, digest: str) -> None:
    """Whatever the agent asks for beyond its token: nothing of it is done."""
    tries: list[tuple[str, dict[str, Any]]] = [
        ("/policy/adopt", {"text": LAX, "why": "x"}),
        (grant, {"digest": digest}),
        ("/tokens", {"name": "person:boss", "scopes": ["admin"]}),
        ("/pauses", {"why": "x"}),
        ("/pauses/end", {"everything": True}),
        ("/sagas/c1/limits", {"steps": 9}),
        ("/sagas/c1/unpause", {}),
        ("/incidents/c1/1/resolve", {"reason": "fine"}),
    ]
    for path, body in tries:
        assert agent.post(path, body).status_code == 403, path
    assert agent.post(grant, {"digest": digest, "by": "person:anna"}).status_code == 403
    start = {"definition": "account.close", "input": {"name": "x"}, "actor": "person:anna"}
    assert agent.post("/sagas", start).status_code == 422
    forged = {"x-forwarded-user": "person:anna", "x-remote-user": "anna"}
    assert agent.http.get("/v1/approvals", headers=forged).status_code == 403


def _login(uid: int) -> str:
    try:
        return f"person:{pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"person:uid-{uid}"


def test_at_the_socket_another_user_is_who_the_kernel_says_and_may_nothing_unasked(machine: Machine) -> None:
    socket = machine.server.socket.removeprefix("unix://")
    program = (
        "import http.client, socket, sys\n"
        "class Local(http.client.HTTPConnection):\n"
        "    def connect(self):\n"
        "        self.sock = socket.socket(socket.AF_UNIX); self.sock.connect(sys.argv[1])\n"
        "asking = Local('localhost')\n"
        "asking.request(sys.argv[2], sys.argv[3], headers={'X-User': 'person:admin', 'Idempotency-Key': 'k'})\n"
        "answer = asking.getresponse(); print(answer.status, answer.read().decode())\n"
    )
    code = f"import os, sys\nos.setgroups([]); os.setgid({STRANGER}); os.setuid({STRANGER})\n{program}"
    for method, path in (("GET", "/v1/sagas"), ("POST", "/v1/policy/adopt"), ("GET", "/v1/policy")):
        words = [sys.executable, "-c", f"import http.client\n{code}", socket, method, path]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        assert done.stdout.startswith("403 "), done
        assert _login(STRANGER) in done.stdout


def test_a_user_who_is_named_in_two_ways_is_refused() -> None:
    """What was said last counted, and the other was dropped without a word."""
    with pytest.raises(InputError, match=r"--peer 0=view: 0 is the user whom another --peer calls root"):
        peer_scopes(("root=view,decide", "daemon=view", "0=view"))
    assert peer_scopes(("root=view", "root=decide")) == {"root": {"view", "decide"}}


IN_A_NAMESPACE = """
import ctypes, os, sys
from amends.errors import InputError
from amends.http.peers import peer_scopes
libc = ctypes.CDLL(None, use_errno=True)
assert libc.unshare(0x10000000) == 0, ctypes.get_errno()  # CLONE_NEWUSER
print("in", flush=True)
sys.stdin.readline()
for said in sys.argv[1:]:
    try:
        print(sorted(peer_scopes((said,))))
    except InputError as exc:
        print(exc)
"""


def test_a_server_in_a_user_namespace_says_whom_the_kernel_would_not_name_to_it() -> None:
    """The unit had one of its own: whoever asked at the socket was `nobody`, and no --peer was known."""
    words = [sys.executable, "-c", IN_A_NAMESPACE, "0=view", f"{STRANGER}=view", "65534=view"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as inside:
        assert inside.stdin is not None
        assert inside.stdout is not None
        assert inside.stdout.readline() == "in\n"
        Path(f"/proc/{inside.pid}/uid_map").write_text(f"0 0 1\n{VICTIM - 1} {VICTIM - 1} 1\n")
        said, _ = inside.communicate("go\n", timeout=30)
    root, other, nobody = said.splitlines()
    assert root == "['0']"
    assert f"is in a user namespace that {STRANGER} is not in" in other
    assert "PrivateUsers=no" in other
    assert "everybody whom it cannot name" in nobody


def test_somebody_whom_the_kernel_cannot_name_is_nobody_known() -> None:
    scope: dict[str, Any] = {"type": "http", "headers": [], "state": {UID: 65534}}
    assert asyncio.run(Peers({}).recognise(HTTPConnection(scope))) is None
