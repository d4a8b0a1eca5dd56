"""A webhook: a signed POST to an address that was looked at first. Anything but a 2xx, in time, is not delivered.

No redirect is followed, no proxy is used, and of the answer only its status and `Retry-After` are read.
"""

from __future__ import annotations

import asyncio
import functools
import os
import re
import ssl
from collections.abc import Sequence
from dataclasses import KW_ONLY, field
from os import PathLike
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from amends.dataclass import dataclass
from amends.errors import AmendsError, InputError
from amends.notify import signing
from amends.notify.addresses import Reach, addresses_of, is_loopback
from amends.notify.links import checked_console, linked, slack_message
from amends.notify.notice import ASKING, checked_types
from amends.notify.target import (
    GIVE_UP_S,
    HEADS_EVERY_S,
    Delivered,
    Delivery,
    Undelivered,
    check_numbers,
    checked_name,
    default_name,
)

if TYPE_CHECKING:
    from amends.notify.notice import Notice

SECRET_ENV: Final = "AMENDS_WEBHOOK_SECRET"  # noqa: S105 - a name, not a password
LONGEST_URL: Final = 2000
_LONGEST_HEAD: Final = 16 * 1024
_LONGEST_WAIT_S: Final = 3600.0
_CONNECT_S: Final = 5.0
_STATUS: Final = re.compile(rb"HTTP/1\.[01] (\d{3})(?: [^\r\n]*)?\r\n")
_RETRY_AFTER: Final = re.compile(rb"\r\nretry-after:[ \t]*(\d{1,9})[ \t]*\r\n", re.IGNORECASE)
_PORTS: Final = {"https": 443, "http": 80}


class Address(NamedTuple):
    """A URL's parts. `path` has the query with it."""

    is_safe: bool
    host: str
    port: int
    authority: str
    path: str


