"""`amends notify`: tell webhooks, commands and files of approvals, incidents, tree heads."""

from __future__ import annotations

import asyncio
import shlex
import signal
from dataclasses import asdict
from typing import TypedDict, Unpack

import click

from amends.addresses import shown
from amends.cli import session
from amends.cli.groups import Nouns
from amends.cli.journal import opened_to_read
from amends.cli.options import with_journal
from amends.cli.show.output import Output, hint
from amends.clock import SystemClock
from amends.errors import InputError
from amends.evidence.sign.note import HEAD
from amends.notify.command import Command
from amends.notify.courier import Told
from amends.notify.file import NoticeFile
from amends.notify.notice import ASKING, Notice
from amends.notify.progress import MOST_COUNTED, TargetStatus, forget_target, target_statuses
from amends.notify.target import Delivered, Delivery, Target
from amends.notify.webhook import SECRET_ENV, Webhook
from amends.runtime.coordinator.couriers import Couriers
from amends.runtime.settings import Settings
from amends.source.marked import duration_s
from amends.text import counted, moment, visible


@click.group(cls=Nouns, invoke_without_command=True)
@click.option(
    "--webhook",
    "urls",
    metavar="URL",
    multiple=True,
    envvar="AMENDS_WEBHOOK",
    show_envvar=True,
    help="Send a signed POST there; may be given several times.",
)
@click.option(
    "--slack",
    "slack_urls",
    metavar="URL",
    multiple=True,
    help="Send a message as Slack shows it there, to an incoming webhook; may be given several times.",
)
@click.option(
    "--console",
    metavar="URL",
    help="Where the console is: notices then link to their page.",
    default="",
    envvar="AMENDS_CONSOLE",
)
@click.option(
    "--command",
    "commands",
    metavar="WORDS",
    multiple=True,
    help="Start this for each notice, with the notice as JSON on its standard input. Split into words, but given to no "
    "shell; may be given several times.",
)
@click.option(
    "--file",
    "files",
    metavar="PATH",
    multiple=True,
    help="Add a line of JSON there for each notice, of tree heads unless --type says otherwise; may be given several "
    "times.",
)
@click.option(
    "--inherit",
    "inherited",
    metavar="NAME",
    multiple=True,
    help="A variable of the environment that commands see, besides PATH, HOME, LANG and the like; may be given several "
    "times.",
)
@click.option(
    "--secret-env",
    metavar="NAME",
    help="The variable that holds the webhooks' secret: whsec_ and base64.  [default: AMENDS_WEBHOOK_SECRET]",
)
@click.option("--secret-file", metavar="PATH", help="A file of mode 600 that holds it instead.")
@click.option("--name", help="What the target's place in the journal is called; for a single target.")
@click.option(
    "--type",
    "types",
    metavar="TYPE",
    multiple=True,
    help="What they are told of; may be given several times.  "
    "[default: approval.requested, incident.opened, drill.missed]",
)
@click.option(
    "--timeout", "timeout_s", metavar="SECONDS", type=float, help="For one try.  [default: 15, a command: 30]"
)
@click.option(
    "--give-up",
    metavar="AGE",
    default="3d",
    show_default=True,
    help="A notice that is older and cannot be delivered is given up.",
)
@click.option(
    "--heads-every",
    metavar="TIME",
    default="10m",
    show_default=True,
    help="Of a new tree.head they are told at most so often.",
)
@click.option("--allow-private", is_flag=True, help="Let webhooks be in a private network.")
@click.option("--once", is_flag=True, help="Tell what is pending, each notice with one try, and end.")
@with_journal
@click.pass_context
def notify(context: click.Context, *, once: bool, journal: str, as_json: bool, **about: Unpack[_About]) -> int | None:
    """Tell others of new approvals, incidents and tree heads, until told to stop.

    A target that is new is first told what waits for people now. How far each has come is kept in the journal: whatever
    is killed, each notice is delivered, in order, and seldom twice. With --once the exit code is 0 if nothing is left
    to tell and 6 if something is.
    """
    if context.invoked_subcommand is not None:
        _require_no_options(context)
        return None
    targets = _targets(about)
    if not targets:
        raise click.UsageError("name whom to tell: --webhook URL, --slack URL, --command WORDS or --file PATH", context)
    return _tell(targets, journal, once=once, as_json=as_json)


class _About(TypedDict):
    """Options, as they speak of the targets."""

    urls: tuple[str, ...]
    slack_urls: tuple[str, ...]
    console: str
    commands: tuple[str, ...]
    files: tuple[str, ...]
    inherited: tuple[str, ...]
    secret_env: str | None
    secret_file: str | None
    name: str | None
    types: tuple[str, ...]
    timeout_s: float | None
    give_up: str
    heads_every: str
    allow_private: bool


