"""Passkeys: enrolled and signed with in the browser, by Chromium's own virtual authenticator."""

import json
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from amends import Coordinator
from tests.browser.visitor import NARROW, WIDE, Visitor
from tests.server import world
from tests.server.serving import Serving, run_cli, serving

SIGNED = world.POLICY + "approvals: {proof: signed}\n"


async def _asked(coordinator: Coordinator) -> None:
    for number in (1, 2):
        await world.start(coordinator, world.order_one, "sofa", 900, id=f"o-{number}")


@pytest.fixture
def server(tmp_path: Path) -> Generator[Serving]:
    folder = tmp_path / "j"
    folder.mkdir(mode=0o700)
    world.on(folder / "journal.db", _asked, policy=SIGNED)
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


def test_several_decisions_are_signed_with_one_touch(
    visit: Callable[..., Visitor], server: Serving, pictures: Path
) -> None:
    anna = visit(server, "person:anna", "view", "decide", "admin", host="localhost")
    _with_authenticator(anna)
    _enrol(anna, "person:anna")
    anna.open("/approvals")
    for saga in ("o-1", "o-2"):
        anna.page.get_by_label(f"Choose shop.charge of {saga}", exact=True).check()
    anna.press("Review the chosen ones together")
    anna.press("Grant all 2")
    anna.sees("2 decisions, signed once")
    for size in (NARROW, WIDE):
        anna.page.set_viewport_size({"width": size[0], "height": size[1]})
        anna.fits()
        anna.is_accessible()
        anna.page.screenshot(path=pictures / f"sign-light-{size[0]}.png", full_page=True)
    anna.press("Sign with a passkey")
    anna.sees("2 granted, signed.")
    now = world.resumed(server.journal)
    assert (now["o-1"], now["o-2"]) == ("completed", "completed")
    run_cli("evidence", "tree-head", "--new", journal=server.journal)
    root = world.on(server.journal, world.root_of)
    verified = run_cli("evidence", "verify", "--root", root, "--json", journal=server.journal)
    assert json.loads(verified.splitlines()[0])["proved"] == 2


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


def _new_key(place: Path) -> tuple[Path, str]:
    """A key as ssh-keygen makes it, and the line of its public half."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place)], check=True)
    return place, place.with_suffix(".pub").read_text().strip()


def _sign(one: Visitor, key: Path) -> None:
    """Sign what the page says with the command that it shows, and give that back."""
    statement = one.page.locator("form:visible input[name=statement]").get_attribute("value") or ""
    words = ["ssh-keygen", "-Y", "sign", "-n", "amends", "-f", str(key)]
    signed = subprocess.run(words, input=statement, capture_output=True, text=True, check=True).stdout
    one.fill("The signature", signed)
    one.press("Decide, signed")


def test_without_scripts_the_page_has_the_command_that_signs(
    visit: Callable[..., Visitor], server: Serving, tmp_path: Path
) -> None:
    key, _ = _new_key(tmp_path / "anna")
    run_cli("person", "enrol", "person:anna", "--ssh-key", f"{key}.pub", journal=server.journal)
    anna = visit(server, "person:anna", scripts=False)
    anna.open("/approvals/o-1/2")
    anna.press("Grant")
    anna.sees("The command that signs it")
    anna.sees_no("Sign with a passkey")
    _sign(anna, key)
    anna.sees("You granted shop.charge")


def test_without_scripts_keys_are_enrolled_and_revoked(
    visit: Callable[..., Visitor], server: Serving, tmp_path: Path
) -> None:
    anna = visit(server, "person:anna", "view", "decide", "admin", scripts=False)
    annas, public = _new_key(tmp_path / "anna")

    def offer(name: str, line: str) -> None:
        anna.open("/people")
        anna.unfold("Enrol a key")
        anna.sees_no("Make a passkey on this device")
        anna.fill("Person", name)
        anna.fill("Public key", line)
        anna.press("Enrol the key")

    offer("person:anna", public)
    anna.sees("The key proves the name person:anna from now on.")
    _, kims = _new_key(tmp_path / "kim")
    offer("person:kim", kims)
    anna.sees("decision: enrol")
    anna.follow("Back, without deciding")
    anna.is_at("/people")
    offer("person:kim", kims)
    _sign(anna, annas)
    anna.sees("The key proves the name person:kim from now on.")
    row = anna.page.locator("tr", has_text="person:kim").first
    row.locator("summary").click()
    row.get_by_label("Reason").fill("left the company")
    row.get_by_role("button", name="Revoke this key").click()
    anna.sees("decision: revoke")
    _sign(anna, annas)
    anna.sees("The key proves nothing more; what it proved before stands.")
    anna.sees("left the company")
    listed = run_cli("person", "list", journal=server.journal)
    assert ("person:anna" in listed, "person:kim" in listed) == (True, False)
