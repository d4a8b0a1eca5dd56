"""How one approval looks: everything that a person should see before they answer, and whose words each part is.

Nothing of the arguments is left out or cut, and every character that a terminal would act upon, or that could not be
seen, stands as its escape.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, cast

from amends.cli.show.hints import command
from amends.cli.show.output import Output, Part
from amends.cli.show.timeline import diff_lines, tell_line, time_left, widths
from amends.core.transitions import ApprovalStatus
from amends.core.words.values import Json, canonical
from amends.evidence.story.timeline import OWN_DECISION, Line
from amends.runtime.coordinator.people import Approval, lacking
from amends.text import counted, lines_of, moment, visible

_STATUSES: Final = {
    ApprovalStatus.REQUESTED: "yellow",
    ApprovalStatus.GRANTED: "green",
    ApprovalStatus.USED: "green",
    ApprovalStatus.REFUSED: "bold red",
    ApprovalStatus.EXPIRED: "bold red",
    ApprovalStatus.VOID: "dim",
}
_LATEST: Final = 20
_SHORT: Final = 12


def is_open(asked: Approval) -> bool:
    return asked.status == ApprovalStatus.REQUESTED


def tell_approval(out: Output, asked: Approval, now: int, journal: str) -> None:
    """All of it, and how to answer."""
    for name, fact in _facts(asked, now):
        _fact(out, name, fact)
    _tell_action(out, asked)
    _tell_way_back(out, asked)
    _tell_reason(out, asked)
    _tell_past(out, asked.so_far, command(journal, "saga", "show", asked.saga))
    out.say()
    _fact(out, "digest", asked.digest)
    if is_open(asked):
        grant = command(journal, "approval", "grant", asked.id, "--digest", asked.digest)
        refuse = command(journal, "approval", "refuse", asked.id, "--why", "TEXT")
        _fact(out, "grant", (visible(grant), "cyan"))
        _fact(out, "refuse", (visible(refuse), "cyan"))


def tell_granted(out: Output, asked: Approval, by: str, resume: str) -> None:
    """`resume` is the command that goes on."""
    name = f"approval {visible(asked.id)}"
    if is_open(asked):
        out.say(f"{name} has the agreement of {visible(by)}; still lacking: ", (visible(lacking(asked)), "yellow"))
    else:
        own = f" ({OWN_DECISION})" if by in asked.own else ""
        out.say(f"{name} ", ("granted", "green"), f" by {visible(by)}{own}")
        out.say(f"  its saga goes on where a process drives it; where none does: {visible(resume)}")


def _fact(out: Output, name: str, fact: Part) -> None:
    out.say((f"{name:<12}", "dim"), fact)


def _taken_for(asked: Approval) -> str:
    taken = asked.shown.get("taken_for") if isinstance(asked.shown, dict) else None
    return f", taken for {visible(taken)}" if isinstance(taken, str) else ""


def _facts(asked: Approval, now: int) -> Iterator[tuple[str, Part]]:
    yield "approval", (visible(asked.id), "bold")
    yield "status", (asked.status, _STATUSES[ApprovalStatus(asked.status)])
    yield "saga", f"{visible(asked.saga)}, {visible(asked.definition)}, in {visible(asked.env)}{_taken_for(asked)}"
    yield "asked for", f"by {visible(asked.requester)}, {moment(asked.requested_at)}{_again(asked)}"
    yield "agreed", visible(", ".join(_signed(asked))) or "nobody so far"
    if is_open(asked):
        yield "lacking", (visible(lacking(asked)), "yellow")
        yield "time left", f"{time_left(asked.expires_at, now)}, until {moment(asked.expires_at)}"


def _signed(asked: Approval) -> Iterator[str]:
    for by in asked.signers:
        yield f"{by} ({OWN_DECISION})" if by in asked.own else by


def _again(asked: Approval) -> str:
    times = _part(asked.shown, "request")
    return f"; asked {times} times, and only the last counts" if isinstance(times, int) and times > 1 else ""


def _tell_action(out: Output, asked: Approval) -> None:
    contract = _part(asked.shown, "contract")
    risk = cast("list[str]", _part(contract, "risk") or [])
    _heading(out, "what will happen")
    out.say("  ", (visible(asked.topic), "bold"), f", version {_part(asked.shown, 'version')}")
    out.say(f"  {_part(contract, 'reversibility')}", f"; risk: {visible(', '.join(risk))}" if risk else "")
    out.say(f"  its author says: {_quoted(asked.does)}")
    out.say("  arguments, as the agent gave them:")
    diff = _part(asked.args, "diff")
    args = asked.args
    if isinstance(diff, str) and isinstance(args, dict):
        args = {**args, "diff": f"{counted(len(lines_of(diff)), 'line')}, below"}
    for line in json_lines(args, depth=2):
        out.say((line, "cyan"))
    if asked.before_at is not None:
        out.say(f"  there now, by its before-image, {moment(asked.before_at)}:")
        for line in json_lines(asked.before, depth=2):
            out.say((line, "cyan"))
    if isinstance(diff, str):
        _tell_diff(out, diff)


def _tell_diff(out: Output, diff: str) -> None:
    """As lines, each made visible: what it says is the agent's, and none of it may move a cursor."""
    out.say("  what it changes:")
    for line, style in diff_lines(diff):
        out.say((f"    {line}", style))


