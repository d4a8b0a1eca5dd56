"""`amends mcp`: a gateway before MCP servers, so that what an agent does with their tools can be taken back."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from amends.cli import config
from amends.cli.groups import Nouns, show_help
from amends.cli.options import with_journal, with_policy
from amends.cli.show.output import Output
from amends.errors import InputError

if TYPE_CHECKING:
    from amends.gateway.model import Contracts

SESSION: Final = "AMENDS_SESSION"
CONTRACTS: Final = "AMENDS_CONTRACTS"
_EXTRA: Final = "MCP servers and clients are spoken to by the extra mcp; install it: pip install 'amends[mcp]'"
_PACKAGE: Final = re.compile(r"(?:mcp[-_])?(?:server[-_])?([a-z0-9][a-z0-9_-]*?)(?:[-_](?:mcp|server))*$")


@click.group(cls=Nouns, invoke_without_command=True)
@click.pass_context
def mcp(context: click.Context) -> None:
    """Stand before MCP servers: each call of a tool is judged, on record, and can be taken back."""
    show_help(context)


def _with_gateway(command: Any) -> Any:  # noqa: ANN401 - a decorator of click's
    session = click.option(
        "--session",
        metavar="ID",
        envvar=SESSION,
        show_envvar=True,
        help="The saga that the calls belong to; otherwise a new one for each process.",
    )
    env = click.option(
        "--env", metavar="NAME", default=config.env, envvar="AMENDS_ENV", show_envvar=True, help="Where it runs."
    )
    actor = click.option("--actor", metavar="WHO", default="agent:mcp", show_default=True, help="In whose name.")
    mode = click.option(
        "--mode",
        type=click.Choice(["observe", "enforce"]),
        help="Let everything pass, or judge. Otherwise as the file says.",
    )
    return session(env(actor(mode(with_policy(with_journal(command))))))


@mcp.command(context_settings={"ignore_unknown_options": True})
@click.option("--contracts", metavar="FILE", envvar=CONTRACTS, show_envvar=True, help="How each tool is taken back.")
@click.option("--name", metavar="NAME", help="The server's name in topics; otherwise as the file or the command says.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@_with_gateway
def wrap(
    *,
    contracts: str | None,
    name: str | None,
    command: tuple[str, ...],
    session: str | None,
    **given: Any,  # noqa: ANN401 - the options of every gateway
) -> None:
    """Stand before one server, which COMMAND starts: over stdin and stdout, as the server itself would be.

    Put it before the command in the configuration of the client. The server is given this process's environment.
    """
    _require_extra()
    from amends.gateway.model import ServerPlan, without_contracts
    from amends.gateway.read import load_contracts

    read = without_contracts(()) if contracts is None else load_contracts(contracts)
    called = _server_name(name, read, command)
    plan = ServerPlan(name=called, line=0, command=command, whole_env=True)
    known = read.servers.get(called)
    if known is not None:
        plan = _altered(known, command=command, url="", whole_env=True)
    _serve(_altered(read, servers={called: plan}), session=session, **given)


@mcp.command()
@click.argument("file")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where it listens.")
@click.option("--port", type=int, default=8765, show_default=True, help="Where it listens; 0 takes a free one.")
@click.option("--stdio", is_flag=True, help="Serve one client over stdin and stdout, and nobody over HTTP.")
@_with_gateway
def serve(*, file: str, host: str, port: int, stdio: bool, session: str | None, **given: Any) -> None:  # noqa: ANN401 - as above
    """Stand before the servers that FILE names, over streamable HTTP at /mcp/SAGA, or over stdin and stdout."""
    _require_extra()
    from amends.gateway.read import load_contracts

    read = load_contracts(file)
    if not read.servers:
        raise InputError(f"{file} names no servers; write them under servers:")
    _serve(read, session=session, http=None if stdio else (host, port), **given)


def _serve(
    contracts: Contracts,
    *,
    session: str | None,
    journal: str,
    policy: str | None,
    env: str | None,
    actor: str,
    mode: str | None,
    as_json: bool,
    http: tuple[str, int] | None = None,
) -> None:
    from amends.clock import SystemClock
    from amends.gateway.serve import open_gateway, serve_http, serve_stdio

    _log_to_stderr()
    clock = SystemClock()

    def new_saga() -> str:
        return f"mcp-{clock.new_id()}"

    is_own = not session and http is None
    saga = new_saga() if is_own else session or ""
    out = Output(as_json=as_json)

    def ready(where: str) -> None:
        out.record("serving", {"url": where})
        out.say(f"serving at {where}")

    if mode is not None:
        contracts = _altered(contracts, mode=mode)

    async def whole() -> None:
        async with open_gateway(
            contracts,
            journal=journal,
            policy=policy,
            env=env,
            environments=config.environments(),
            settings=config.settings(),
            saga=saga,
            actor=actor,
            next_saga=new_saga if is_own else None,
        ) as gateway:
            if http is None:
                await serve_stdio(gateway)
            else:
                await serve_http(gateway, *http, ready)

    asyncio.run(whole())


def _altered(of: Any, **fields: Any) -> Any:  # noqa: ANN401 - one of the gateway's own
    from dataclasses import replace

    return replace(of, **fields)


def _log_to_stderr() -> None:
    """Tell what goes wrong where clients look for a server's log; stdout belongs to the protocol."""
    logging.basicConfig(
        stream=sys.stderr, level=os.environ.get("AMENDS_LOG", "WARNING").upper(), format="%(name)s: %(message)s"
    )


def _require_extra() -> None:
    try:
        import mcp as _  # noqa: F401 - whether it is there
    except ImportError as exc:
        raise InputError(f"{_EXTRA} ({exc})") from None


def _server_name(name: str | None, contracts: Contracts, command: tuple[str, ...]) -> str:
    """The name of the one server that is wrapped."""
    if name is not None:
        return name
    if len(contracts.servers) == 1:
        return next(iter(contracts.servers))
    spoken = {one.topic.partition(".")[0] for one in contracts.clauses}
    if len(spoken) == 1:
        return next(iter(spoken))
    if contracts.clauses or contracts.servers:
        raise InputError(f"{contracts.file} speaks of several servers; say which one this is, with --name")
    return name_of_command(command)


def name_of_command(command: tuple[str, ...]) -> str:
    """A server's name, made of the command that starts it: `filesystem` of `npx @x/server-filesystem /data`."""
    for word in command[1:] or command:
        last = word.rpartition("/")[2].partition("@")[0].lower()
        last = re.sub(r"\.(?:js|mjs|cjs|py|ts)$", "", last)
        if (
            not word.startswith("-")
            and last not in {"run", "exec", "index", "dist"}
            and (found := _PACKAGE.match(last))
        ):
            return found[1][:32]
    return "server"
