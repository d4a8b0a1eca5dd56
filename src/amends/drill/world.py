"""The world that sagas act on, kept apart from any journal, and the ledger that holds the two against each other.

A world is a file of lines, one for each effect and each compensation that reached a provider, written by whoever
acts and by several processes at once: one `write` each, at the end of the file. It knows no saga's state, and no
journal is asked when it is written, so what the ledger finds is what happened and not what somebody believes.

There are two kinds of provider. One honours keys: the same key again changes nothing. The other does not: what it
is asked to do it does, each time. Both take back what stands, once, and nothing where nothing stands: that is what
a compensation of an outcome that nobody knows has to do.

Which of two steps has to be taken back first is said without the core's own words for it: a judge, not a planner.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final, Literal

from amends.core import events as e
from amends.core.state.saga import Incident, Saga, Step, evolve, unstarted
from amends.core.transitions import IncidentStatus, SagaStatus, StepStatus
from amends.core.words.contracts import Reversibility
from amends.core.words.values import BUILT_IN, SagaId, StepId
from amends.dataclass import dataclass
from amends.journal.codec import FIRST, chain
from amends.journal.port.journal import PARENT, Entry


def goes_first(saga: Saga, later: Step, earlier: Step) -> bool:
    """Whether a rollback has to have taken `later` back before it begins with `earlier`.

    It came later, and nothing declares the two independent: one of them, or something that came between them, is not
    part of a graph; or the graph says so, directly or through others; or both lie in the same layers.
    """
    if earlier.number >= later.number:
        return False
    between = (saga.steps[saga.order[number]] for number in range(earlier.number, later.number + 1))
    if any(step.after is None for step in between):
        return True
    return earlier.id in _before(saga, later.id)


def out_of_order(saga: Saga, undone: list[StepId]) -> bool:
    """Whether steps that were taken back in this order came before others that had to go first."""
    steps = [saga.steps[name] for name in undone]
    return any(goes_first(saga, after, before) for at, before in enumerate(steps) for after in steps[at + 1 :])


def _is_layered(step: Step) -> bool:
    return bool(step.layer) or step.contract.reversibility is Reversibility.REVERSIBLE


def _before(saga: Saga, step: StepId) -> set[StepId]:
    """All that it was declared to be after, or has its layer upon, directly or not."""
    found: set[StepId] = set()
    unseen = [step]
    while unseen:
        this = saga.steps[unseen.pop()]
        layers = filter(_is_layered, saga.steps.values()) if _is_layered(this) else ()
        below = {*(this.after or ()), *(one.id for one in layers if 0 < one.number < this.number)}
        unseen += [one for one in below if one not in found and one in saga.steps]
        found |= below
    return found


_S = StepStatus
INTENTS: Final = (e.ActionDispatched, e.AttemptStarted)
_PARENT_STEP: Final = "amends.parent_step"
_ENDS: Final = frozenset({status for status in SagaStatus if status.ended} | {SagaStatus.INCIDENT})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderCall:
    """One call that reached a provider. `key` is the call's own, `of` that of the action that it makes or takes back.

    A note is no call: it is how a provider that is to fail twice knows, in whatever process it is asked, that it has.
    """

    what: Literal["effect", "undo", "note"]
    topic: str
    saga: str
    key: str
    of: str
    honours_keys: bool
    pid: int

    @property
    def undo(self) -> bool:
        return self.what == "undo"


class World:
    """Without a path it is kept in memory, for one process."""

    def __init__(self, path: Path | None = None, lines: Iterable[ProviderCall] = ()) -> None:
        self._path = path
        self._lines = list(lines)
        self._lock = threading.Lock()

    def effect(self, topic: str, *, key: str, saga: str = "", honours_keys: bool = True) -> None:
        self._add(_line("effect", topic, key=key, of=key, saga=saga, honours_keys=honours_keys))

    def undo(self, topic: str, *, key: str, of: str, saga: str = "", honours_keys: bool = True) -> None:
        self._add(_line("undo", topic, key=key, of=of, saga=saga, honours_keys=honours_keys))

    def tally(self, name: str) -> int:
        """How often this has been asked, now included."""
        self._add(_line("note", name, key="", of=""))
        return sum(line.what == "note" and line.topic == name for line in self.everything)

    def _add(self, line: ProviderCall) -> None:
        if self._path is None:
            with self._lock:
                self._lines.append(line)
            return
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, json.dumps(asdict(line)).encode() + b"\n")
        finally:
            os.close(file)

    @property
    def lines(self) -> tuple[ProviderCall, ...]:
        """The calls, in the order in which they happened."""
        return tuple(line for line in self.everything if line.what != "note")

    @property
    def everything(self) -> tuple[ProviderCall, ...]:
        if self._path is None:
            return tuple(self._lines)
        if not self._path.exists():
            return ()
        return tuple(
            ProviderCall(**json.loads(text)) for text in self._path.read_text(encoding="utf-8").split("\n")[:-1]
        )

    def stands(self, key: str) -> int:
        """How many times the effect of the action with this key stands."""
        return standing(self.lines).get(key, 0)


def _line(
    what: Literal["effect", "undo", "note"], topic: str, *, key: str, of: str, saga: str = "", honours_keys: bool = True
) -> ProviderCall:
    return ProviderCall(what=what, topic=topic, saga=saga, key=key, of=of, honours_keys=honours_keys, pid=os.getpid())


def standing(lines: Iterable[ProviderCall]) -> dict[str, int]:
    """How many times each action's effect stands after these calls, by the action's key."""
    nets: dict[str, int] = {}
    for line in _effective(lines):
        nets[line.of] = nets.get(line.of, 0) + (-1 if line.undo else 1)
    return nets


def _effective(lines: Iterable[ProviderCall]) -> Iterator[ProviderCall]:
    """The calls that changed something: not a key that its provider knows, not an undo where nothing stands."""
    nets: dict[str, int] = {}
    seen: set[str] = set()
    for line in lines:
        if line.honours_keys and line.key in seen:
            continue
        seen.add(line.key)
        net = nets.get(line.of, 0)
        if not line.undo or net > 0:
            nets[line.of] = net - 1 if line.undo else net + 1
            yield line


def check(world: World, histories: Iterable[Iterable[Entry]], rules: Iterable[Rule] | None = None) -> list[str]:
    """Contradictions between the world and the journal, once everything has been recovered; there should be none.

    - every saga has ended: completed, rolled back, or an incident; or it waits for a child that is one;
    - completed: the effect of each step that succeeded stands once, and no other does;
    - rolled back: nothing stands;
    - an incident: what stands is named in what an open one says is left;
    - no effect without an intent on record, and no more calls than intents;
    - an action that is not repeatable is not called again unless its last attempt certainly did nothing;
    - a compensation is repeated only after one that failed or was lost, and with the same key;
    - compensations go newest first, in the order of intents, but for steps that a graph declares independent;
    - what is held is released when nothing else can fail any more;
    - a child saga is gone where its parent is, or goes on without it;
    - each chain of hashes verifies.

    `rules` may be fewer: those in ON_RECORD ask what was called and what is on record, not what stands.
    """
    lines, held = world.lines, tuple(RULES if rules is None else rules)
    known: set[str] = set()
    complaints: list[str] = []
    accounts = [Account(tuple(history)) for history in histories]
    complaints += _families({account.saga.id: account.saga for account in accounts})
    _excuse({account.saga.id: account for account in accounts})
    for account in accounts:
        known |= account.steps_by_key.keys()
        for rule in held:
            complaints += [f"saga {account.saga.id}: {what}" for what in rule(account, lines)]
    strangers = [line for line in lines if line.of not in known]
    return complaints + [f"{line.topic} took effect without an intent on record (key {line.key})" for line in strangers]


def _families(sagas: dict[SagaId, Saga]) -> Iterator[str]:
    """A child stands as its parent's step says: gone with it, or complete with it."""
    for saga in sagas.values():
        labels = {} if saga.begun is None else saga.begun.labels
        parent = sagas.get(SagaId(labels.get(PARENT, "")))
        step = None if parent is None else parent.steps.get(StepId(labels.get(_PARENT_STEP, "")))
        if parent is None or saga.phase is SagaStatus.INCIDENT:
            continue
        gone = parent.phase.has_gone_back or step is None or step.status is not _S.SUCCEEDED
        if parent.phase.ended and gone and not saga.phase.has_gone_back:
            yield f"saga {saga.id} is {saga.phase}, and its parent {parent.id} is {parent.phase} without it"


