"""A webhook, against a real server on this machine: signed, in time, to the address that was looked at."""

from __future__ import annotations

import asyncio
import datetime as dt
import gc
import socket
import ssl
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from amends.clock import SystemClock
from amends.errors import InputError, SecretUnavailableError
from amends.notify import Webhook, webhook
from amends.notify.notice import Notice
from amends.notify.target import Delivered, Delivery, Undelivered
from tests.runtime.notices.receiver import OTHER, SECRET, receiving

NOTICE = Notice(id="amends_7_ab", type="incident.opened", at=1_700_000_000_007, about="s/1", data={"saga": "s"})


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    monkeypatch.setenv("AMENDS_WEBHOOK_SECRET", SECRET)
    yield
    gc.collect()  # a socket that was left open is told as a warning, and that is an error here


def tell(hook: Webhook, notice: Notice = NOTICE) -> Delivery:
    return asyncio.run(hook.deliver(notice, SystemClock().now()))


def test_a_post_of_json_that_a_receiver_can_verify() -> None:
    with receiving() as receiver:
        assert tell(Webhook(receiver.url)) == Delivered()
    (came,) = receiver.came
    assert came.verified() == {
        "id": "amends_7_ab",
        "type": "incident.opened",
        "timestamp": "2023-11-14T22:13:20.007Z",
        "data": {"saga": "s"},
    }
    assert (came.id, came.path, came.headers["content-type"]) == ("amends_7_ab", "/hook?x=1", "application/json")
    assert came.headers["host"] == f"localhost:{receiver.port}"


def test_a_secret_in_a_file_is_read_for_each_try_so_it_can_be_changed(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.touch(mode=0o600)
    with receiving() as receiver:
        hook = Webhook(receiver.url, secret_file=file)
        for text in (OTHER, f"{SECRET} {OTHER}", SECRET):
            file.write_text(text, encoding="ascii")
            assert tell(hook) == Delivered()
        file.unlink()
        assert "No such file" in str(tell(hook))
    first, both, last = receiver.came
    assert first.verified(OTHER) == both.verified(OTHER) == both.verified(SECRET) == last.verified(SECRET)
    assert SECRET not in repr(hook)


def test_without_a_secret_it_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AMENDS_WEBHOOK_SECRET")
    hook = Webhook("https://example.com")
    with pytest.raises(SecretUnavailableError, match="AMENDS_WEBHOOK_SECRET"):
        hook.check()
    assert "AMENDS_WEBHOOK_SECRET" in str(tell(hook))


@pytest.mark.parametrize(
    ("answer", "delivery"),
    [
        (200, Delivered()),
        (299, Delivered()),
        (b"HTTP/1.0 202 Accepted\r\n\r\n", Delivered()),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200\r\n\r\n", Delivered()),
        (500, Undelivered("it answered 500")),
        (404, Undelivered("it answered 404")),
        (b"HTTP/1.1 503 Busy\r\nRetry-After: 12\r\n\r\n", Undelivered("it answered 503", 12.0)),
        (b"HTTP/1.1 429 No\r\nretry-after:99999999\r\n\r\n", Undelivered("it answered 429", 3600.0)),
        (b"HTTP/1.1 429 No\r\nretry-after: Wed, 21 Oct 2026 07:28:00 GMT\r\n\r\n", Undelivered("it answered 429")),
        (b"HTTP/2 200\r\n\r\n", Undelivered("what it answered is not HTTP")),
        (b"SSH-2.0-OpenSSH\r\n\r\n", Undelivered("what it answered is not HTTP")),
        (b"HTTP/1.1 200 OK\r\nx: y\r\n", Undelivered("it closed the connection before it had answered")),
        (b"", Undelivered("it closed the connection before it had answered")),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 10_000, Undelivered("what it answered is not HTTP")),
    ],
)
def test_only_a_2xx_is_delivered(answer: int | bytes, delivery: Delivery) -> None:
    with receiving(answer) as receiver:
        assert tell(Webhook(receiver.url)) == delivery


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    with receiving() as other:
        moved = f"HTTP/1.1 {status} Moved\r\nlocation: {other.url}\r\n\r\n".encode()
        with receiving(moved) as receiver:
            assert f"it answered {status}; it redirects" in str(tell(Webhook(receiver.url)))
    assert (len(receiver.came), other.came) == (1, [])


def test_one_that_says_nothing_is_left_when_its_time_is_up() -> None:
    stay = threading.Event()
    with receiving(stay) as receiver:
        assert tell(Webhook(receiver.url, timeout_s=0.2)) == Undelivered("no answer in 0.2 s")
        stay.set()


