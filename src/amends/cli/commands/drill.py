"""`amends drill`: rehearse a saga with injected failures, and show as a matrix whether the world comes back."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, cast

import click

from amends.addresses import is_there, open_journal
from amends.cli import config
from amends.cli.inputs import read_input
from amends.cli.journal import opened_to_read
from amends.cli.modules import find_function, find_saga, is_file, load_modules
from amends.cli.options import with_input, with_journal
from amends.cli.session import finish
from amends.cli.show.output import Output, Part
from amends.clock import SystemClock
from amends.core.words.values import Json, SagaId
from amends.drill import Cell, Fault, Mark, Report, drill as rehearse
from amends.drill.faults import BACK, FORWARD, OF_SAGA, TITLES
from amends.drill.page import junit, page
from amends.drill.records import has_changed, record_of
from amends.errors import InputError
from amends.evidence.drills import DrillRecord, drills_on_record, record_drill
from amends.gate.facts import Gate
from amends.gate.load import BuiltinGate, load_policy
from amends.gate.policy import PolicyGate
from amends.gateway.read import is_contracts_file, load_contracts
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.declare.registry import PROCESS
from amends.runtime.drive.policies import Policies
from amends.text import counted, visible

F = TypeVar("F", bound=Callable[..., Any])
FAILED: Final = 1
_TITLE_WIDTH: Final = 36
_CELL_WIDTH: Final = 12
_MOST_PLACES: Final = 6
_DOUBLES: Final = ("fresh", "world", "modules")


def _with_doubles(command: F) -> F:
    """How a drill gets on with what it acts on."""
    options = (
        click.option("--fresh", metavar="MODULE:FUNCTION", help="Called before each run, to put doubles as they were."),
        click.option("--world", metavar="MODULE:NAME|DIR", help="What it looks like: compared when all is back."),
        click.option("--with", "modules", metavar="MODULE", multiple=True, help="A module to import as well."),
        click.option(
            "--patience",
            type=click.FloatRange(0.01, 3600),
            default=5.0,
            show_default=True,
            metavar="SECONDS",
            help="After so long a call counts as hanging.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _with_reports(command: F) -> F:
    options = (
        click.option("--junit", "junit_file", metavar="FILE", help="Write JUnit's XML as well."),
        click.option("--html", "html_file", metavar="FILE", help="Write one page of HTML as well."),
        click.option("--strict", is_flag=True, help="What is not proven counts as failed."),
        click.option("--no-record", is_flag=True, help="Do not put the result in the journal."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@click.argument("target", metavar="[MODULE:SAGA|FILE]", required=False)
@with_input
@click.option("--session", "session_id", metavar="ID", help="In place of a saga: what this session of the journal did.")
@click.option("--changed", is_flag=True, help="Only what has changed since it was last drilled, with the input it had.")
@click.option("--only", metavar="FAULT|STEP:FAULT", multiple=True, help="Only this; may be given several times.")
@click.option("--quick", is_flag=True, help="The fewest runs in which every compensation works once: for a schedule.")
@click.option("--env", default="drill", show_default=True, help="Where it runs, as the gate is told.")
@click.option("--allow-production", is_flag=True, help="Let --env be production.")
@click.option("--policy", "policy_file", metavar="FILE", help="The gate's policy.  [default: the journal's]")
@click.option("--actor", default="system:drill", show_default=True, help="On whose behalf it runs.")
@_with_doubles
@_with_reports
@with_journal
def drill(
    *,
    target: str | None,
    document: str | None,
    session_id: str | None,
    changed: bool,
    **options: Any,  # noqa: ANN401 - as click gives them
) -> int:
    """Run a saga once for each place where it can go wrong, and ask the world.

    Everything is done for real, many times over, against whatever the saga's code talks to: doubles, or a staging
    system. Each step fails, is lost, is cancelled; each compensation fails, hangs, is denied, is repeated; and the
    process ends after each write and each effect. Then the actions' probes are asked. With --quick there are three
    runs: as it is, taken back, and failing for good at the last step.

    With --session it is what an agent's session did: the steps of it that stand, with their arguments, one after
    another. The modules of its actions are named by --with, and the result is not put in the journal.

    A contracts file of a gateway is drilled by trying each tool's inverse on a scratch instance of its server.

    The exit code is 0 if nothing failed (what could not be seen is told as not proven) and 1 if something did.
    """
    out = Output(as_json=bool(options["as_json"]))
    if options["quick"] and changed:
        raise InputError("what has changed needs a whole drill: leave out either --quick or --changed")
    if session_id is not None:
        if target is not None or changed:
            raise InputError("name either a saga, or --session with the id of one, or --changed")
        return _drill_session(out, session_id, options)
    if target is None and not changed:
        raise InputError("name a saga to drill, as in trip:book_trip; or --changed for what was drilled before")
    if target is not None and is_file(target) and is_contracts_file(target):
        return _drill_tools(out, target, strict=bool(options["strict"]))
    with out.kept_clean():
        load_modules(cast("tuple[str, ...]", options["modules"]))
        due = _changed(target, document, options) if changed else [(cast("str", target), document, options)]
        load_modules([module for _, _, each in due for module in each["modules"]])
        reports = [_one(out, find_saga(name), name, given, each) for name, given, each in due]
        _write(reports, options)
    if not reports:
        out.record("unchanged", {"target": target})
        what = "no saga on record" if target is None else visible(target)
        out.say(f"nothing to drill: {what} has {'' if target is None else 'not '}changed since its last drill")
    return max((_code(report, strict=bool(options["strict"])) for report in reports), default=0)


def _drill_session(out: Output, saga: str, options: dict[str, Any]) -> int:
    """Drill what a session did, with modules of its actions known."""
    from amends.drill.session import recorded
    from amends.operate.reading import load

    async def whole() -> SagaDefinition[[], None]:
        async with opened_to_read(options["journal"]) as opened:
            return recorded(await load(opened, SagaId(saga)), PROCESS)

    with out.kept_clean():
        load_modules(cast("tuple[str, ...]", options["modules"]))
        report = _one(out, finish(whole()), saga, None, {**options, "no_record": True})
        _write([report], options)
    return _code(report, strict=bool(options["strict"]))


def _code(report: Report, *, strict: bool) -> int:
    return FAILED if report.mark is Mark.FAILED or (strict and not report.passed) else 0


# -- drilling ---------------------------------------------------------------------------------------------------------


def _one(out: Output, definition: SagaDefinition, target: str, document: object, options: dict[str, Any]) -> Report:
    """Drill one saga, and show the matrix."""
    if isinstance(document, _Given):
        given = _still_fits(definition, target, document.document)
    else:
        given = read_input(cast("str | None", document), options["input_as"])
    report = finish(_drilled(out, definition, target, given, options))
    tell(out, report)
    return report


def _still_fits(definition: SagaDefinition, target: str, document: object) -> object:
    """The input of an earlier drill. Raises InputError where the saga takes another one by now."""
    try:
        definition.bind_document(document)
    except InputError as exc:
        raise InputError(
            f"{visible(target)} does not take the input of its last drill: {exc}; drill it once without --changed"
        ) from None
    return document


def _write(reports: Sequence[Report], options: dict[str, Any]) -> None:
    """Write the files that were asked for: one for all that was drilled."""
    if reports and options["junit_file"]:
        Path(options["junit_file"]).write_text(junit(*reports), encoding="utf-8")
    if reports and options["html_file"]:
        Path(options["html_file"]).write_text(page(*reports), encoding="utf-8")


async def _drilled(
    out: Output, definition: SagaDefinition, target: str, given: object, options: dict[str, Any]
) -> Report:
    from rich.text import Text  # JSON needs no rich

    clock, console = SystemClock(), None if out.as_json else out.console
    drilling = f"drilling {visible(definition.name)}"
    waiting = contextlib.nullcontext() if console is None else console.status(Text(drilling))

    def count(runs: int, of: int | None) -> None:
        if waiting_at is not None:
            far = counted(runs, "run") if of is None else f"run {runs} of {of}"
            waiting_at.update(Text(f"{drilling}: {far}"))

    with waiting as waiting_at:
        report = await rehearse(
            definition,
            given,
            env=options["env"],
            gate=await _gate(options["policy_file"], options["journal"]),
            actor=options["actor"],
            fresh=None if options["fresh"] is None else find_function(options["fresh"], "--fresh"),
            world=_world(options["world"]),
            patience_s=options["patience"],
            only=options["only"],
            quick=options["quick"],
            allow_production=options["allow_production"],
            environments=config.environments(),
            on_run=count,
        )
    if not options["no_record"]:
        journal = await open_journal(options["journal"], clock, journal_group=config.journal_group())
        try:
            drilled = record_of(report, target, {name: _plain(options[name]) for name in _DOUBLES if options[name]})
            await record_drill(journal, clock, drilled, by=options["actor"], env=options["env"])
        finally:
            await journal.close()
    return report


async def _gate(policy_file: str | None, journal: str) -> Gate:
    """By the policy that is named, else by the one that was adopted on the journal, else by the built-in one."""
    if policy_file is not None:
        return PolicyGate(load_policy(policy_file))
    clock = SystemClock()
    if not is_there(journal):
        return BuiltinGate()
    opened = await open_journal(journal, clock, journal_group=config.journal_group(), signs=False)
    try:
        policies = Policies(opened, clock, poll_s=0.0)
        await policies.refresh()
        return PolicyGate(policies.policy)
    finally:
        await opened.close()


def _plain(given: object) -> Json:
    return [str(each) for each in cast("Sequence[str]", given)] if isinstance(given, tuple) else str(given)


def _world(named: str | None) -> Callable[..., object] | None:
    """A function of the user's, or a look at a directory."""
    if named is not None and Path(named).is_dir():
        return partial(directory_contents, named)
    return None if named is None else find_function(named, "--world")