@dataclass(frozen=True, slots=True, repr=False)
class Webhook:
    """Tells a URL, signed as Standard Webhooks has it.

    url: https, or http to this machine. It may hold a token of its own: no list or log shows more of it than its host.
    secret_env: the variable that holds the secret, `whsec_…`; several, separated by white space, all sign.
    secret_file: a file of mode 600 that holds it instead; it is read for each try, so it can be changed at any time.
    name: what its place in the journal is called; without one, a new URL is a new target.
    types: what it is told of.
    timeout_s: for one try, all of it.
    give_up_s: a notice that is older than this and cannot be delivered is given up.
    heads_every_s: of tree heads, told of at most so often, and only where there is a new one; 0: each time.
    console: where the console is: each notice then has the link to its page, as `url`.
    slack: send the message that Slack shows instead, with a button that leads to the page. Its URL is the secret, so it
        is not signed.
    allow_private: let it be in a private network, or on this machine. Addresses of a cloud's metadata stay refused.
    """

    url: str
    _: KW_ONLY
    secret_env: str = SECRET_ENV
    secret_file: str | PathLike[str] | None = None
    name: str = ""
    types: Sequence[str] = ASKING
    timeout_s: float = 15.0
    give_up_s: float = GIVE_UP_S
    allow_private: bool = False
    heads_every_s: float = HEADS_EVERY_S
    console: str = ""
    slack: bool = False
    _address: Address = field(init=False, compare=False)

    def __post_init__(self) -> None:
        address = _checked_url(self.url)
        set_field = functools.partial(object.__setattr__, self)
        set_field("_address", address)
        set_field("types", checked_types(self.types))
        set_field("name", checked_name(self.name or default_name(address.host, self.url)))
        check_numbers(self.timeout_s, self.give_up_s, self.heads_every_s)
        set_field("console", checked_console(self.console))

    def __repr__(self) -> str:
        return f"Webhook({self.shown!r}, name={self.name!r})"

    @property
    def shown(self) -> str:
        return f"{'https' if self._address.is_safe else 'http'}://{self._address.authority}/…"

    def check(self) -> None:
        if not self.slack:
            signing.secrets_from(self.secret_env, self.secret_file)

    async def deliver(self, notice: Notice, now: int) -> Delivery:
        try:
            async with asyncio.timeout(self.timeout_s):
                return await self._post(notice, now // 1000)
        except TimeoutError:
            return Undelivered(f"no answer in {self.timeout_s:g} s")
        except OSError as exc:
            return Undelivered(_in_words(exc))
        except asyncio.IncompleteReadError:
            return Undelivered("it closed the connection before it had answered")
        except asyncio.LimitOverrunError:
            return Undelivered("what it answered is not HTTP")
        except AmendsError as exc:
            return Undelivered(str(exc))

    async def _post(self, notice: Notice, timestamp: int) -> Delivery:
        body, signed = self._message(notice, timestamp)
        headers = {
            "host": self._address.authority,
            "content-type": "application/json",
            "content-length": str(len(body)),
            "user-agent": "amends",
            "connection": "close",
            **signed,
        }
        lines = [f"POST {self._address.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        reader, writer = await self._connect()
        try:
            writer.write("\r\n".join([*lines, "", ""]).encode("ascii") + body)
            await writer.drain()
            return await _answer(reader)
        finally:
            writer.transport.abort()

    def _message(self, notice: Notice, timestamp: int) -> tuple[bytes, dict[str, str]]:
        """The body that is sent, and the headers that sign it."""
        if self.slack:
            return slack_message(notice, self.console), {}
        secrets = signing.secrets_from(self.secret_env, self.secret_file)
        body = linked(notice, self.console).body
        return body, {
            signing.ID: notice.id,
            signing.TIMESTAMP: str(timestamp),
            signing.SIGNATURE: signing.sign(secrets, notice.id, timestamp, body),
        }

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = self._address.host, self._address.port
        tls = _tls() if self._address.is_safe else None
        *others, last = await addresses_of(host, port, self._reach)
        server_hostname = host if tls else None
        for pinned in others:
            try:
                async with asyncio.timeout(_CONNECT_S):
                    return await asyncio.open_connection(
                        pinned, port, ssl=tls, server_hostname=server_hostname, limit=_LONGEST_HEAD
                    )
            except OSError:  # a timeout is one too
                continue
        return await asyncio.open_connection(last, port, ssl=tls, server_hostname=server_hostname, limit=_LONGEST_HEAD)

    @property
    def _reach(self) -> Reach:
        if not self._address.is_safe:
            return Reach.LOOPBACK
        return Reach.PRIVATE_TOO if self.allow_private else Reach.PUBLIC


def _in_words(trouble: OSError) -> str:
    if isinstance(trouble, ssl.SSLCertVerificationError):
        return f"its certificate is not valid here: {trouble.verify_message}"
    if isinstance(trouble, ssl.SSLError):
        return f"no TLS with it: {trouble.reason}"
    number = trouble.errno or 0
    said = os.strerror(number) if number > 0 else trouble.strerror
    return f"no connection: {said or type(trouble).__name__}"


async def _answer(reader: asyncio.StreamReader) -> Delivery:
    status = 100
    head = b""
    while 100 <= status < 200:  # noqa: PLR2004 - what comes before the answer
        head = await reader.readuntil(b"\r\n\r\n")
        said = _STATUS.match(head)
        if said is None:
            return Undelivered("what it answered is not HTTP")
        status = int(said[1])
    if 200 <= status < 300:  # noqa: PLR2004 - what counts as delivered
        return Delivered()
    later = _RETRY_AFTER.search(head)
    after_s = min(float(later[1]), _LONGEST_WAIT_S) if later else 0.0
    redirects = "; it redirects, and that is not followed: give the new address" if 300 <= status < 400 else ""  # noqa: PLR2004 - those that redirect
    return Undelivered(f"it answered {status}{redirects}", after_s)


@functools.cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


def _checked_url(url: str) -> Address:
    """Raises InputError, which does not repeat the URL: it may hold a token."""
    if not url.isascii() or not url.isprintable() or " " in url or len(url) > LONGEST_URL:
        raise InputError(f"a webhook's URL has at most {LONGEST_URL} printable ASCII characters; encode what is not")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        host.encode("idna")
    except ValueError as exc:
        raise InputError(f"a webhook's URL cannot be read: {exc}") from None
    if parts.scheme not in _PORTS or not host:
        raise InputError("a webhook's URL looks like https://example.com/path")
    if parts.scheme == "http" and not is_loopback(host):
        raise InputError(f"a webhook to {host} has to be https; http is for this machine only")
    if parts.username is not None or parts.password is not None:
        raise InputError(f"the URL of the webhook to {host} holds a password; what is sent there is signed instead")
    if parts.fragment:
        raise InputError(f"the URL of the webhook to {host} has a part after #, which is never sent")
    named = f"[{host}]" if ":" in host else host
    authority = named if port is None or port == _PORTS[parts.scheme] else f"{named}:{port}"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Address(parts.scheme == "https", host, port or _PORTS[parts.scheme], authority, path)