def _tell_way_back(out: Output, asked: Approval) -> None:
    _heading(out, "what would take it back")
    if asked.no_rollback is not None:
        out.say(("  nothing", "red"), f"; its author says why: {_quoted(asked.no_rollback)}")
        if asked.mitigates:
            out.say(f"  a person may have it mitigated; its author says: {_quoted(asked.undoes)}")
    elif asked.undoes:
        out.say(f"  its compensation; its author says: {_quoted(asked.undoes)}")
    elif _part(_part(asked.shown, "contract"), "side_effect") is False:
        out.say("  it changes nothing")
    else:
        out.say(("  nothing is declared", "red"))


def _tell_reason(out: Output, asked: Approval) -> None:
    _heading(out, "why people are asked")
    out.say(f"  rule {visible(asked.rule)} of policy {visible(asked.policy[:_SHORT])}")
    if asked.why:
        out.say(f"  {visible(asked.why)}")


def _tell_past(out: Output, lines: tuple[Line, ...], whole: str) -> None:
    _heading(out, "what has happened so far")
    if len(lines) > _LATEST:
        out.say(f"  … {counted(len(lines) - _LATEST, 'line')} before: {visible(whole)}")
    width = widths(lines[-_LATEST:])
    for line in lines[-_LATEST:]:
        tell_line(out, line, width, "  ")


def _heading(out: Output, text: str) -> None:
    out.say()
    out.say((text, "bold"))


def _quoted(text: str) -> str:
    return f'"{visible(text)}"' if text else "nothing"


def _part(value: Json, name: str) -> Json:
    return value.get(name) if isinstance(value, dict) else None


# -- values as they are -----------------------------------------------------------------------------------------------


def json_lines(value: Json, *, lead: str = "", tail: str = "", depth: int = 0) -> Iterator[str]:
    """A value as canonical JSON, with a line for each part of it."""
    indent = "  " * depth
    if isinstance(value, dict) and value:
        names = sorted(value, key=lambda name: name.encode("utf-16-be"))
        yield f"{indent}{lead}{{"
        yield from _inside(((f"{visible(canonical(name))}: ", value[name]) for name in names), len(names), depth + 1)
        yield f"{indent}}}{tail}"
    elif isinstance(value, list) and value:
        yield f"{indent}{lead}["
        yield from _inside((("", item) for item in value), len(value), depth + 1)
        yield f"{indent}]{tail}"
    else:
        yield f"{indent}{lead}{visible(canonical(value))}{tail}"


def _inside(parts: Iterable[tuple[str, Json]], count: int, depth: int) -> Iterator[str]:
    for place, (lead, value) in enumerate(parts, start=1):
        yield from json_lines(value, lead=lead, tail="," if place < count else "", depth=depth)
