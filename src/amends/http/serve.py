"""The server's process: what it listens on, and how it stops. What it answers is the business of its routes.

It stops in order: no new connection, then what was asked is answered, then the coordinator drains and closes the
journal. What takes longer than `drain_s` is cut off; whoever asked asks again, and finds what is on record.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import signal
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.routing import BaseRoute

from amends.addresses import digest_key, shown
from amends.bootstrap import Coordinator
from amends.clock import SystemClock
from amends.dataclass import dataclass
from amends.errors import InputError
from amends.http import api, console, health
from amends.http.actions import RemoteRegistry
from amends.http.app import Served, make_app
from amends.http.bearer import BearerTokens
from amends.http.callers import Scope
from amends.http.console import Logins
from amends.http.console.oidc import OidcSettings
from amends.http.console.proxy import TrustedProxy
from amends.http.feed import Feed
from amends.http.keys import Keys
from amends.http.peers import PeerProtocol, Peers, listen_at
from amends.http.sessions import OpenSessions
from amends.http.tasks import AttemptTokens, Tasks
from amends.journal.port.journal import Journal
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.declare.registry import PROCESS
from amends.runtime.settings import Settings

DEFAULT_PORT: Final = 8722
_LARGEST_HEAD: Final = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Where a server listens. No host: only at its socket."""

    host: str | None = "127.0.0.1"
    port: int = DEFAULT_PORT
    socket: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    behind_proxy: bool = False
    peers: Mapping[str, frozenset[Scope]]
    drain_s: float = 10.0
    session_idle_s: float = 900.0
    """After so long a session is let go whose client has gone."""
    url: str = ""
    """Where people reach it, where that is not what it listens on."""
    oidc: OidcSettings | None = None
    proxy: TrustedProxy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Driving:
    """The sagas that a server starts and drives itself; the actions of all others run elsewhere."""

    definitions: Sequence[SagaDefinition] = ()
    remember: Callable[[Journal], Coroutine[Any, Any, None]]
    """Makes known again what unfinished sagas from files were made from."""


