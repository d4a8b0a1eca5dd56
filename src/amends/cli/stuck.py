"""How one incident looks: what happened, what may stand, what was tried, who sees to it, and what can be done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from amends.cli.hints import options_for
from amends.cli.looks import line_parts, moment, widths
from amends.cli.options import command
from amends.cli.output import Output
from amends.core.events import IncidentCommented, IncidentKind, IncidentResolved, IncidentRetried
from amends.core.plan import unmitigated
from amends.core.saga import Saga
from amends.evidence.timeline import Direction, spelled_args, timeline, visible
from amends.evidence.who import OWN_DECISION
from amends.journal.protocol import Entry, IncidentRow

_LATEST: Final = 12
_K = IncidentKind

_HAPPENED: Final[Mapping[IncidentKind, str]] = {
    _K.COMPENSATION_MISSING: "the step has to be taken back, and nothing is declared that could",
    _K.COMPENSATION_DENIED: "the step has to be taken back, and the gate does not let its compensation run",
    _K.COMPENSATION_FAILED: "the compensation failed, and is not tried again by itself",
    _K.COMPENSATION_TIMED_OUT: "the compensation did not come to an end in time, and is not tried again by itself",
    _K.MITIGATION_MISSING: "the step cannot be taken back, and the process that should mitigate it does not know how",
    _K.MITIGATION_DENIED: "the step cannot be taken back, and the gate does not let its mitigation run",
    _K.MITIGATION_FAILED: "the step cannot be taken back; its mitigation failed, and is not tried again by itself",
    _K.MITIGATION_TIMED_OUT: "the step cannot be taken back, and its mitigation did not come to an end in time",
    _K.OUTCOME_UNKNOWN: "nobody knows whether the step took effect, and nothing is left that could tell",
    _K.EFFECT_DOUBLED: "the step was done again, and then its first attempt landed: its effect may stand twice",
    _K.CHANGED_SINCE: "somebody changed it since, so the compensation did not overwrite it",
    _K.PAST_PIVOT: "the work failed after a step that cannot be taken back, so all of it stays as it is",
    _K.DIVERGED: "the saga's function asks for something else than the journal remembers",
    _K.LIMIT_REACHED: "the saga has reached a limit",
    _K.CALLED: "the work came to a place where its definition calls a person",
    _K.RELEASE_FAILED: "the work is done, and a step that was held until then could not be done",
    _K.VERIFICATION_FAILED: "the work is done, and an assertion that it has to meet does not hold",
}

MODULES: Final = "{modules}"
"""Where the module goes that a command has to name."""
_AGAIN: Final = ("incident", "retry", "{id}", MODULES)
_MITIGATE: Final = ("incident", "retry", "{id}", "--mitigate", MODULES)
_LET_RUN: Final = ("incident", "retry", "{id}", "--let-run", MODULES)
_VOUCH: Final = ("incident", "resolve", "{id}", "--reason", "TEXT", "--proof", "TEXT", MODULES)
_CANCEL: Final = ("saga", "cancel", "{saga}", MODULES)
_ASSIGN: Final = ("incident", "assign", "{id}", "--owner", "person:NAME")
_Way = tuple[str, tuple[str, ...]]

_BY_HAND: Final[_Way] = ("take it back by hand, then say so, with where that can be seen:", _VOUCH)
_MITIGATED_BY_HAND: Final[_Way] = ("do something about it by hand, then say so, with where that can be seen:", _VOUCH)
_WITH_MITIGATION: Final[_Way] = ("take the saga back, and mitigate what cannot be taken back:", _MITIGATE)
_LEAVE: Final[_Way] = ("leave it open for now, with somebody who sees to it:", _ASSIGN)
_WAYS: Final[Mapping[IncidentKind, tuple[_Way, ...]]] = {
    _K.COMPENSATION_MISSING: (
        ("try again with the module that declares the compensation:", _AGAIN),
        _BY_HAND,
        _LEAVE,
    ),
    _K.COMPENSATION_DENIED: (
        ("let the compensation run, against the gate and in your name:", _LET_RUN),
        ("have it judged again, once the policy has changed:", _AGAIN),
        _BY_HAND,
        _LEAVE,
    ),
    _K.COMPENSATION_FAILED: (("mend the cause, then try again:", _AGAIN), _BY_HAND, _LEAVE),
    _K.COMPENSATION_TIMED_OUT: (("mend the cause, then try again:", _AGAIN), _BY_HAND, _LEAVE),
    _K.MITIGATION_MISSING: (
        ("try again with the module that declares the mitigation:", _AGAIN),
        _MITIGATED_BY_HAND,
        _LEAVE,
    ),
    _K.MITIGATION_DENIED: (
        ("let the mitigation run, against the gate and in your name:", _LET_RUN),
        ("have it judged again, once the policy has changed:", _AGAIN),
        _MITIGATED_BY_HAND,
        _LEAVE,
    ),
    _K.MITIGATION_FAILED: (("mend the cause, then try again:", _AGAIN), _MITIGATED_BY_HAND, _LEAVE),
    _K.MITIGATION_TIMED_OUT: (("mend the cause, then try again:", _AGAIN), _MITIGATED_BY_HAND, _LEAVE),
    _K.OUTCOME_UNKNOWN: (
        ("ask the world again:", _AGAIN),
        ("look for yourself and put it right, then say so, with where that can be seen:", _VOUCH),
        _LEAVE,
    ),
    _K.EFFECT_DOUBLED: (
        ("look whether it stands twice and take one back by hand, then say so:", _VOUCH),
        _LEAVE,
    ),
    _K.CHANGED_SINCE: (
        ("try again; the compensation looks at it anew:", _AGAIN),
        ("agree with who changed it and put it right by hand, then say so:", _VOUCH),
        _LEAVE,
    ),
    _K.PAST_PIVOT: (
        ("mend the cause, then go on forward:", _AGAIN),
        ("let it end as completed, with everything that stands:", _VOUCH),
        _LEAVE,
    ),
    _K.DIVERGED: (
        ("go on with the code that the saga began with:", _AGAIN),
        ("take the saga back:", _CANCEL),
        ("let it end as completed, with everything that stands:", _VOUCH),
        _LEAVE,
    ),
    _K.LIMIT_REACHED: (("go on:", _AGAIN), ("take the saga back:", _CANCEL), _LEAVE),
    _K.CALLED: (
        ("mend the cause, then go on forward:", _AGAIN),
        ("take the saga back:", _CANCEL),
        ("let it end as completed, with everything that stands:", _VOUCH),
        _LEAVE,
    ),
    _K.RELEASE_FAILED: (
        ("mend the cause, then try again:", _AGAIN),
        ("do it by hand, then say so:", _VOUCH),
        _LEAVE,
    ),
    _K.VERIFICATION_FAILED: (
        ("mend the cause, then have it asked again:", _AGAIN),
        ("take the saga back:", _CANCEL),
        ("let it count as complete, on your word:", _VOUCH),
        _LEAVE,
    ),
}


def comments(row: IncidentRow, entries: Iterable[Entry]) -> Iterator[tuple[int, IncidentCommented]]:
    """What people have said of it, and when, oldest first."""
    for entry in entries:
        event = entry.event
        if isinstance(event, IncidentCommented) and event.incident == row.number:
            yield entry.at, event


def tell(out: Output, row: IncidentRow, saga: Saga, entries: Sequence[Entry], journal: str) -> None:
    _tell_facts(out, row, saga, entries)
    _heading(out, "what happened")
    out.say(f"  {_HAPPENED[row.kind]}")
    out.say("  ", (visible(row.why, 1000), "red"))
    if row.left:
        _tell_left(out, row, saga)
    _tell_tried(out, row, entries, command(journal, "saga", "show", row.saga))
    _tell_comments(out, row, entries)
    if row.status == "open":
        _tell_ways(out, row, saga, journal)


def _tell_facts(out: Output, row: IncidentRow, saga: Saga, entries: Iterable[Entry]) -> None:
    out.say(("incident    ", "dim"), (visible(row.id), "bold"))
    out.say(("saga        ", "dim"), f"{visible(row.definition)}, {saga.status}")
    out.say(("status      ", "dim"), (row.status, "bold red" if row.status == "open" else ""))
    out.say(("opened      ", "dim"), moment(row.opened_at))
    for how in _closed(row, entries):
        out.say(("closed      ", "dim"), how)
    out.say(("kind        ", "dim"), row.kind.replace("_", " "))
    out.say(("owner       ", "dim"), visible(row.owner) or "nobody yet")


def _closed(row: IncidentRow, entries: Iterable[Entry]) -> Iterator[str]:
    for entry in entries:
        match entry.event:
            case IncidentRetried(incident=row.number, by=by, let_run=let_run, own=own):
                against = ", against the gate" if let_run else ""
                yield f"{moment(entry.at)} by {visible(by)}{_own(own=own)}, who had it tried again{against}"
            case IncidentResolved(incident=row.number, by=by, reason=reason, proof=proof, own=own):
                seen = f"; proof: {visible(proof)}" if proof else ""
                yield f"{moment(entry.at)} by {visible(by)}{_own(own=own)}, who vouches for it: {visible(reason)}{seen}"
            case _:
                pass


def _own(*, own: bool) -> str:
    return f" ({OWN_DECISION})" if own else ""


def _tell_left(out: Output, row: IncidentRow, saga: Saga) -> None:
    _heading(out, "what may stand, newest first" if row.status == "open" else "what might have stood, newest first")
    for name in row.left:
        step = saga.steps[name]
        here = "; it stopped here" if name == row.step else ""
        args = spelled_args(step.args)
        left = f"  step {visible(name)}  {visible(step.topic)}  "
        out.say_beside((left,), f"{args}  ", (step.status, "yellow"), here)


def _tell_tried(out: Output, row: IncidentRow, entries: Sequence[Entry], whole: str) -> None:
    """The attempts of the step at which it stopped; where it names none, of those of which something may stand."""
    about = set(map(visible, (row.step,) if row.step is not None else row.left))
    lines = [line for line in timeline(entries) if line.step in about and line.direction is not Direction.PERSON]
    if not lines:
        return
    _heading(out, "what was tried")
    if len(lines) > _LATEST:
        out.say(f"  … {len(lines) - _LATEST} lines before: {visible(whole)}")
    width = widths(lines[-_LATEST:])
    for line in lines[-_LATEST:]:
        lead, text = line_parts(line, width)
        out.say_beside(("  ", *lead), text)


def _tell_comments(out: Output, row: IncidentRow, entries: Sequence[Entry]) -> None:
    said = tuple(comments(row, entries))
    if said:
        _heading(out, "what was said")
    for at, event in said:
        out.say_beside((f"  {moment(at)}  ",), f"{visible(event.by)}: {visible(event.text)}")


def _tell_ways(out: Output, row: IncidentRow, saga: Saga, journal: str) -> None:
    _heading(out, "what can be done")
    mitigable = row.kind is _K.PAST_PIVOT and saga.pivot is not None and not unmitigated(saga)
    ways = ((_WITH_MITIGATION,) if mitigable else ()) + _WAYS[row.kind]
    modules = options_for(saga.begun)
    for meaning, words in (*ways, ("read the whole story:", ("saga", "show", "{saga}"))):
        named = chain.from_iterable(modules if word == MODULES else (_named(word, row),) for word in words)
        out.say(f"  {meaning}")
        out.say("    ", (visible(command(journal, *named)), "cyan"))


def _named(word: str, row: IncidentRow) -> str:
    return word.format(id=row.id, saga=row.saga) if word.startswith("{") else word


def _heading(out: Output, text: str) -> None:
    out.say()
    out.say((text, "bold"))
