"""A server, as a client asks it: at a URL or a Unix socket, with a token; refusals are the errors that they stand for.

Whatever is asked may be asked again: each POST has an id of its own, and a server that is started anew finds on its
journal what it had done. So a connection that breaks is made again, until the client's patience is at its end.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from amends.clock import SystemClock
from amends.errors import InputError, JournalUnreachableError
from amends.remote.errors import refusal

if TYPE_CHECKING:
    # of an extra, loaded by who connects
    from httpx2 import AsyncClient, Client as BlockingClient, Response, TransportError

EXTRA: Final = "to connect to a server takes the extra http: pip install 'amends[http]'"
SOCKET: Final = "unix://"
IN_FLIGHT: Final = "urn:amends:RequestInFlight"
PATIENCE_S: Final = 30.0
CONNECT_S: Final = 10.0
READ_S: Final = 60.0
_AT_SOCKET: Final = "http://amends"
_FIRST_S: Final = 0.05
_MOST_S: Final = 1.0
Fields = dict[str, Any]
Given = Mapping[str, str | int | float | bool | list[str] | tuple[str, ...] | None]


class Server:
    """One server, and the connections to it."""

    def __init__(self, url: str, token: str | None, *, patience_s: float = PATIENCE_S) -> None:
        self.url = checked_url(url)
        self.token = token
        self._patience_s = patience_s
        self._clock = SystemClock()
        self._client = _client(self.url, token)

    def __repr__(self) -> str:
        return f"<server at {self.url}>"

    async def close(self) -> None:
        await self._client.aclose()

    async def get(self, path: str, **given: Any) -> Fields:  # noqa: ANN401 - what a query can say
        query = {name: _spelled(value) for name, value in given.items() if value is not None}
        return cast("Fields", await self._asked("GET", path, params=query))

    async def post(self, path: str, body: Mapping[str, object]) -> Fields:
        headers = {"Content-Type": "application/json", "Idempotency-Key": self._clock.new_id()}
        return cast("Fields", await self._asked("POST", path, content=json.dumps(body).encode(), headers=headers))

    async def _asked(self, method: str, path: str, **more: Any) -> object:  # noqa: ANN401 - as httpx2 takes it
        while True:
            answer = await self._answer(method, path, **more)
            if answer.is_success:
                return answer.json()
            problem = problem_of(answer)
            if problem.get("type") != IN_FLIGHT:
                raise refusal(problem)
            await self._clock.sleep(_MOST_S)  # the connection broke, and what was asked for goes on

    async def _answer(self, method: str, path: str, **more: Any) -> Response:  # noqa: ANN401 - as httpx2 takes it
        from httpx2 import TransportError

        since: float | None = None
        pause_s = _FIRST_S
        while True:
            try:
                return await self._client.request(method, f"/v1{path}", **more)
            except TransportError as exc:
                since = self._clock.elapsed() if since is None else since
                if is_untrusted(exc) or self._clock.elapsed() - since + pause_s > self._patience_s:
                    raise unreachable(self.url, exc) from None
            await self._clock.sleep(pause_s * (1 - self._clock.jitter() / 2))
            pause_s = min(_MOST_S, pause_s * 2)


def checked_url(url: str) -> str:
    """Raises InputError."""
    parts = urlsplit(url)
    is_socket = parts.scheme == "unix" and parts.path.startswith("/") and not parts.netloc
    if not is_socket and not (parts.scheme in {"http", "https"} and parts.netloc and "@" not in parts.netloc):
        raise InputError(f"{url!r} is no address of a server: write https://host:port, or unix:///path/of/its/socket")
    if not is_socket and (parts.path.strip("/") or parts.query or parts.fragment):
        raise InputError(f"{url!r} names a page of a server; write its address alone: {parts.scheme}://{parts.netloc}")
    return url.rstrip("/")


def unreachable(url: str, error: TransportError) -> JournalUnreachableError:
    """The error for a server that cannot be asked, which says what to do."""
    if is_untrusted(error):
        return JournalUnreachableError(
            f"the server at {url} has a certificate that is not trusted here: {error}; where it is of an authority of "
            "your own, name that one's file in SSL_CERT_FILE"
        )
    said = str(error) or type(error).__name__
    return JournalUnreachableError(f"the server at {url} does not answer: {said}; does `amends serve` run there?")


def is_untrusted(error: BaseException | None) -> bool:
    """Whether the server's certificate is what is wrong: that does not get better by waiting."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error is not None


def _client(url: str, token: str | None) -> AsyncClient:
    require_extra()
    import httpx2

    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
    timeout = httpx2.Timeout(None, connect=CONNECT_S)
    if url.startswith(SOCKET):
        transport = httpx2.AsyncHTTPTransport(uds=url.removeprefix(SOCKET), limits=limits)
        return httpx2.AsyncClient(base_url=_AT_SOCKET, headers=_who(token), timeout=timeout, transport=transport)
    return httpx2.AsyncClient(
        base_url=url, headers=_who(token), timeout=timeout, limits=limits, verify=_trusted(url), trust_env=False
    )


def blocking_client(url: str, token: str | None) -> BlockingClient:
    """A client for who waits for each answer where it is asked for."""
    require_extra()
    import httpx2

    url = checked_url(url)
    if url.startswith(SOCKET):
        transport = httpx2.HTTPTransport(uds=url.removeprefix(SOCKET))
        return httpx2.Client(base_url=_AT_SOCKET, headers=_who(token), timeout=READ_S, transport=transport)
    return httpx2.Client(base_url=url, headers=_who(token), timeout=READ_S, verify=_trusted(url), trust_env=False)


def _trusted(url: str) -> ssl.SSLContext | bool:
    """Certificates that are trusted: the system's, or those of SSL_CERT_FILE. No proxy comes from the environment."""
    import httpx2

    return httpx2.create_ssl_context() if url.startswith("https") else True


def require_extra() -> None:
    """Raises InputError where the extra is not installed."""
    if find_spec("httpx2") is None:
        raise InputError(EXTRA)


def _who(token: str | None) -> dict[str, str]:
    return {} if token is None else {"Authorization": f"Bearer {token}"}


def problem_of(answer: Response) -> Fields:
    try:
        problem: object = answer.json()
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        problem = {"status": answer.status_code, "detail": f"the server answered {answer.status_code}"}
    return {"status": answer.status_code, **cast("Fields", problem)}


def _spelled(value: object) -> Any:  # noqa: ANN401 - as httpx2 takes it
    return str(value).lower() if isinstance(value, bool) else value
