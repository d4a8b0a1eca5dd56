"""`amends mcp`: a gateway before MCP servers, so that what an agent does with their tools can be taken back."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import shutil
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from amends.cli import config
from amends.cli.groups import Nouns, show_help
from amends.cli.options import common, with_journal, with_policy
from amends.cli.show.output import Output, hint
from amends.errors import InputError
from amends.text import counted, visible

if TYPE_CHECKING:
    from amends.gateway.model import Contracts

SESSION: Final = "AMENDS_SESSION"
CONTRACTS: Final = "AMENDS_CONTRACTS"
_EXTRA: Final = "MCP servers and clients are spoken to by the extra mcp; install it: pip install 'amends[mcp]'"
_PATIENCE_S: Final = 1.5
"""So long servers may take to end after SIGTERM: who sent it sends SIGKILL soon, and then nobody would end them."""
_GENERIC: Final = frozenset({"", "run", "exec", "index", "dist", "src", "lib", "bin", "build", "main", "server", "mcp"})
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
    require_extra()
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
    require_extra()
    from amends.gateway.read import load_contracts

    read = load_contracts(file)
    if not read.servers:
        raise InputError(f"{file} names no servers; write them under servers:")
    _serve(read, session=session, http=None if stdio else (host, port), **given)


@mcp.command(context_settings={"ignore_unknown_options": True})
@click.option("--name", metavar="NAME", help="The server's name in topics; otherwise as the command says.")
@click.option("--trusted", is_flag=True, help="Believe what the server says of its own tools.")
@click.option("--out", metavar="FILE", help="Write it there, where nothing is yet, and not to stdout.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@common
def scan(*, name: str | None, trusted: bool, out: str | None, command: tuple[str, ...], as_json: bool) -> None:
    """Draft a contracts file from how a server, which COMMAND starts, describes its tools. None of them is called.

    COMMAND may be an address, http://… or https://…. Every line says what it was guessed from; what is in doubt is a
    comment, or a question.
    """
    require_extra()
    from amends.gateway.model import ServerPlan
    from amends.gateway.scan import scan as scanned

    _log_to_stderr()
    is_url = len(command) == 1 and command[0].startswith(("http://", "https://"))
    plan = ServerPlan(
        name=name or name_of_command(command),
        line=0,
        command=() if is_url else command,
        url=command[0] if is_url else "",
        trusted=trusted,
        whole_env=True,
    )
    text = scanned(plan)
    told = Output(as_json=as_json)
    told.record("draft", {"server": plan.name, "text": text})
    if out is None:
        told.say(text.rstrip("\n"))
        return
    try:
        with Path(out).open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as exc:
        raise InputError(f"{out} cannot be written: {exc.strerror}") from None
    told.say(f"wrote {out}")


@mcp.command(context_settings={"ignore_unknown_options": True})
@click.argument("client", type=click.Choice(["claude-code", "cursor", "vscode"]))
@click.option("--name", metavar="NAME", help="The server's name in the client; otherwise as the command says.")
@click.option("--contracts", metavar="FILE", help="How each tool is taken back.")
@click.option("--file", metavar="FILE", help="The client's configuration; otherwise that of this directory.")
@click.option("--write", is_flag=True, help="Write it, and keep what was there.")
@click.option("--undo", is_flag=True, help="Put back what was there before.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@common
def install(
    *,
    client: str,
    name: str | None,
    contracts: str | None,
    file: str | None,
    write: bool,
    undo: bool,
    command: tuple[str, ...],
    as_json: bool,
) -> None:
    """Put the gateway before a server in a client's configuration: print what to write there, or write it.

    COMMAND starts the server. Without it, --name says which of the client's servers is meant.
    """
    from amends.gateway import install as installing

    out, kind = Output(as_json=as_json), installing.CLIENTS[client]
    at = Path(file or kind.file)
    if undo:
        told = installing.undo(at, kind)
        out.record("undone", {"file": str(at)})
        out.say(told)
        return
    before: dict[str, Any] | None = None
    if not command:
        if name is None:
            raise InputError("name the server, with --name, or give the command that starts it, after --")
        found, before = installing.command_of(at, kind, name)
        command = tuple(found)
    called = name or name_of_command(command)
    options = ["--name", name_of_command((called,))]
    if contracts is not None:
        if not Path(contracts).is_file():
            raise InputError(f"there is no file {contracts}; `amends mcp scan --out {contracts} -- COMMAND` drafts one")
        options = ["--contracts", os.path.abspath(contracts)]  # noqa: PTH100 - without .., and links left as they are
    made = installing.entry(kind, [*_own_command(), "mcp", "wrap", *options], command, before)
    out.record("entry", {"file": str(at), "key": kind.key, "name": called, "entry": made})
    if not write:
        out.say(json.dumps({kind.key: {called: made}}, indent=2, ensure_ascii=False))
        hint(f"this belongs into {at}; --write writes it there")
        return
    installing.write(at, kind, called, made)
    out.say(f"wrote {at}; `amends mcp install {client} --undo` puts back what was there")


@mcp.command()
@with_journal
def report(*, journal: str, as_json: bool) -> None:
    """Say, by topic, what came through a gateway: how often, what takes it back, and what was let pass in observe mode
    that the policy would have denied or asked people about.
    """
    from amends.cli.journal import opened_to_read
    from amends.gateway.report import observed

    out = Output(as_json=as_json)

    async def whole() -> None:
        async with opened_to_read(journal) as opened:
            found = await observed(opened)
        for one in found:
            verdicts = dict(one.verdicts)
            out.record(
                "topic",
                {
                    "topic": one.topic,
                    "calls": one.calls,
                    "reversibility": one.reversibility,
                    "unseen": one.unseen,
                    "would": verdicts,
                },
            )
            would = "; ".join(f"{count} times {what}" for what, count in sorted(verdicts.items()))
            told = f"{visible(one.topic)}: {counted(one.calls, 'call')}, {one.reversibility}"
            told += f"; of {one.unseen} nobody saw what was there before" if one.unseen else ""
            out.say(told + (f"; the policy would have said: {visible(would)}" if would else ""))
        if not found:
            out.say("nothing came through a gateway")

    asyncio.run(whole())


def _own_command() -> list[str]:
    """The command of this program, as another one can start it."""
    found = shutil.which("amends")
    return [sys.executable, "-m", "amends"] if found is None else [found]


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

    _run(whole())


def _run(whole: Coroutine[Any, Any, None]) -> None:
    """Run it to its end; at SIGTERM, until all is left and no server is left behind. Then end as the process would."""
    is_told = False

    def end(task: asyncio.Task[None]) -> None:
        nonlocal is_told
        is_told = True
        task.cancel()
        task.get_loop().call_later(_PATIENCE_S, task.cancel)

    async def watched() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None  # noqa: S101 - the one that this runs in
        loop.add_signal_handler(signal.SIGTERM, end, task)
        await whole

    try:
        asyncio.run(watched())
    except asyncio.CancelledError:
        if not is_told:
            raise
    if is_told:
        signal.raise_signal(signal.SIGTERM)


def _altered(of: Any, **fields: Any) -> Any:  # noqa: ANN401 - one of the gateway's own
    from dataclasses import replace

    return replace(of, **fields)


def _log_to_stderr() -> None:
    """Tell what goes wrong where clients look for a server's log; stdout belongs to the protocol."""
    logging.basicConfig(
        stream=sys.stderr, level=os.environ.get("AMENDS_LOG", "WARNING").upper(), format="%(name)s: %(message)s"
    )


def require_extra() -> None:
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
        for part in reversed(word.split("/")):
            last = re.sub(r"\.(?:js|mjs|cjs|py|ts)$", "", part.partition("@")[0].lower()).rpartition(".")[2]
            found = None if word.startswith("-") or last in _GENERIC else _PACKAGE.match(last)
            if found is not None:
                return found[1][:32]
    return "server"