def _targets(about: _About) -> list[Target]:
    give_up_s, types, timeout_s = _age(about["give_up"], "--give-up"), about["types"] or ASKING, about["timeout_s"]
    every_s = _age(about["heads_every"], "--heads-every")
    webhooks = [
        Webhook(
            url,
            secret_env=about["secret_env"] or SECRET_ENV,
            secret_file=about["secret_file"],
            name=about["name"] or "",
            types=types,
            timeout_s=15.0 if timeout_s is None else timeout_s,
            give_up_s=give_up_s,
            heads_every_s=every_s,
            allow_private=about["allow_private"],
            console=about["console"],
            slack=is_slack,
        )
        for is_slack, url in (*((False, url) for url in about["urls"]), *((True, url) for url in about["slack_urls"]))
    ]
    commands = [
        Command(
            _words(command),
            inherit=about["inherited"],
            name=about["name"] or "",
            types=types,
            timeout_s=30.0 if timeout_s is None else timeout_s,
            give_up_s=give_up_s,
            heads_every_s=every_s,
            console=about["console"],
        )
        for command in about["commands"]
    ]
    named, kept = about["name"] or "", about["types"] or (HEAD,)
    files = [
        NoticeFile(
            path,
            name=named,
            types=kept,
            give_up_s=give_up_s,
            heads_every_s=every_s,
            console=about["console"],
        )
        for path in about["files"]
    ]
    return [*webhooks, *commands, *files]


def _require_no_options(context: click.Context) -> None:
    given = click.core.ParameterSource.COMMANDLINE
    for parameter in context.params:
        if context.get_parameter_source(parameter) is given:
            raise click.UsageError(f"write the options of {context.invoked_subcommand} after it", context)


def _age(text: str, option: str) -> float:
    found = duration_s(text)
    if found is None:
        raise InputError(f"{option} {text!r} is no time; write 3d, 12h or 90m")
    return found


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as exc:
        raise InputError(f"--command cannot be split into words: {exc}") from None


# -- telling ----------------------------------------------------------------------------------------------------------


def _tell(targets: list[Target], address: str, *, once: bool, as_json: bool) -> int:
    async def whole() -> int:
        async with opened_to_read(address) as opened:
            couriers = Couriers(opened, targets, SystemClock(), Settings(), told=_told(Output(as_json=as_json)))
            if once:
                return session.DONE if await couriers.once() else session.NOT_OVER
            couriers.start()
            try:
                await _until_terminated(f"telling {len(targets)} of what is new in {shown(address)}; Ctrl-C stops")
            finally:
                await couriers.close()
            return session.TERMINATED

    return session.finish(whole())


async def _until_terminated(hello: str) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    hint(visible(hello))
    await stop.wait()


def _told(out: Output) -> Told:
    def told(target: Target, notice: Notice, delivery: Delivery) -> None:
        is_told = isinstance(delivery, Delivered)
        why = "" if isinstance(delivery, Delivered) else delivery.why
        fields = {"id": notice.id, "about": notice.about, "target": target.name, "delivered": is_told, "why": why}
        out.record("notice", {"notice": notice.type, **fields})
        end = ("told", "green") if is_told else (f"not told: {visible(why)}", "red")
        what = f"{notice.type} {visible(notice.about)}  {visible(target.shown)}  "
        out.say((f"{moment(notice.at)}  ", "dim"), what, end)

    return told


# -- looking ----------------------------------------------------------------------------------------------------------


@notify.command()
@with_journal
def status(*, journal: str, as_json: bool) -> None:
    """Show how far each target has come, what is pending, and what went wrong last."""
    out = Output(as_json=as_json)

    async def whole() -> None:
        async with opened_to_read(journal) as opened:
            size = (await opened.tree()).size
            found = await target_statuses(opened)
            for place, one in enumerate(found):
                if place:
                    out.say()
                _show(out, one, size)
            if not found:
                out.say("nobody was ever told anything")

    asyncio.run(whole())


def _show(out: Output, status: TargetStatus, size: int) -> None:
    about, since = status.progress, status.pending_since
    waits = {"pending": status.pending, "pending_since": since}
    out.record("target", {"name": status.name, **asdict(about), **waits, "size": size})
    out.say(("target      ", "dim"), (visible(status.name), "bold"), f"  {visible(about.target)}")
    out.say(("told of     ", "dim"), ", ".join(about.types))
    out.say(("position    ", "dim"), f"{about.position} of {size}")
    if about.head:
        out.say(("tree head   ", "dim"), f"of {about.head} entries, {moment(about.head_at)}")
    out.say(("last told   ", "dim"), moment(about.delivered_at) if about.delivered_at else "never")
    more = "or more" if status.pending == MOST_COUNTED else ""
    waiting = "nothing" if since is None else f"{status.pending} {more}".strip() + f", since {moment(since)}"
    out.say(("pending     ", "dim"), waiting)
    if about.tries:
        tries = counted(about.tries, "try", "tries")
        last = f"{tries}, last {moment(about.failed_at)}, again {moment(about.again_at)}: "
        out.say(("failing     ", "dim"), last, (visible(about.error), "red"))
    if about.given_up:
        out.say(("given up    ", "dim"), f"{about.given_up}, last ", (visible(about.given_up_last), "red"))


@notify.command()
@click.argument("name", metavar="TARGET")
@with_journal
def forget(*, name: str, journal: str, as_json: bool) -> None:
    """Forget a target that nobody tells any more; told again, it is new."""

    async def whole() -> None:
        async with opened_to_read(journal) as opened:
            await forget_target(opened, name)

    asyncio.run(whole())
    Output(as_json=as_json).record("forgotten", {"name": name})
