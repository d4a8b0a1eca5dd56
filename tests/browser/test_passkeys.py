"""Passkeys: enrolled and signed with in the browser, by Chromium's own virtual authenticator."""

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.visitor import Visitor
from tests.server import world
from tests.server.serving import Serving, run_cli, serving

SIGNED = world.POLICY + "approvals: {proof: signed}\n"


@pytest.fixture
def server(tmp_path: Path) -> Generator[Serving]:
    folder = tmp_path / "j"
    folder.mkdir(mode=0o700)
    world.on(folder / "journal.db", lambda one: world.start(one, world.order_one, "sofa", 900, id="o-1"), policy=SIGNED)
    with serving(folder, journal=folder / "journal.db") as one:
        yield one


def _with_authenticator(one: Visitor) -> None:
    session: Any = one.context.new_cdp_session(one.page)
    session.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
    }
    session.send("WebAuthn.addVirtualAuthenticator", {"options": options})


def _enrol(one: Visitor, name: str) -> None:
    one.open("/people")
    one.unfold("Enrol a key")
    one.fill("Person", name)
    one.press("Make a passkey on this device")
    one.sees("Made. Now enrol it.")
    one.press("Enrol the key")
    one.sees(f"The key proves the name {name} from now on.")


def test_a_decision_is_signed_with_a_passkey(visit: Callable[..., Visitor], server: Serving) -> None:
    anna = visit(server, "person:anna", "view", "decide", "admin", host="localhost")
    _with_authenticator(anna)
    _enrol(anna, "person:anna")
    anna.open("/approvals/o-1/2")
    anna.press("Grant")
    anna.sees("This decision takes your signature")
    anna.is_accessible()
    anna.press("Sign with a passkey")
    anna.sees("You granted shop.charge")
    assert world.resumed(server.journal)["o-1"] == "completed"
    run_cli("evidence", "tree-head", "--new", journal=server.journal)
    root = world.on(server.journal, world.root_of)
    verified = run_cli("evidence", "verify", "--root", root, "--json", journal=server.journal)
    assert '"proved": 1' in verified or '"proved":1' in verified


def test_a_passkey_of_another_host_or_of_nobody_signs_nothing(visit: Callable[..., Visitor], server: Serving) -> None:
    anna = visit(server, "person:anna", "view", "decide", "admin", host="localhost")
    _with_authenticator(anna)
    _enrol(anna, "person:anna")
    kim = visit(server, "person:kim", host="localhost")
    _with_authenticator(kim)
    kim.open("/approvals/o-1/2")
    kim.press("Grant")
    kim.sees("No passkey is enrolled for person:kim.")
    stolen = visit(server, "person:anna", host="localhost")
    _with_authenticator(stolen)
    stolen.open("/approvals/o-1/2")
    stolen.press("Grant")
    stolen.press("Sign with a passkey")
    stolen.sees("it was declined, or no passkey fits")
    assert world.resumed(server.journal)["o-1"] == "waiting"


def test_without_scripts_the_page_has_the_command_that_signs(
    visit: Callable[..., Visitor], server: Serving, tmp_path: Path
) -> None:
    import subprocess

    key = tmp_path / "anna"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    run_cli("person", "enrol", "person:anna", "--ssh-key", f"{key}.pub", journal=server.journal)
    anna = visit(server, "person:anna", scripts=False)
    anna.open("/approvals/o-1/2")
    anna.press("Grant")
    anna.sees("The command that signs it")
    anna.sees_no("Sign with a passkey")
    statement = anna.page.locator("form:visible input[name=statement]").get_attribute("value") or ""
    words = ["ssh-keygen", "-Y", "sign", "-n", "amends", "-f", str(key)]
    signed = subprocess.run(words, input=statement, capture_output=True, text=True, check=True).stdout
    anna.fill("The signature", signed)
    anna.press("Decide, signed")
    anna.sees("You granted shop.charge")
