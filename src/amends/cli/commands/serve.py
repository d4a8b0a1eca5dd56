"""`amends serve`: the server between agents and the journal."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from amends.cli import config
from amends.cli.modules import is_file, load_modules, read_saga_file
from amends.cli.options import with_journal, with_policy, with_targets
from amends.cli.session import remember
from amends.cli.show.output import Output
from amends.cli.sign_on import sign_on, with_sign_on
from amends.cli.signing import with_root
from amends.errors import InputError

_EXTRA: Final = "a server needs the extra serve; install it: pip install 'amends[serve]'"


@click.command()
@click.option("--socket", "socket_path", metavar="PATH", help="Listen at this Unix socket, which names its callers.")
@click.option("--host", metavar="HOST", help="Listen here too, with tokens.  [default: 127.0.0.1 without --socket]")
@click.option("--port", type=click.IntRange(0, 65535), default=8722, show_default=True, help="0 takes a free one.")
@click.option(
    "--peer",
    "peers",
    metavar="USER=SCOPES",
    multiple=True,
    help="What a user of this machine may at the socket, as in anna=view,decide.",
)
@click.option("--tls-cert", metavar="FILE", type=click.Path(), help="The certificate, with its chain, in PEM.")
@click.option("--tls-key", metavar="FILE", type=click.Path(), help="Its key.")
@click.option("--behind-proxy", is_flag=True, help="A proxy with TLS stands before it: listen off loopback without.")
@click.option("--url", metavar="URL", help="Where people reach it, for links and single sign-on.")
@with_sign_on
@click.option("--drain", metavar="SECONDS", type=float, default=10.0, show_default=True, help="How long to end well.")
@click.option(
    "--session-idle",
    metavar="SECONDS",
    type=click.FloatRange(min=1),
    default=900.0,
    show_default=True,
    help="Let a session go whose client has gone for so long.",
)
@click.option("--env", metavar="NAME", default=config.env, envvar="AMENDS_ENV", show_envvar=True, help="Where it runs.")
@with_policy
@with_targets
@with_root
@with_journal
def serve(  # noqa: PLR0913 - one for each option
    *,
    socket_path: str | None,
    host: str | None,
    port: int,
    peers: tuple[str, ...],
    tls_cert: str | None,
    tls_key: str | None,
    behind_proxy: bool,
    url: str | None,
    drain: float,
    session_idle: float,
    env: str | None,
    policy: str | None,
    targets: tuple[str, ...],
    journal: str,
    as_json: bool,
    **named_by: Any,  # noqa: ANN401 - as `with_sign_on` has them
) -> None:
    """Own a journal for others: take their commands, judge, decide and append.

    Run it as a user of its own: then neither agents nor people have to be able to open the journal. Agents are known by
    tokens (`amends token create`), users of this machine by their login, at the socket. SIGTERM ends it in order.

    The sagas of each MODULE and FILE can be started through it, and are driven here; those of others are driven by
    whoever has their code.
    """
    try:
        from amends.http.peers import peer_scopes
        from amends.http.serve import Driving, Listening, serve as run_server
    except ImportError as exc:
        raise InputError(f"{_EXTRA} ({exc})") from None

    logging.basicConfig(
        stream=sys.stderr, level=os.environ.get("AMENDS_LOG", "WARNING").upper(), format="%(name)s: %(message)s"
    )
    out = Output(as_json=as_json)
    oidc, proxy = sign_on(url=url, behind_proxy=behind_proxy, **named_by)
    listening = Listening(
        host=host or (None if socket_path else "127.0.0.1"),
        port=port,
        socket=socket_path,
        tls_cert=tls_cert,
        tls_key=tls_key,
        behind_proxy=behind_proxy,
        peers=peer_scopes(peers),
        drain_s=drain,
        session_idle_s=session_idle,
        url=url or "",
        oidc=oidc,
        proxy=proxy,
    )
    with out.kept_clean():
        load_modules([one for one in targets if not is_file(one)])
        files = [read_saga_file(one) for one in targets if is_file(one)]
    asyncio.run(
        run_server(
            listening,
            journal=journal,
            policy=policy,
            env=env,
            environments=config.environments(),
            settings=config.settings(),
            driving=Driving(definitions=files, remember=remember) if targets else None,
            ready=lambda urls, login: _tell_ready(out, urls, login),
        )
    )


def _tell_ready(out: Output, urls: Sequence[str], login: str) -> None:
    out.record("serving", {"urls": list(urls), "login": login or None})
    for url in urls:
        out.say(f"serving at {url}")
    if login:
        out.say(f"the console, to log in once within an hour: {login}")
    sys.stdout.flush()