def _changed(
    target: str | None, document: str | None, options: dict[str, Any]
) -> list[tuple[str, object, dict[str, Any]]]:
    """Drills on record whose saga is not the same any more, with the input and the doubles that it was drilled with."""

    async def newest() -> dict[str, DrillRecord]:
        found: dict[str, DrillRecord] = {}
        async with opened_to_read(options["journal"]) as opened:
            async for drilled in drills_on_record(opened):
                if not drilled.only and not drilled.quick:
                    found.setdefault(drilled.target, drilled)
        return found

    on_record = asyncio.run(newest())
    if target is not None and target not in on_record:
        return [(target, document, options)]
    wanted = on_record.values() if target is None else [on_record[target]]
    return [
        (drilled.target, _Given(drilled.input), {**options, **_doubles(drilled, options)})
        for drilled in wanted
        if has_changed(drilled, find_saga(drilled.target), PROCESS)
    ]


class _Given(NamedTuple):
    """An input that is a document already, and no text."""

    document: object


def _doubles(drilled: DrillRecord, options: dict[str, Any]) -> dict[str, Any]:
    """Doubles that it was drilled with, but for what is named now."""
    before = {name: drilled.doubles[name] for name in _DOUBLES if name in drilled.doubles and not options[name]}
    return {name: tuple(map(str, given)) if isinstance(given, list) else given for name, given in before.items()}