def test_one_that_drips_is_left_when_its_time_is_up() -> None:
    """Each byte comes in time, and the answer never does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        over = threading.Event()

        def drip() -> None:
            connection, _ = server.accept()
            with connection:
                while not over.wait(0.02):
                    try:
                        connection.sendall(b"H")
                    except OSError:
                        return

        dripping = threading.Thread(target=drip)
        dripping.start()
        hook = Webhook(f"http://127.0.0.1:{server.getsockname()[1]}/", timeout_s=0.3)
        assert tell(hook) == Undelivered("no answer in 0.3 s")
        over.set()
        dripping.join()


def test_nobody_there() -> None:
    with receiving() as receiver:
        hook = Webhook(receiver.url)
    assert tell(hook) == Undelivered("no connection: Connection refused")


def resolved(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """What names are resolved to, one answer after the other; which names were asked for."""
    asked: list[str] = []

    def answer(host: str, port: int, *args: Any, **kwargs: Any) -> list[Any]:
        found = answers[min(len(asked), len(answers) - 1)]
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    return asked


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "100.64.0.1"])
def test_a_private_address_behind_a_public_name_is_refused(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    resolved(monkeypatch, [address])
    told = tell(Webhook("https://hooks.example.com/x"))
    assert isinstance(told, Undelivered)
    assert told.why.startswith(f"hooks.example.com is at {address}, and webhooks may go to public addresses only")


def test_a_metadata_address_is_refused_even_where_private_ones_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    resolved(monkeypatch, ["169.254.169.254"])
    assert "may go to public and private addresses only" in str(tell(Webhook("https://h", allow_private=True)))


def test_http_goes_to_this_machine_whatever_its_name_is_resolved_to(monkeypatch: pytest.MonkeyPatch) -> None:
    resolved(monkeypatch, ["8.8.8.8"])
    assert "localhost is at 8.8.8.8, and webhooks may go to this machine only" in str(tell(Webhook("http://localhost")))


def test_the_address_that_was_checked_is_the_one_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name points elsewhere the second time it is asked for; it is not asked for a second time."""
    with receiving() as receiver:
        asked = resolved(monkeypatch, ["127.0.0.1"], ["10.255.255.1"])
        assert tell(Webhook(f"http://localhost:{receiver.port}/", timeout_s=5)) == Delivered()
    assert asked == ["localhost"]


def test_where_a_name_has_several_addresses_the_next_one_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving() as receiver:
        resolved(monkeypatch, ["127.0.0.2", "127.0.0.1"])  # it listens on the second only
        assert tell(Webhook(f"http://localhost:{receiver.port}/")) == Delivered()


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://example.com/x", "a webhook to example.com has to be https"),
        ("http://10.0.0.1/x", "has to be https"),
        ("http://127.0.0.1.example.com/", "has to be https"),
        ("ftp://example.com", "looks like https://"),
        ("example.com/token", "looks like https://"),
        ("https:///token", "looks like https://"),
        ("https://user:token@example.com/", "holds a password"),
        ("https://example.com/#token", "after #"),
        ("https://example.com/to ken", "printable ASCII"),
        ("https://example.com/token\r\nx: y", "printable ASCII"),
        ("https://exämple.com/token", "printable ASCII"),
        ("https://example.com:99999/token", "cannot be read"),
        ("https://[::1/token", "cannot be read"),
        (f"https://{'a' * 64}.com/token", "cannot be read"),
        ("https://example.com/" + "x" * 2000, "at most 2000"),
    ],
)
def test_a_url_that_will_not_do_is_refused_and_not_repeated(url: str, why: str) -> None:
    with pytest.raises(InputError, match=why) as refused:
        Webhook(url)
    assert "token" not in str(refused.value)


def test_a_list_or_a_log_shows_no_more_of_a_url_than_its_host() -> None:
    hook = Webhook("https://hooks.example.com:8443/services/T0/B0/token")
    assert (hook.shown, "token" in repr(hook)) == ("https://hooks.example.com:8443/…", False)
    assert hook.name.startswith("hooks.example.com-")
    assert Webhook("https://hooks.example.com:8443/services/T0/B0/another").name != hook.name
    assert Webhook("https://example.com", name="ops").name == "ops"


@pytest.mark.parametrize(
    "wrong",
    [{"timeout_s": 0}, {"timeout_s": 601}, {"give_up_s": -1}, {"name": "x" * 101}, {"name": "\n"}, {"types": ()}],
)
def test_numbers_and_names_that_will_not_do(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Webhook("https://example.com", **wrong)


# -- TLS --------------------------------------------------------------------------------------------------------------


@pytest.fixture(name="tls", scope="module")
def _tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path]:
    """A server's side of TLS for `localhost`, and the file of who vouches for it: itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    place = tmp_path_factory.mktemp("tls")
    (place / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    (place / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(place / "cert.pem", place / "key.pem")
    return context, place / "cert.pem"


def test_over_tls_the_name_is_verified_and_the_address_pinned(
    tls: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    context, certificate = tls
    monkeypatch.setattr(webhook, "_tls", lambda: ssl.create_default_context(cafile=certificate))
    with receiving(tls=context) as receiver:
        assert tell(Webhook(receiver.url, allow_private=True)) == Delivered()
        assert "public addresses only" in str(tell(Webhook(receiver.url)))
        resolved(monkeypatch, ["127.0.0.1"])
        other = Webhook(f"https://other.example.com:{receiver.port}/", allow_private=True)
        assert "its certificate is not valid here: Hostname mismatch" in str(tell(other))
    assert len(receiver.came) == 1


def test_a_certificate_that_nobody_vouches_for_is_refused(tls: tuple[ssl.SSLContext, Path]) -> None:
    with receiving(tls=tls[0]) as receiver:
        assert "its certificate is not valid here: self-signed" in str(tell(Webhook(receiver.url, allow_private=True)))


def test_a_server_that_does_not_speak_tls() -> None:
    with receiving() as receiver:
        hook = Webhook(receiver.url.replace("http:", "https:"), allow_private=True)
        assert str(tell(hook)).startswith("Undelivered(why='no TLS with it: ")
