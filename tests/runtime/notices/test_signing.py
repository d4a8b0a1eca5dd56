"""Signatures as Standard Webhooks has them, and secrets that are kept where nobody else looks."""

from __future__ import annotations

from pathlib import Path

import pytest

from amends.errors import InputError, SecretUnavailableError
from amends.notify import WebhookRefusedError, verify_webhook
from amends.notify.signing import parse_secrets, secrets_from, sign
from tests.runtime.notices.receiver import OTHER, SECRET

# The example that the libraries of Standard Webhooks are tested with.
ID, SECONDS, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
SIGNED = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
NOW = SECONDS * 1000
HEADERS = {"Webhook-Id": ID, "webhook-timestamp": str(SECONDS), "WEBHOOK-SIGNATURE": SIGNED}


def test_the_published_example() -> None:
    assert sign(parse_secrets(SECRET), ID, SECONDS, BODY) == SIGNED
    assert verify_webhook(HEADERS, BODY, SECRET, NOW) == {"test": 2432232314}


def test_while_a_secret_is_changed_both_sign_and_either_is_enough() -> None:
    both = sign(parse_secrets(f"{OTHER}\n {SECRET} "), ID, SECONDS, BODY)
    assert (len(both.split(" ")), both.endswith(SIGNED)) == (2, True)
    for known in (SECRET, OTHER, f"{OTHER} {SECRET}"):
        assert verify_webhook({**HEADERS, "WEBHOOK-SIGNATURE": f"v1a,x {both}"}, BODY, known, NOW)
    assert verify_webhook(HEADERS, BODY, f"{OTHER} {SECRET}", NOW)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"Webhook-Id": "msg_other"}, "none of its signatures"),
        ({"webhook-timestamp": str(SECONDS + 1)}, "none of its signatures"),
        ({"WEBHOOK-SIGNATURE": SIGNED[3:]}, "none of its signatures"),
        ({"WEBHOOK-SIGNATURE": "v2" + SIGNED[2:]}, "none of its signatures"),
        ({"WEBHOOK-SIGNATURE": "v1,ü"}, "none of its signatures"),
        ({"WEBHOOK-SIGNATURE": " ".join(["v1,x"] * 20 + [SIGNED])}, "none of its signatures"),
        ({"WEBHOOK-SIGNATURE": ""}, "it has no webhook-signature"),
        ({"Webhook-Id": "", "webhook-timestamp": ""}, "it has no webhook-id and no webhook-timestamp"),
        ({"webhook-timestamp": "now"}, "not a number of seconds"),
        ({"webhook-timestamp": "-5"}, "not a number of seconds"),
        ({"webhook-timestamp": "٣"}, "not a number of seconds"),
        ({"webhook-timestamp": "9" * 5000}, "not a number of seconds"),
    ],
)
def test_what_is_not_as_it_was_signed_is_refused(change: dict[str, str], why: str) -> None:
    with pytest.raises(WebhookRefusedError, match=why):
        verify_webhook({**HEADERS, **change}, BODY, SECRET, NOW)


def test_another_body_or_another_secret_is_refused() -> None:
    with pytest.raises(WebhookRefusedError):
        verify_webhook(HEADERS, BODY + b" ", SECRET, NOW)
    with pytest.raises(WebhookRefusedError):
        verify_webhook(HEADERS, BODY, OTHER, NOW)


@pytest.mark.parametrize("seconds", [-301, 301])
def test_what_was_sent_at_another_time_is_refused(seconds: int) -> None:
    with pytest.raises(WebhookRefusedError, match="300 s ago"):
        verify_webhook(HEADERS, BODY, SECRET, NOW + seconds * 1000)
    assert verify_webhook(HEADERS, BODY, SECRET, NOW + seconds * 1000, tolerance_s=400)


def test_without_a_time_it_is_the_machines() -> None:
    with pytest.raises(WebhookRefusedError, match="300 s ago"):
        verify_webhook(HEADERS, BODY, SECRET)


@pytest.mark.parametrize("body", [b"[]", b"x", b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_object_is_refused_even_if_it_is_signed(body: bytes) -> None:
    signed = {**HEADERS, "WEBHOOK-SIGNATURE": sign(parse_secrets(SECRET), ID, SECONDS, body)}
    with pytest.raises(WebhookRefusedError, match="not a JSON object"):
        verify_webhook(signed, body, SECRET, NOW)


@pytest.mark.parametrize("secret", ["", " \n", SECRET[6:], "whsec_", "whsec_AAAA", "whsec_*", "whsec_" + "AAAA" * 22])
def test_what_is_no_secret_is_refused_and_not_repeated(secret: str) -> None:
    with pytest.raises(InputError, match="whsec_") as refused:
        parse_secrets(secret)
    assert len(secret) < 8 or secret not in str(refused.value)


def test_a_secret_comes_from_the_environment_or_from_a_file_that_is_its_owners(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOOK", raising=False)
    with pytest.raises(SecretUnavailableError, match="the environment has no HOOK"):
        secrets_from("HOOK", None)
    monkeypatch.setenv("HOOK", OTHER)
    assert secrets_from("HOOK", None) == parse_secrets(OTHER)
    file = tmp_path / "secret"
    with pytest.raises(SecretUnavailableError, match="No such file"):
        secrets_from("HOOK", file)
    file.touch(mode=0o600)
    file.write_text(f"{SECRET}\n{OTHER}\n", encoding="ascii")
    assert secrets_from("HOOK", file) == parse_secrets(f"{SECRET} {OTHER}")
    file.write_text(SECRET.removeprefix("whsec_"), encoding="ascii")
    with pytest.raises(SecretUnavailableError) as refused:
        secrets_from("HOOK", file)
    assert SECRET[6:] not in str(refused.value)
    file.write_bytes(b"\xff")
    with pytest.raises(SecretUnavailableError, match="not text"):
        secrets_from("HOOK", file)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_file_that_others_may_read_is_not_read(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "secret"
    file.write_text(SECRET, encoding="ascii")
    file.chmod(mode)
    with pytest.raises(SecretUnavailableError, match=rf"open to other users \(mode {mode:o}\).*chmod 600"):
        secrets_from("HOOK", file)