def went_with_its_step(child: Saga, sagas: Mapping[SagaId, Saga]) -> bool:
    """Whether a child is rolled back, and a step above it that called it, or one that did, was set aside for that."""
    labels = {} if child.begun is None else child.begun.labels
    parent = sagas.get(SagaId(labels.get(PARENT, "")))
    if parent is None or not child.phase.has_gone_back:
        return False
    step = parent.steps.get(StepId(labels.get(_PARENT_STEP, "")))
    return (step is not None and step.rewind is not None) or went_with_its_step(parent, sagas)


def begun_after_return(histories: Iterable[Iterable[Entry]], grace_ms: int) -> list[str]:
    """Complaints of children that began steps although their parents had begun, so long before, to take them back.

    A child is told from another journal than its own, so that takes a moment: `grace_ms`, where all that drives them
    lives. One with a pivot goes forward only, and may.
    """
    accounts = {account.saga.id: account for account in map(Account, map(tuple, histories))}
    complaints: list[str] = []
    for child in accounts.values():
        since, above = _returned_at(child, accounts)
        begun = [entry for entry in child.entries if isinstance(entry.event, INTENTS)]
        late = [entry for entry in begun if since is not None and entry.at > since + grace_ms]
        if late and child.saga.pivot is None:
            complaints.append(f"saga {child.saga.id} began {len(late)} steps after {above} had begun to go back")
    return complaints