# -- showing ----------------------------------------------------------------------------------------------------------


def tell(out: Output, report: Report) -> None:
    for cell in report.cells:
        out.record("cell", cell_fields(report, cell))
    wide = _cell_width(out, report)
    for start, width in _chunks(out, report):
        _head(out, report, start, width, wide)
        _rows(out, report, "the action", FORWARD, start, width, wide)
        _rows(out, report, "its compensation", BACK, start, width, wide)
        out.say()
    whole = [found for fault in OF_SAGA if (found := report.cell(fault)) is not None]
    if whole:
        out.say(("the saga", "bold"))
    for cell in whole:
        out.say(*_title(cell.fault), *_shown(cell, wide))
    if whole:
        out.say()
    for mark in (Mark.FAILED, Mark.NOT_PROVEN):
        _findings(out, report, mark)
    for name, told in report.notes:
        out.say_beside((f"{name:<10}  ",), visible(told))
    _summary(out, report)


def _cell_width(out: Output, report: Report) -> int:
    """Wide enough for the topics, where a terminal has the room."""
    if not out.is_terminal or not report.steps:
        return _CELL_WIDTH
    longest = max(len(step.title) for step in report.steps) + 2
    return max(_CELL_WIDTH, min(longest, (out.console.width - _TITLE_WIDTH) // len(report.steps)))


def _chunks(out: Output, report: Report) -> list[tuple[int, int]]:
    """As many steps beside each other as the terminal is wide."""
    room = 4 if out.as_json else max(1, (out.console.width - _TITLE_WIDTH) // _CELL_WIDTH)
    return [(start, min(room, len(report.steps) - start)) for start in range(0, len(report.steps), room)]


def _head(out: Output, report: Report, start: int, width: int, wide: int) -> None:
    steps = report.steps[start : start + width]
    lead = f"{visible(report.saga)} in {visible(report.env)}" if start == 0 else ""
    topics = [visible(step.title) for step in steps]
    out.say((f"{lead:<{_TITLE_WIDTH}}", "bold"), *(f"{step.id:<{wide}}" for step in steps))
    if max(map(len, topics)) >= wide:  # on two lines: orders. and below it reserve
        above = [f"{space}." if space else "" for space, _, _ in (topic.rpartition(".") for topic in topics)]
        out.say(" " * _TITLE_WIDTH, *((f"{_cut(part, wide):<{wide}}", "dim") for part in above))
        topics = [topic.rpartition(".")[2] for topic in topics]
    out.say(" " * _TITLE_WIDTH, *((f"{_cut(part, wide):<{wide}}", "dim") for part in topics))


def _cut(text: str, wide: int) -> str:
    return text if len(text) < wide else f"{text[: wide - 2]}…"


def _rows(
    out: Output, report: Report, heading: str, faults: Sequence[Fault], start: int, width: int, wide: int
) -> None:
    shown = [fault for fault in faults if fault in report.faults]
    if shown:
        out.say((heading, "bold"))
    for fault in shown:
        cells = [report.cell(fault, step.id) for step in report.steps[start : start + width]]
        out.say(*_title(fault), *(part for cell in cells for part in _shown(cell, wide)))


def _title(fault: Fault) -> tuple[Part, ...]:
    return (f"  {TITLES[fault]:<{_TITLE_WIDTH - 2}}",)


def _shown(cell: Cell | None, wide: int) -> tuple[Part, ...]:
    if cell is None:
        return ((f"{'-':<{wide}}", "dim"),)
    return ((f"{cell.mark:<{wide}}", _style(cell.mark)),)


def _style(mark: Mark) -> str:
    return {"passed": "green", "not proven": "yellow", "failed": "bold red"}[mark]


def _findings(out: Output, report: Report, mark: Mark) -> None:
    for finding, cells in report.findings(mark):
        places = [str(cell.place) for cell in cells]
        more = f" and {len(places) - _MOST_PLACES} more" if len(places) > _MOST_PLACES else ""
        out.say_beside(((f"{mark:<10}  ", _style(mark)),), visible(str(finding)))
        out.say_beside((f"{'':<10}  ",), (f"in {', '.join(places[:_MOST_PLACES])}{more}", "dim"))


def _summary(out: Output, report: Report) -> None:
    counts = report.counts()
    fields = {
        "saga": report.saga,
        "version": report.version,
        "env": report.env,
        "kind": report.kind,
        "outcome": report.mark,
        "runs": report.runs,
        "children": list(report.children),
        "covered": [{"step": step, "by": by} for step, by in report.covered],
        **{mark.replace(" ", "_"): count for mark, count in counts.items()},
    }
    out.record("summary", fields)
    told = [(f"{count} {mark}", _style(mark) if count else "dim") for mark, count in counts.items()]
    cells = counted(len(report.cells), "cell")
    out.say(f"{cells}, {counted(report.runs, 'run')}: ", told[0], ", ", told[1], ", ", told[2])


def cell_fields(report: Report, cell: Cell) -> dict[str, object]:
    return {
        "step": cell.step or None,
        "topic": report.topic_of(cell.step) or None,
        "fault": cell.fault,
        "outcome": cell.mark,
        "runs": cell.runs,
        "ended": cell.ended,
        "findings": [
            {"step": each.step or None, "topic": each.topic or None, "outcome": each.mark, "text": each.text}
            for each in cell.findings
        ],
    }


_LEFT_OUT: Final = frozenset({".git", "__pycache__"})
"""They keep what was, and have no way back."""


def directory_contents(directory: str) -> dict[str, str]:
    """Files, links and folders by their path, each with what it is; but for what changesets keep for themselves."""
    root, found = Path(directory), dict[str, str]()
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT and not name.endswith(".changesets"))
        for name in [*folders, *sorted(files)]:
            path = Path(folder) / name
            found[path.relative_to(root).as_posix()] = _what(path)
    return found


def _what(path: Path) -> str:
    if path.is_symlink():
        return f"a link to {path.readlink()}"
    if path.is_dir():
        return "a folder"
    if not path.is_file():
        return "something else"
    may_run = ", may be executed" if os.access(path, os.X_OK) else ""
    return f"sha256 {hashlib.sha256(path.read_bytes()).hexdigest()[:16]}{may_run}"


def _drill_tools(out: Output, file: str, *, strict: bool) -> int:
    """Try the inverses of the tools of a contracts file; the exit code."""
    from amends.cli.commands.mcp import require_extra

    require_extra()
    from amends.gateway.drill import ToolDrill, drill_tools

    contracts = load_contracts(file)

    async def whole() -> list[ToolDrill]:
        found: list[ToolDrill] = []
        async for one in drill_tools(contracts):
            out.record("tool", {"topic": one.topic, "result": one.result, "why": one.why})
            out.say(f"{visible(one.topic):<{_TITLE_WIDTH}} {one.result}" + (f": {visible(one.why)}" if one.why else ""))
            found.append(one)
        return found

    found = finish(whole())
    proven = sum(one.is_proven for one in found)
    out.say(f"{counted(proven, 'inverse')} of {len(found)} proven exact")
    return FAILED if any(one.has_failed or (strict and not one.is_proven) for one in found) else 0
