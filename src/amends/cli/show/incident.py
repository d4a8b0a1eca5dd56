"""How one incident looks: what happened, what may stand, what was tried, who sees to it, and what can be done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from amends.cli.show.hints import command, options_for
from amends.cli.show.output import Output
from amends.cli.show.timeline import tell_further, tell_line, widths
from amends.core.decide.incidents import may_be_doubled
from amends.core.events import IncidentKind, IncidentResolved, IncidentRetried
from amends.core.plan import unmitigated
from amends.core.state.limits import LimitName, one_more, spelled
from amends.core.state.saga import Saga, Step
from amends.evidence.report import HAPPENED
from amends.evidence.story.commands import CHANGESET, changeset_line
from amends.evidence.story.timeline import OWN_DECISION, Direction, timeline
from amends.journal.port.journal import Entry, IncidentRow
from amends.operate.fields import comments
from amends.text import counted, further, headline, moment, spelled_args, times, visible

_LATEST: Final = 12
_K = IncidentKind

MODULES: Final = "{modules}"
"""Where the module goes that a command has to name."""
_REPEAT: Final = ("incident", "retry", "{id}", "--repeat", MODULES)
_AGAIN: Final = ("incident", "retry", "{id}", MODULES)
_MITIGATE: Final = ("incident", "retry", "{id}", "--mitigate", MODULES)
_LET_RUN: Final = ("incident", "retry", "{id}", "--let-run", MODULES)
_VOUCH: Final = ("incident", "resolve", "{id}", "--reason", "TEXT", "--proof", "TEXT", MODULES)
_CANCEL: Final = ("saga", "cancel", "{saga}", MODULES)
_RAISE: Final = ("saga", "raise-limit", "{saga}", MODULES)
_ASSIGN: Final = ("incident", "assign", "{id}", "--owner", "person:NAME")
_Way = tuple[str, tuple[str, ...]]

_BY_HAND: Final[_Way] = ("take it back by hand, then say so, with where that can be seen:", _VOUCH)
_MITIGATED_BY_HAND: Final[_Way] = ("do something about it by hand, then say so, with where that can be seen:", _VOUCH)
_WITH_MITIGATION: Final[_Way] = ("take the saga back, and mitigate what cannot be taken back:", _MITIGATE)
_LEAVE: Final[_Way] = ("leave it open for now, with somebody who sees to it:", _ASSIGN)
_DOUBLED: Final[_Way] = ("look whether it was done; if not, have it done once more:", _REPEAT)
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
    _K.LIMIT_REACHED: (
        ("allow as much again, and go on:", _RAISE),
        ("take the saga back:", _CANCEL),
        _LEAVE,
    ),
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
    _K.IDLE: (("take the saga back:", _CANCEL), _LEAVE),
}


def tell_incident(out: Output, row: IncidentRow, saga: Saga, entries: Sequence[Entry], journal: str) -> None:
    _tell_facts(out, row, saga, entries)
    _heading(out, "what happened")
    out.say(f"  {HAPPENED[row.kind]}")
    out.say("  ", (headline(row.why, 1000), "red"))
    tell_further(out, further(row.why), "    ")
    if row.left:
        _tell_left(out, row, saga)
    _tell_tried(out, row, entries, command(journal, "saga", "show", row.saga))
    _tell_comments(out, row, entries)
    if row.status == "open":
        _tell_ways(out, row, saga, journal)


def doubled(row: IncidentRow, saga: Saga) -> Step | None:
    """The step that may be done twice if this is tried again."""
    found = (one for one in saga.open_incidents if one.number == row.number)
    return next((step for one in found if (step := may_be_doubled(saga, one)) is not None), None)


def tell_doubled(out: Output, row: IncidentRow, saga: Saga, step: Step, journal: str) -> None:
    """Say what a person should know before they have a lost step done once more."""
    out.say((f"{visible(step.topic)}  ", "bold"), (spelled_args(step.args), "cyan"))
    out.say(f"  was begun {times(step.attempts)}, and nobody knows whether it took effect: {visible(step.error)}")
    out.say(("  it is not idempotent, and has no probe: done once more, it may happen twice", "red"))
    out.say("  if it took effect, say so instead, with where that can be seen:")
    _tell_command(out, _VOUCH, row, saga, journal)


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
            case IncidentRetried(incident=row.number, by=by, let_run=let_run, own=own, repeat=repeat):
                against = ", against the gate" if let_run else ", though it may then happen twice" if repeat else ""
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
        files = changeset_line(step.args) if step.topic.startswith(CHANGESET) else None
        args = spelled_args(step.args) if files is None else files
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
        out.say(f"  … {counted(len(lines) - _LATEST, 'line')} before: {visible(whole)}")
    width = widths(lines[-_LATEST:])
    for line in lines[-_LATEST:]:
        tell_line(out, line, width, "  ")


def _tell_comments(out: Output, row: IncidentRow, entries: Sequence[Entry]) -> None:
    said = tuple(comments(row, entries))
    if said:
        _heading(out, "what was said")
    for at, event in said:
        out.say_beside((f"  {moment(at)}  ",), f"{visible(event.by)}: {visible(event.text)}")


def _tell_ways(out: Output, row: IncidentRow, saga: Saga, journal: str) -> None:
    _heading(out, "what can be done")
    mitigable = row.kind is _K.PAST_PIVOT and saga.pivot is not None and not unmitigated(saga)
    ways = ((_WITH_MITIGATION,) if mitigable else ()) + _to_raise(row, saga) + _WAYS[row.kind]
    if doubled(row, saga) is not None:
        ways = tuple(_DOUBLED if words == _AGAIN else (meaning, words) for meaning, words in ways)
    for meaning, words in (*ways, ("read the whole story:", ("saga", "show", "{saga}"))):
        out.say(f"  {meaning}")
        _tell_command(out, words, row, saga, journal)


def _tell_command(out: Output, words: Iterable[str], row: IncidentRow, saga: Saga, journal: str) -> None:
    modules = options_for(saga.begun)
    named = chain.from_iterable(modules if word == MODULES else (_named(word, row),) for word in words)
    out.say("    ", (visible(command(journal, *named)), "cyan"))


def _to_raise(row: IncidentRow, saga: Saga) -> tuple[_Way, ...]:
    """How the limit that was reached is set to an amount; as much again as it allowed is the example."""
    budget = saga.budget
    if row.kind is not _K.LIMIT_REACHED or budget is None or budget.reached in {None, LimitName.SPIN}:
        return ()
    (raised,) = one_more(budget, "", "", row.opened_at)
    amount = spelled(raised.limit, raised.most).partition(" ")[0]
    words = ("saga", "raise-limit", "{saga}", f"--{raised.limit}", amount, "--why", "TEXT", MODULES)
    return (("allow so much in all, and go on:", words),)


def _named(word: str, row: IncidentRow) -> str:
    return word.format(id=row.id, saga=row.saga) if word.startswith("{") else word


def _heading(out: Output, text: str) -> None:
    out.say()
    out.say((text, "bold"))