def _returned_at(child: Account, accounts: Mapping[SagaId, Account]) -> tuple[int | None, SagaId | None]:
    """When the first of those above began to take back what a child belongs to, and which of them it was."""
    found: list[tuple[int, SagaId]] = []
    below: Account | None = child
    while below is not None and below.saga.begun is not None:
        labels = below.saga.begun.labels
        step = labels.get(_PARENT_STEP, "")
        below = accounts.get(SagaId(labels.get(PARENT, "")))
        for entry in () if below is None else below.entries:
            match entry.event:
                case e.RollbackStarted():
                    found.append((entry.at, entry.saga))
                case e.RewindStarted(steps=steps) if step in steps:
                    found.append((entry.at, entry.saga))
                case _:
                    pass
    return min(found, default=(None, None))


def _excuse(accounts: dict[SagaId, Account]) -> None:
    """Excuse a saga that waits for a child that waits for a person: it waits for people too, and rightly. So does a
    child below an incident that was stopped to be taken back, or that holds something until its family has settled.
    """
    stuck = [account for account in accounts.values() if account.saga.phase is SagaStatus.INCIDENT]
    for account in stuck:
        for one in _above(account, accounts):
            one.waits_for_people = True
    for account in accounts.values():
        if account.saga.phase is SagaStatus.PAUSED or account.saga.finished:
            above = _above(account, accounts)
            account.waits_for_people |= any(one in stuck or one.waits_for_people for one in above)


def _above(account: Account, accounts: dict[SagaId, Account]) -> list[Account]:
    """Its parent, that one's parent, and so on."""
    found: list[Account] = []
    below: Account | None = account
    while below is not None and below.saga.begun is not None:
        below = accounts.get(SagaId(below.saga.begun.labels.get(PARENT, "")))
        found += [] if below is None else [below]
    return found


