"""`amends action`: what modules and files declare, and what it promises."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Final

import click

from amends.cli.groups import Nouns, show_help
from amends.cli.journal import drilled_on
from amends.cli.modules import is_file, load_modules
from amends.cli.options import common, require_named, with_journal, with_targets
from amends.cli.show.output import Output
from amends.cli.show.policy import tell_coverage
from amends.core.words.contracts import Contract, Reversibility, described
from amends.errors import SagaFileError, UnknownActionError
from amends.runtime.declare.action import Action
from amends.runtime.declare.registry import PROCESS
from amends.sagafile import load_saga
from amends.source.marked import nearest
from amends.text import counted, spelled, visible

FAILED: Final = 1


@click.group(cls=Nouns, invoke_without_command=True)
@click.pass_context
def action(context: click.Context) -> None:
    """Look at actions, and check what they promise."""
    show_help(context)


@action.command("list")
@with_targets
@click.option("--undeclared", is_flag=True, help="Only those that say neither how they are taken back nor why not.")
@with_journal
def list_actions(*, targets: tuple[str, ...], undeclared: bool, journal: str, as_json: bool) -> int:
    """List the actions that modules and YAML files declare.

    The MODULEs are looked for in the working directory too, last. With --undeclared, the exit code is 1 if there is
    one: a check for CI.
    """
    out = Output(as_json=as_json)
    with out.kept_clean():
        found = declared_actions(targets)
    contracts = [each.contract for each in found]
    if undeclared:
        contracts = [each for each in contracts if each.side_effect and each.reversibility is Reversibility.UNDECLARED]
    if undeclared and not contracts:
        out.say("every action says how it is taken back, or why it cannot be")
        return 0
    tell_coverage(out, contracts, asyncio.run(drilled_on(journal)))
    return FAILED if undeclared else 0


@action.command()
@click.argument("topic", metavar="TOPIC")
@with_targets
@common
def show(*, topic: str, targets: tuple[str, ...], as_json: bool) -> None:
    """Show one action's whole contract: all that it promises, and what takes it back."""
    out = Output(as_json=as_json)
    with out.kept_clean():
        found = declared_actions(targets)
    matching = [each for each in found if each.topic == topic]
    if not matching:
        right = nearest(topic, [str(each.topic) for each in found])
        hint = f"did you mean {right}?" if right else "`amends action list` shows those that there are"
        raise UnknownActionError(f"no action {topic!r} is declared there; {hint}")
    for each in matching:
        contract = described(each.contract)
        out.record("action", {"contract": contract})
        for name, value in contract.items():
            if value not in (None, "", []):
                out.say((f"{name:<16}", "dim"), visible(value) if isinstance(value, str) else spelled(value, 200))
        for what, said in advice(each.contract):
            out.say((f"{what:<16}", "yellow"), said)


@action.command()
@with_targets
@common
def check(*, targets: tuple[str, ...], as_json: bool) -> int:
    """Check what modules and YAML files declare.

    All mistakes of a YAML file are told, with their lines and the nearest right words. Of each action, it is told what
    will hurt: no way back and no reason, no probe where a lost attempt could not be settled otherwise. The exit code is
    1 if a file has a mistake or an action is undeclared.
    """
    require_named(targets)
    out, wrong = Output(as_json=as_json), 0
    for target in targets:
        try:
            with out.kept_clean():
                found = declared_actions([target])
        except SagaFileError as exc:
            wrong += len(exc.mistakes)
            for mistake in exc.mistakes:
                out.record("mistake", {"target": target, "mistake": mistake})
                out.say(visible(mistake))
            continue
        for each in found:
            for what, said in advice(each.contract):
                wrong += what == "undeclared"
                out.record("advice", {"target": target, "topic": each.topic, "what": what, "advice": said})
                out.say((f"{visible(str(each.topic)):<24}  ", "bold"), (f"{what:<12}", _STYLES[what]), said)
        actions = counted(len(found), "action")
        out.record("checked", {"target": target, "actions": len(found)})
        out.say(f"{visible(target)}: {actions}")
    return FAILED if wrong else 0


_STYLES: Final = {"undeclared": "bold red", "unprobed": "yellow", "unkeyed": "yellow"}


def advice(contract: Contract) -> Iterator[tuple[str, str]]:
    """Weak points of a contract that will hurt one day, each as a word and what to do about it."""
    if not contract.side_effect:
        return
    if contract.reversibility is Reversibility.UNDECLARED:
        yield "undeclared", "say how it is taken back (a compensation), or why it cannot be (no_rollback)"
    if not contract.probe and not contract.idempotent and not contract.atomic:
        settled = (
            "a person is called" if contract.reversibility is not Reversibility.COMPENSATABLE else "it is taken back"
        )
        yield "unprobed", f"a lost attempt cannot be settled, so {settled}; add a probe, or make it idempotent"


def declared_actions(targets: Sequence[str]) -> list[Action[..., Any]]:
    """The actions that these modules and files declare, by topic. Raises UsageError where none is named."""
    require_named(targets)
    for target in targets:
        if is_file(target):
            load_saga(target)
        else:
            load_modules([target])
    return sorted(PROCESS.actions(), key=lambda each: (each.topic, each.contract.version))
