"""`amends policy`: policies, checked, tried, adopted and explained."""

from __future__ import annotations

import asyncio
from typing import Final, cast

import click

from amends.addresses import is_kept
from amends.cli import config
from amends.cli.groups import Nouns, show_help
from amends.cli.inputs import read_document, read_moment, read_policy
from amends.cli.journal import coordinator_at, drilled_on, opened_to_read
from amends.cli.modules import load_modules
from amends.cli.options import author, common, with_author, with_journal, with_modules
from amends.cli.session import finish
from amends.cli.show.output import Output
from amends.cli.show.policy import (
    tell_adopted,
    tell_case,
    tell_coverage,
    tell_in_force,
    tell_policy,
    tell_replay,
    tell_verdict,
)
from amends.cli.signing import proved, with_signature
from amends.clock import SystemClock
from amends.core.words.values import BUILT_IN, Json
from amends.errors import InputError, PolicyError
from amends.gate.cases import parse_cases
from amends.gate.described import described_facts
from amends.gate.environments import placed
from amends.gate.explain import heard, never_speaking
from amends.gate.load import load_policy, read_policy_file
from amends.gate.policy import judge
from amends.runtime.declare.registry import PROCESS
from amends.text import counted, visible

FAILED: Final = 1
REFUSED: Final = 2

_file = click.argument("file", metavar="FILE")


@click.group(cls=Nouns, invoke_without_command=True)
@click.pass_context
def policy(context: click.Context) -> None:
    """Check policies, try them, adopt one, and see which judges."""
    show_help(context)


@policy.command()
@_file
@common
def check(*, file: str, as_json: bool) -> int:
    """Say whether a policy can be used, and what is wrong with it if not.

    Every mistake is told with its line. Rules that can never have an effect are warned of. The exit code is 0 for a
    policy that can be used and 2 for one that cannot.
    """
    out = Output(as_json=as_json)
    try:
        loaded = load_policy(file)
    except PolicyError as exc:
        for mistake in exc.mistakes:
            out.record("mistake", {"text": mistake})
            click.echo(visible(mistake), err=True)
        return REFUSED
    tell_policy(out, loaded, never_speaking(loaded))
    return 0


@policy.command()
@_file
@click.option("--facts", "described", metavar="JSON|@FILE|-", required=True, help="The facts: JSON, a file, or stdin.")
@common
def explain(*, file: str, described: str, as_json: bool) -> None:
    """Say what a policy makes of some facts, and why.

    The facts are named as in rules, flat or nested: {"env": "production", "topic": "mail.send", "args.to": "ann"}.
    """
    loaded = read_policy(file)
    document = read_document(described, option="--facts")
    if not isinstance(document, dict):
        raise InputError('--facts is an object, such as {"env": "production", "topic": "mail.send"}')
    facts = described_facts(cast("dict[str, Json]", document))
    facts = placed(facts, facts.env, loaded, config.environments())
    tell_verdict(Output(as_json=as_json), judge(loaded, facts), heard(loaded, facts))


@policy.command("test")
@_file
@click.argument("cases", metavar="CASES")
@common
def try_cases(*, file: str, cases: str, as_json: bool) -> int:
    """Try a policy on the cases of a file: facts, and the verdict that each should get.

    The exit code is 0 if all get it and 1 if one does not.
    """
    loaded, out = read_policy(file), Output(as_json=as_json)
    failed, found = 0, parse_cases(read_policy_file(cases), name=cases)
    for case in found:
        passed, verdict = case.tried(loaded, config.environments())
        failed += not passed
        tell_case(out, cases, case, verdict, passed=passed)
    out.record("summary", {"cases": len(found), "failed": failed})
    out.say(f"{counted(len(found), 'case')}, ", (f"{failed} failed", "bold red") if failed else ("all passed", "green"))
    return FAILED if failed else 0


@policy.command()
@_file
@click.option(
    "--since",
    metavar="WHEN",
    required=True,
    help="From then on: 7d, 12h, 2026-03-31 (in UTC), or a time with its zone.",
)
@click.option("--until", metavar="WHEN", help="Up to then.  [default: now]")
@with_journal
def replay(*, file: str, since: str, until: str | None, journal: str, as_json: bool) -> None:
    """Judge what past sagas did by a policy, and show what it would have changed.

    Sagas that started in the time given are read; nothing is written. How long ago an action was drilled is not on
    record, and counts as unknown. A time without an offset is local.
    """
    loaded, now = read_policy(file), SystemClock().now()
    begin = read_moment(since, "--since", now)
    end = now if until is None else read_moment(until, "--until", now)

    async def whole() -> None:
        async with opened_to_read(journal) as opened:
            await tell_replay(Output(as_json=as_json), opened, loaded, begin, end)

    asyncio.run(whole())


@policy.command()
@with_modules
@with_journal
def coverage(*, modules: tuple[str, ...], journal: str, as_json: bool) -> None:
    """List the actions that modules declare: which are undeclared, irreversible, or never drilled.

    The MODULEs are looked for in the working directory too, last. An action counts as drilled when it passed, under
    the contract that it has now, and the journal says so.
    """
    out = Output(as_json=as_json)
    with out.kept_clean():
        load_modules(modules)
    drilled = asyncio.run(drilled_on(journal))
    contracts = [each.contract for each in PROCESS.actions() if not each.topic.startswith(BUILT_IN)]
    tell_coverage(out, contracts, drilled)


@policy.command()
@_file
@click.option("--why", required=True, help="The reason, as it goes on record.")
@with_author
@with_signature
@with_journal
def adopt(*, file: str, why: str, by: str | None, ssh_key: str | None, journal: str, as_json: bool) -> None:
    """Have a policy judge from now on, in every process on this journal.

    For a person. Its text goes on record, with who adopted it and why; the file is not read again. Running processes
    take it up within a second or so. What people were asked under the policy before no longer counts, and is judged
    again.
    """
    if not why.strip():
        raise InputError("--why is empty; say why the policy changes")
    if not is_kept(journal):
        raise InputError("a journal in memory is gone with its process; give --journal the path of a file")
    loaded, who = read_policy(file), author(by, journal)

    async def whole() -> bool:
        async with coordinator_at(journal) as coordinator:
            return await proved(
                lambda proof: coordinator.adopt(file, by=who, why=why, proof=proof),
                coordinator.roster,
                who=who,
                ssh_key=ssh_key,
            )

    tell_adopted(Output(as_json=as_json), loaded, who, why, is_new=finish(whole()))


@policy.command()
@with_journal
def show(*, journal: str, as_json: bool) -> None:
    """Show the policy that judges now: its digest, who adopted it, when and why, and its text."""

    async def whole() -> None:
        async with opened_to_read(journal) as opened:
            await tell_in_force(Output(as_json=as_json), opened)

    asyncio.run(whole())