class Account:
    """One saga's side of the ledger: its entries, and what they come to."""

    def __init__(self, entries: tuple[Entry, ...]) -> None:
        self.entries = entries
        self.saga: Saga = unstarted(entries[0].saga if entries else SagaId(""))
        self.steps_by_key: dict[str, StepId] = {}
        self.key_by_step: dict[StepId, str] = {}
        self.waits_for_people = False
        self.before: list[tuple[Saga, e.Event]] = []
        """Each event, and the saga as it was when it came."""
        for entry in entries:
            self.before.append((self.saga.copy(), entry.event))
            self.saga = evolve(self.saga, entry.event)
            if isinstance(entry.event, INTENTS):
                self.steps_by_key[entry.event.key] = entry.event.step
                self.key_by_step[entry.event.step] = entry.event.key

    @property
    def named(self) -> set[StepId]:
        """The steps that are a person's business, because an incident says so."""
        return {step for incident in self.saga.incidents if _speaks(incident) for step in incident.left}

    @property
    def doubled(self) -> set[StepId]:
        """The steps of which an open incident says that they may stand twice."""
        kind = e.IncidentKind.EFFECT_DOUBLED
        return {step for incident in self.saga.open_incidents if incident.kind is kind for step in incident.left}

    def events(self, step: StepId) -> list[e.Event]:
        return [event for _, event in self.before if getattr(event, "step", None) == step]


Rule = Callable[[Account, tuple[ProviderCall, ...]], Iterator[str]]


def _ended(account: Account, _lines: tuple[ProviderCall, ...]) -> Iterator[str]:
    if account.waits_for_people:
        return
    if account.saga.rests:
        return  # it ends with its family; whether that has ended is asked of each of the others
    if account.saga.phase not in _ENDS:
        yield f"it has not ended: it is {account.saga.status}"
    unnamed = [step for step in account.saga.live if step not in account.named]
    if unnamed:
        yield f"it is {account.saga.phase}, and steps {', '.join(unnamed)} still count as running, unnamed"


def _nets(account: Account, lines: tuple[ProviderCall, ...]) -> Iterator[str]:
    saga, nets = account.saga, standing(lines)
    for step in saga.steps.values() if saga.phase in _ENDS else ():
        if step.topic.startswith(BUILT_IN):
            continue  # what is built in acts on the journal's own store, and is no provider's business
        net = nets.get(account.key_by_step.get(step.id, ""), 0)
        if net > 1 and step.id not in account.doubled:
            yield f"the effect of step {step.id} ({step.topic}) stands {net} times"
        elif net <= 1 and net != wanted(saga, step) and step.id not in account.named and step.status is not _S.SETTLED:
            stands = "stands" if net else "does not stand"
            what = f"step {step.id} ({step.topic}) is {step.status}"
            yield f"it is {saga.phase}, {what}, and its effect {stands}, unnamed"


def _speaks(incident: Incident) -> bool:
    """Whether what an incident names is a person's business: it is open, or a person has vouched for all of it."""
    vouched = incident.kind in {e.IncidentKind.PAST_PIVOT, e.IncidentKind.DIVERGED, e.IncidentKind.CALLED}
    return incident.status is IncidentStatus.OPEN or (vouched and incident.status is IncidentStatus.RESOLVED)


def wanted(saga: Saga, step: Step) -> int:
    """How often a step's effect should stand where no incident names it: what was mitigated stands."""
    if step.status is _S.MITIGATED:
        return int(step.contract.mitigation)  # else it called a child, whose own record says what of it stands
    forward = saga.phase is SagaStatus.INCIDENT and saga.rollback is None
    stays = saga.phase is SagaStatus.COMPLETED or forward or saga.rests
    return int(stays and step.status is _S.SUCCEEDED and step.contract.side_effect)


def _calls(account: Account, lines: tuple[ProviderCall, ...]) -> Iterator[str]:
    for key, step in account.steps_by_key.items():
        intents, undos = (
            [event for event in account.events(step) if isinstance(event, kind)]
            for kind in (INTENTS, e.CompensationStarted)
        )
        made = [line for line in lines if line.of == key]
        taken_back = [line for line in made if line.undo]
        if len(made) - len(taken_back) > len(intents):
            yield f"step {step} was called {len(made) - len(taken_back)} times, with {len(intents)} intents on record"
        if len(taken_back) > len(undos):
            yield f"step {step} was taken back {len(taken_back)} times, with {len(undos)} intents on record"
        strange = {line.key for line in taken_back} - {
            event.key for event in undos if isinstance(event, e.CompensationStarted)
        }
        if strange:
            yield f"step {step} was taken back with keys that are not on record: {', '.join(sorted(strange))}"


