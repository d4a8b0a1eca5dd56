"""`amends policy`: check, explain, test, replay, coverage, adopt, show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import click

from amends.cli import configured
from amends.cli.options import Nouns, author, common, show_help, with_author, with_journal, with_modules

if TYPE_CHECKING:
    from amends.core.values import Json

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
    from amends.cli import judged
    from amends.cli.output import Output
    from amends.errors import PolicyError
    from amends.evidence.timeline import visible
    from amends.gate.explain import never_speaking
    from amends.gate.load import load_policy

    out = Output(as_json=as_json)
    try:
        loaded = load_policy(file)
    except PolicyError as exc:
        for mistake in exc.mistakes:
            out.record("mistake", {"text": mistake})
            click.echo(visible(mistake), err=True)
        return REFUSED
    judged.tell_policy(out, loaded, never_speaking(loaded))
    return 0


@policy.command()
@_file
@click.option("--facts", "described", metavar="JSON|@FILE|-", required=True, help="The facts: JSON, a file, or stdin.")
@common
def explain(*, file: str, described: str, as_json: bool) -> None:
    """Say what a policy makes of some facts, and why.

    The facts are named as in rules, flat or nested: {"env": "production", "topic": "mail.send", "args.to": "ann"}.
    """
    from amends.cli import judged
    from amends.cli.inputs import read_document, read_policy
    from amends.cli.output import Output
    from amends.errors import InputError
    from amends.gate.described import described_facts
    from amends.gate.environments import placed
    from amends.gate.explain import heard
    from amends.gate.policy import judge

    loaded = read_policy(file)
    document = read_document(described, option="--facts")
    if not isinstance(document, dict):
        raise InputError('--facts is an object, such as {"env": "production", "topic": "mail.send"}')
    facts = described_facts(cast("dict[str, Json]", document))
    facts = placed(facts, facts.env, loaded, configured.environments())
    judged.tell_verdict(Output(as_json=as_json), judge(loaded, facts), heard(loaded, facts))


@policy.command("test")
@_file
@click.argument("cases", metavar="CASES")
@common
def try_cases(*, file: str, cases: str, as_json: bool) -> int:
    """Try a policy on the cases of a file: facts, and the verdict that each should get.

    The exit code is 0 if all get it and 1 if one does not.
    """
    from amends.cli import judged
    from amends.cli.inputs import read_policy
    from amends.cli.output import Output
    from amends.evidence.texts import counted
    from amends.gate.cases import parse_cases
    from amends.gate.load import read_policy_file

    loaded, out = read_policy(file), Output(as_json=as_json)
    failed, found = 0, parse_cases(read_policy_file(cases), name=cases)
    for case in found:
        passed, verdict = case.tried(loaded, configured.environments())
        failed += not passed
        judged.tell_case(out, cases, case, verdict, passed=passed)
    out.record("summary", {"cases": len(found), "failed": failed})
    out.say(f"{counted(len(found), 'case')}, ", (f"{failed} failed", "bold red") if failed else ("all passed", "green"))
    return FAILED if failed else 0


@policy.command()
@_file
@click.option("--since", metavar="WHEN", required=True, help="From then on: 7d, 12h, 2026-03-31, or with a time.")
@click.option("--until", metavar="WHEN", help="Up to then.  [default: now]")
@with_journal
def replay(*, file: str, since: str, until: str | None, journal: str, as_json: bool) -> None:
    """Judge what past sagas did by a policy, and show what it would have changed.

    Sagas that started in the time given are read; nothing is written. How long ago an action was drilled is not on
    record, and counts as unknown. A time without an offset is local.
    """
    import asyncio

    from amends.cli import judged
    from amends.cli.inputs import read_moment, read_policy
    from amends.cli.output import Output
    from amends.cli.session import opened_to_read
    from amends.clock import SystemClock

    loaded, now = read_policy(file), SystemClock().now()
    begin = read_moment(since, "--since", now)
    end = now if until is None else read_moment(until, "--until", now)

    async def whole() -> None:
        async with opened_to_read(journal) as opened:
            await judged.tell_replay(Output(as_json=as_json), opened, loaded, begin, end)

    asyncio.run(whole())


@policy.command()
@with_modules
@with_journal
def coverage(*, modules: tuple[str, ...], journal: str, as_json: bool) -> None:
    """List the actions that modules declare: which are undeclared, irreversible, or never drilled.

    The MODULEs are looked for in the working directory too, last. An action counts as drilled when it passed, under
    the contract that it has now, and the journal says so.
    """
    import asyncio

    from amends.cli import judged
    from amends.cli.modules import load
    from amends.cli.output import Output
    from amends.runtime.registry import PROCESS

    out = Output(as_json=as_json)
    with out.kept_clean():
        load(modules)
    drilled = asyncio.run(judged.drilled_on(journal))
    contracts = [each.contract for each in PROCESS.actions() if not each.topic.startswith("amends.")]
    judged.tell_coverage(out, contracts, drilled)


@policy.command()
@_file
@click.option("--why", required=True, help="The reason, as it goes on record.")
@with_author
@with_journal
def adopt(*, file: str, why: str, by: str | None, journal: str, as_json: bool) -> None:
    """Have a policy judge from now on, in every process on this journal.

    For a person. Its text goes on record, with who adopted it and why; the file is not read again. Running processes
    take it up within a second or so. What people were asked under the policy before no longer counts, and is judged
    again.
    """
    from amends.bootstrap import Coordinator, journal_file
    from amends.cli import judged
    from amends.cli.inputs import read_policy
    from amends.cli.output import Output
    from amends.cli.session import finish
    from amends.errors import InputError

    if not why.strip():
        raise InputError("--why is empty; say why the policy changes")
    if journal_file(journal) is None:
        raise InputError("a journal in memory is gone with its process; give --journal the path of a file")
    loaded, who = read_policy(file), author(by)

    async def whole() -> bool:
        async with Coordinator.open(journal, settings=configured.settings()) as coordinator:
            return await coordinator.adopt(file, by=who, why=why)

    judged.tell_adopted(Output(as_json=as_json), loaded, who, why, is_new=finish(whole()))


@policy.command()
@with_journal
def show(*, journal: str, as_json: bool) -> None:
    """Show the policy that judges now: its digest, who adopted it, when and why, and its text."""
    import asyncio

    from amends.cli import judged
    from amends.cli.output import Output
    from amends.cli.session import opened_to_read

    async def whole() -> None:
        async with opened_to_read(journal) as opened:
            await judged.tell_in_force(Output(as_json=as_json), opened)

    asyncio.run(whole())
