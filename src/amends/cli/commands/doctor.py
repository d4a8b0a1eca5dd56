"""`amends doctor`: is everything as it should be, and if not, what to do about it."""

from __future__ import annotations

import asyncio
from typing import Final

import click

from amends.cli import config
from amends.cli.groups import JOURNAL_BEFORE
from amends.cli.modules import load_modules
from amends.cli.options import with_journal, with_modules
from amends.cli.show.output import Output
from amends.cli.signing import with_root
from amends.errors import InputError
from amends.operate.findings import Checkup, HealthFinding
from amends.operate.health import examine
from amends.text import visible

FAILED: Final = 1
_STYLES: Final = {"ok": "green", "look": "yellow", "wrong": "bold red"}


class _Doctor(click.Command):
    """A command that is wanted where others refuse: a configuration that is not believed is one of its findings."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with config.forgiving():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        with config.forgiving():
            return super().invoke(ctx)


@click.command(cls=_Doctor)
@with_modules
@click.option(
    "--policy",
    metavar="FILE",
    default=config.policy,
    envvar="AMENDS_POLICY",
    show_envvar=True,
    help="Say whether this policy can be read, and is the one in force; it is not adopted.",
)
@with_root
@with_journal
@click.pass_context
def doctor(context: click.Context, *, modules: tuple[str, ...], policy: str | None, journal: str, as_json: bool) -> int:
    """Check the journal, the clock, file rights, what is left unfinished, the chain, and the actions of modules.

    Each line says what was found, and below it what to do, where something should be done. The exit code is 1 if
    something is wrong.
    """
    out, found = Output(as_json=as_json), list[HealthFinding]()
    try:
        with out.kept_clean():
            load_modules(modules)
    except InputError as exc:
        if modules != config.modules():
            raise
        found.append(HealthFinding(name="modules", state="wrong", found=str(exc), do="mend it, or name another there"))
    found += asyncio.run(
        examine(
            Checkup(
                address=journal,
                policy=policy,
                how_journal=_how(context, "journal"),
                how_policy=_how(context, "policy"),
                group=config.journal_group(),
                refused=config.config_refusal(),
                root=config.root(),
            )
        )
    )
    for each in found:
        out.record("check", {"name": each.name, "state": each.state, "found": each.found, "do": each.do})
        left = (f"{each.state:<6}", _STYLES[each.state]), (f"{each.name:<10}", "bold")
        out.say_beside(left, visible(each.found))
        if each.do:
            out.say_beside((f"{'':16}→ ",), (visible(each.do), "yellow"))
    wrong = sum(each.state == "wrong" for each in found)
    looks = sum(each.state == "look" for each in found)
    out.record("summary", {"checks": len(found), "wrong": wrong, "look": looks})
    out.say()
    out.say(f"{len(found)} checks: {wrong} wrong, {looks} to look at")
    return FAILED if wrong else 0


def _how(context: click.Context, name: str) -> str:
    """Where an option's value came from, in words."""
    source = context.get_parameter_source(name)
    if source is click.core.ParameterSource.COMMANDLINE or (name == "journal" and JOURNAL_BEFORE in context.meta):
        return f"from --{name}"
    if source is click.core.ParameterSource.ENVIRONMENT:
        return f"from AMENDS_{name.upper()}"
    found = config.configured()
    return f"from {found.file}" if name in found.says else "by default"