class _Quiet(uvicorn.Server):
    """One of several in a process, which takes the signals for all of them."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


async def serve(
    listening: Listening,
    *,
    journal: str,
    policy: str | None = None,
    env: str | None = None,
    environments: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
    driving: Driving | None = None,
    ready: Callable[[Sequence[str], str], None],
) -> None:
    """Serve a journal until SIGTERM or SIGINT.

    `ready` is told the addresses, and the one at which whoever runs this may log in, once; '' off loopback.
    """
    require_safe(listening)
    sockets = bind(listening)
    try:
        clock = SystemClock()
        registry = RemoteRegistry(PROCESS, tasks := Tasks(clock, AttemptTokens.of(digest_key(journal))))
        opening = Coordinator.open(
            journal,
            policy=policy,
            env=env,
            environments=environments,
            registry=registry,
            settings=settings,
            signals=False,
        )
        async with opening as coordinator:
            coordinator.leave_driving()
            registry.journal = coordinator.journal
            urls = [_url(listening, one) for one in sockets]
            feed = Feed(coordinator.journal, clock, coordinator.settings.poll_s)
            sessions = OpenSessions(coordinator, tasks, registry, feed, clock)
            served = Served(
                coordinator=coordinator,
                journal=shown(journal),
                url=listening.url or urls[-1],
                environments=environments or {},
                tokens=BearerTokens(coordinator.journal, SystemClock()),
                keys=Keys(coordinator.journal, SystemClock(), coordinator.worker),
                feed=feed,
                tasks=tasks,
                sessions=sessions,
            )
            coordinator.observe(lambda _: feed.stir())
            async with (
                _beside(feed.run()),
                _beside(served.keys.sweep()),
                _beside(sessions.sweep(listening.session_idle_s)),
                _beside(_drive(coordinator, driving)) as driven,
                _running(listening, sockets, served) as logins,
            ):
                ready(urls, _login_url(listening, sockets[-1], logins))
                await _told_to_stop(driven)
                served.stopping.set()
                feed.close()
                await sessions.close()
    finally:
        for one in sockets:
            one.close()
        _remove(listening.socket)


@contextlib.asynccontextmanager
async def _beside(work: Coroutine[Any, Any, None]) -> AsyncGenerator[asyncio.Task[None]]:
    """While this lasts, so does the work."""
    task = asyncio.ensure_future(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})


def require_safe(listening: Listening) -> None:
    """Raises InputError for what would send secrets over a network in clear."""
    if (listening.tls_cert is None) != (listening.tls_key is None):
        raise InputError("TLS takes both: --tls-cert FILE and --tls-key FILE")
    if listening.tls_cert is not None and listening.tls_key is not None:
        _require_pair(listening.tls_cert, listening.tls_key)
    if listening.host is None and listening.socket is None:
        raise InputError("there is nothing to listen on: give --socket PATH, or --host and --port")
    if listening.host is None or listening.tls_cert is not None or listening.behind_proxy:
        return
    if not _is_loopback(listening.host):
        raise InputError(
            f"on {listening.host}, tokens would go over the network in clear: give --tls-cert and --tls-key, or say "
            "--behind-proxy where a proxy with TLS stands before it"
        )


def _require_pair(cert: str, key: str) -> None:
    """Raises InputError for a certificate and a key that cannot be served with."""
    for option, path in (("--tls-cert", cert), ("--tls-key", key)):
        try:
            Path(path).read_bytes()
        except OSError as exc:
            raise InputError(f"{option} {path} cannot be read: {exc.strerror or exc}") from None
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(cert, key, password="")  # and ask nobody
    except (ssl.SSLError, ValueError) as exc:
        why = getattr(exc, "reason", None) or exc
        raise InputError(
            f"--tls-cert {cert} and --tls-key {key} are no certificate with its key, in PEM and without a password: "
            f"{why}"
        ) from None


def _remove(path: str | None) -> None:
    if path is not None:
        Path(path).unlink(missing_ok=True)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def bind(listening: Listening) -> list[socket.socket]:
    """Its sockets, listening. Raises InputError."""
    found: list[socket.socket] = []
    if listening.socket is not None:
        found.append(listen_at(Path(listening.socket), open_to_all=bool(listening.peers)))
    if listening.host is None:
        return found
    try:
        family = socket.AF_INET6 if ":" in listening.host else socket.AF_INET
        tcp = socket.create_server((listening.host, listening.port), family=family)
        # Connections have it from here. Without, the second part of each answer waits 40 ms for a word on the first.
        tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as exc:
        for one in found:
            one.close()
        raise InputError(f"{listening.host}:{listening.port} cannot be listened on: {exc.strerror or exc}") from None
    return [*found, tcp]


def _url(listening: Listening, one: socket.socket) -> str:
    if one.family is socket.AF_UNIX:
        return f"unix://{Path(str(one.getsockname())).absolute()}"
    host, port = one.getsockname()[:2]
    scheme = "https" if listening.tls_cert is not None else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _login_url(listening: Listening, one: socket.socket, logins: Logins) -> str:
    """Where whoever runs the server may log in. By the name localhost: passkeys refuse an address in numbers."""
    if listening.host is None or listening.behind_proxy or not _is_loopback(listening.host):
        return ""
    scheme = "http" if listening.tls_cert is None else "https"
    return f"{scheme}://localhost:{one.getsockname()[1]}/login?once={logins.new_once()}"


@contextlib.asynccontextmanager
async def _running(listening: Listening, sockets: Sequence[socket.socket], served: Served) -> AsyncGenerator[Logins]:
    """While this lasts, requests are answered; when it ends, all that were asked have been."""
    recognise = [served.tokens.recognise, Peers(listening.peers).recognise]
    logins = Logins(served.tokens, SystemClock())
    is_secure = listening.tls_cert is not None or listening.behind_proxy
    pages = console.routes(served, logins, is_secure=is_secure, oidc=listening.oidc, proxy=listening.proxy)
    app = make_app(served, [*_routes(), *pages], recognise=recognise)
    servers = [_Quiet(_config(app, listening, one)) for one in sockets]
    tasks = [asyncio.ensure_future(server.serve(sockets=[one])) for server, one in zip(servers, sockets, strict=True)]
    try:
        while not all(server.started for server in servers):
            for task in tasks:
                if task.done():
                    task.result()
            await SystemClock().sleep(0.01)
        yield logins
    finally:
        for server in servers:
            server.should_exit = True
        await asyncio.gather(*tasks)


def _config(app: Any, listening: Listening, one: socket.socket) -> uvicorn.Config:  # noqa: ANN401 - any ASGI application
    is_tcp = one.family is not socket.AF_UNIX
    return uvicorn.Config(
        app,
        http=PeerProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        h11_max_incomplete_event_size=_LARGEST_HEAD,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=max(1, round(listening.drain_s)),
        ssl_certfile=listening.tls_cert if is_tcp else None,
        ssl_keyfile=listening.tls_key if is_tcp else None,
    )


def _routes() -> list[BaseRoute]:
    return [*health.routes(), *api.routes()]


async def _drive(coordinator: Coordinator, driving: Driving | None) -> None:
    """Drive what is due of the sessions and sagas that this server knows, until cancelled."""
    if driving is not None:
        for one in driving.definitions:
            coordinator.registry.add_definition(one)
        await driving.remember(coordinator.journal)
    await coordinator.work()


async def _told_to_stop(driven: asyncio.Task[None]) -> None:
    """Wait for a signal. Raises whatever keeps the sagas here from being driven: another process may do better."""
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    waiting = asyncio.ensure_future(told.wait())
    try:
        await asyncio.wait({waiting, driven}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            driven.result()
    finally:
        waiting.cancel()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