def _repeats(account: Account, _lines: tuple[ProviderCall, ...]) -> Iterator[str]:
    keys: dict[tuple[StepId, int], str] = {}
    taken_back: set[StepId] = set()
    for saga, event in account.before:
        match event:
            case e.AttemptStarted(step=name, key=key):
                step = saga.steps[name]
                if step.status is _S.UNKNOWN and not step.contract.repeatable:
                    yield f"step {name} was tried again, is not repeatable, and nobody knew its outcome"
                if account.key_by_step[name] != key:
                    yield f"step {name} was tried again with another key"
            case e.CompensationStarted(step=name, key=key) | e.MitigationStarted(step=name, key=key):
                if name in taken_back:
                    yield f"step {name} was compensated again, though its compensation had succeeded"
                if keys.setdefault((name, saga.steps[name].turn), key) != key:
                    yield f"step {name} was compensated again with another key"
            case e.CompensationSucceeded(step=name) | e.MitigationSucceeded(step=name):
                taken_back.add(name)
            case e.LateSuccessEnrolled(step=name) | e.LateLossEnrolled(step=name) | e.ProbeFound(step=name):
                taken_back.discard(name)
            case _:
                pass


def _order(account: Account, lines: tuple[ProviderCall, ...]) -> Iterator[str]:
    """Newest first, by the journal's own account; and by the world's, where nobody has interfered."""
    for saga, event in account.before:
        if isinstance(event, e.CompensationStarted | e.MitigationStarted):
            this = saga.steps[event.step]
            beside = [one for one in saga.steps.values() if _is_beside(saga, one, this) and _is_owed(saga, one)]
            rolls_back = saga.phase is SagaStatus.ROLLING_BACK
            first = [one for one in beside if (goes_first(saga, one, this) if rolls_back else one.number > this.number)]
            if first:
                owed = ", ".join(one.id for one in first)
                yield f"step {this.id} was compensated before {owed}, which had to go first"
    if account.saga.incidents or any(isinstance(event, (*_LATE, e.RewindStarted)) for _, event in account.before):
        return  # what was taken back in between came earlier than what was done, and taken back, since
    undone = [
        account.steps_by_key[line.of] for line in _effective(lines) if line.undo and line.of in account.steps_by_key
    ]
    if out_of_order(account.saga, undone):
        yield f"steps were taken back in the order {', '.join(undone)}, which is not newest first"


def _is_beside(saga: Saga, one: Step, step: Step) -> bool:
    """Whether a rewind that takes the step back concerns the other one too."""
    return step.rewind not in saga.rewinding or one.rewind == step.rewind


def _held(account: Account, _lines: tuple[ProviderCall, ...]) -> Iterator[str]:
    """A held step is released when the work is finished and nothing else is under way, and by no rollback.

    A release that nobody knows the end of may be repeated all the same: that is how it is settled.
    """
    for saga, event in account.before:
        if isinstance(event, INTENTS) and event.step in saga.steps and saga.steps[event.step].contract.hold:
            if event.step in saga.doubts:
                continue
            others = [step for step in (*saga.live, *saga.doubts) if not saga.steps[step].contract.hold]
            if not saga.finished or saga.rollback is not None or saga.rewinding or others:
                yield f"step {event.step} was held, and was released while {', '.join(others) or 'the work'} could fail"


def _is_owed(saga: Saga, step: Step) -> bool:
    return step.doubtful if saga.phase is SagaStatus.RUNNING else step.owed


def _chain(account: Account, _lines: tuple[ProviderCall, ...]) -> Iterator[str]:
    hashed = FIRST
    for number, entry in enumerate(account.entries, start=1):
        hashed = chain(hashed, entry.saga, number, entry.at, entry.name, entry.body)
        if (entry.number, entry.hash) != (number, hashed):
            yield f"entry {entry.number} does not continue the chain"
            return


_LATE: Final = (e.LateSuccessEnrolled, e.LateLossEnrolled)
ON_RECORD: Final[tuple[Rule, ...]] = (_ended, _calls, _repeats, _order, _held, _chain)
RULES: Final[tuple[Rule, ...]] = (_ended, _nets, _calls, _repeats, _order, _held, _chain)
