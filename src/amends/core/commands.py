"""Requests, in the imperative: each may be refused, and what it leads to is decided, not done."""

from __future__ import annotations

from typing import Final, TypeAlias

from amends.core.events import Cause, ControlEvent, DecisionEvent, IncidentKind, PersonEvent
from amends.core.words.contracts import Contract
from amends.core.words.outcomes import Answer, Lost, Outcome, Succeeded
from amends.core.words.values import Json, StepId
from amends.core.words.verdict import Verdict
from amends.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Moment:
    """The time, and what else a decision needs from outside: the core has neither clock nor dice.

    `jitter`, between 0 and 1, spreads retries. `window_s`: how long a rollback may take that begins now, where its saga
    does not say so itself.
    """

    now: int
    jitter: float
    window_s: float


NEVER: Final = Moment(0, 0.0, 0.0)
"""For a command that is decided in the same way whenever that is."""


@dataclass(frozen=True, slots=True)
class Spend:
    """The definition, at `place`, says what it has used up."""

    place: StepId
    tokens: int
    usd_micros: int
    what: str


@dataclass(frozen=True, slots=True)
class CountChild:
    """All that the child of a step has used up so far; with the step of this topic, if it asks for one.

    `again`: the topic of a step that is about to be tried again, which is counted in.
    """

    step: StepId
    tokens: int
    usd_micros: int
    steps: int
    topic: str = ""
    failures: int = 0
    retries: int = 0
    again: str = ""


@dataclass(frozen=True, slots=True)
class KeepLimits:
    """See whether a limit is reached: before a step of this topic with these arguments, or ("") by the time.

    `again`: before a step of this topic is tried again.
    """

    topic: str = ""
    args: Json = None
    again: str = ""


@dataclass(frozen=True, slots=True)
class RaiseLimits:
    """`most`: the new limits by name, in the journal's units; none: as much again of the one that was reached."""

    most: dict[str, int]
    by: str
    why: str


LimitCommand: TypeAlias = Spend | CountChild | KeepLimits | RaiseLimits


@dataclass(frozen=True, slots=True)
class StartSaga:
    definition: str
    version: int
    input: Json
    actor: str
    env: str
    labels: dict[str, str]
    limits: Json = None
    files: Json = None
    rollback_s: float | None = None
    attempts: int | None = None
    compensation_attempts: int | None = None
    taken_for: str = ""
    own: bool = False
    because: tuple[str, ...] = ()
    module: str = ""
    session: Json = None


@dataclass(frozen=True, slots=True)
class ProposeStep:
    """`after`: the steps that it was declared to be after, where its definition is a graph. `ahead`: people are asked
    about it before it is to be done. `call`: the caller's own id of it, in an open saga.
    """

    step: StepId
    contract: Contract
    args: Json
    digest: str
    after: tuple[StepId, ...] | None = None
    ahead: bool = False
    call: str = ""


@dataclass(frozen=True, slots=True)
class PlaceStep:
    """Do a step that was asked ahead: here, and this is where it belongs from now on.

    `call`: the caller's own id of it, in an open saga.
    """

    step: StepId
    place: StepId
    call: str = ""


@dataclass(frozen=True, slots=True)
class DispatchStep:
    """Propose a step that is allowed already, and start its first attempt at once."""

    step: StepId
    contract: Contract
    args: Json
    digest: str
    verdict: Verdict
    after: tuple[StepId, ...] | None = None
    call: str = ""


@dataclass(frozen=True, slots=True)
class RecordVerdict:
    """`ahead`: people are asked whatever the verdict says, short of a denial: the definition wants it so.

    `contract` is the action's as it is now; an approval binds that one.
    """

    step: StepId
    verdict: Verdict
    ahead: bool = False
    contract: Contract | None = None


@dataclass(frozen=True, slots=True)
class AnswerApproval:
    """`digest` is of what the person was shown; None: of what is asked now. `policy` judges now; None: not known.

    `proved`: whoever asks has verified a signature of this person over this answer, and says so on record.
    """

    step: StepId
    by: str
    granted: bool
    why: str
    digest: str | None = None
    policy: str | None = None
    proved: bool = False


@dataclass(frozen=True, slots=True)
class ExpireApproval:
    step: StepId


@dataclass(frozen=True, slots=True)
class KeepBefore:
    step: StepId
    before: Json


@dataclass(frozen=True, slots=True)
class AwaitLock:
    step: StepId
    resources: tuple[str, ...]
    holder: str
    until: int


@dataclass(frozen=True, slots=True)
class TakeLock:
    step: StepId


@dataclass(frozen=True, slots=True)
class RefuseLock:
    step: StepId
    error: str
    deadlock: bool = False


@dataclass(frozen=True, slots=True)
class KeepAfter:
    step: StepId
    after: Json


@dataclass(frozen=True, slots=True)
class ThrottleStep:
    """A rule's rate lets nothing more pass before then."""

    step: StepId
    rule: str
    policy: str
    most: int
    per_s: float
    until: int


@dataclass(frozen=True, slots=True)
class StartAttempt:
    """A step that people approved starts only as what they approved: under this policy, with this contract, in time."""

    step: StepId
    policy: str = ""
    contract: Contract | None = None


@dataclass(frozen=True, slots=True)
class RecordOutcome:
    step: StepId
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class RecordAnswer:
    """`reports`: how many late reports of the step were on record when the question was put."""

    step: StepId
    answer: Answer
    reports: int


@dataclass(frozen=True, slots=True)
class EnrolLate:
    """An attempt that had been given up for lost has ended after all."""

    step: StepId
    attempt: int
    outcome: Succeeded | Lost


@dataclass(frozen=True, slots=True)
class VoidApproval:
    step: StepId
    why: str


@dataclass(frozen=True, slots=True)
class VoidOutlived:
    """Another policy judges now: what people are still asked under the one before is void, and is judged again."""

    policy: str


@dataclass(frozen=True, slots=True)
class FinishWork:
    """`early`: why the definition ended before its end, where it did."""

    result: Json
    early: str = ""


@dataclass(frozen=True, slots=True)
class FailWork:
    """`calls`: the definition wants a person to decide, and nothing to be taken back before."""

    cause: Cause
    why: str
    step: StepId | None
    calls: bool = False


@dataclass(frozen=True, slots=True)
class CancelSaga:
    """`counted_on`: another saga counts on how this one ends; it says which, and what to ask for instead.

    `mitigate`: also past its pivot, with what is declared to be done about such steps. `unmitigated` names those of
    its children that declare nothing. `follows`: from what a person decided elsewhere, about its parent.
    """

    by: str
    why: str
    counted_on: str = ""
    mitigate: bool = False
    unmitigated: tuple[str, ...] = ()
    follows: bool = False


@dataclass(frozen=True, slots=True)
class MakeCheckpoint:
    place: StepId
    name: str


@dataclass(frozen=True, slots=True)
class Rewind:
    """The definition, at `place`, has some of its own steps taken back, and goes on. `waits` end: nobody is there."""

    place: StepId
    steps: tuple[StepId, ...]
    why: str
    waits: tuple[StepId, ...] = ()
    step: StepId | None = None
    to: StepId | None = None
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class RollBackTo:
    """Someone outside has the saga go back: to a checkpoint by its name, or by its `last` steps that stand.

    `counted_on`: another saga counts on how this one ends; it says which, and what to ask for instead.
    """

    to: str | None
    last: int | None
    by: str
    why: str
    counted_on: str = ""


@dataclass(frozen=True, slots=True)
class SettleFamily:
    """Of a child: nothing above it can fail any more, so it releases what it holds."""

    by: str


@dataclass(frozen=True, slots=True)
class DropHeld:
    """Of a child that cannot be taken back with its parent: what it holds never goes out."""

    why: str


@dataclass(frozen=True, slots=True)
class StartRelease:
    """The child of this step is about to release what it holds."""

    step: StepId


@dataclass(frozen=True, slots=True)
class EndRelease:
    """The child of this step holds nothing any more."""

    step: StepId


@dataclass(frozen=True, slots=True)
class TurnBack:
    """Begin to go back, as was asked for, or call a person: what may have been the pivot is settled."""


@dataclass(frozen=True, slots=True)
class EndRewind:
    place: StepId


@dataclass(frozen=True, slots=True)
class StartCompensation:
    """Take a step back; of an irreversible one, where a person has asked for that: mitigate it."""

    step: StepId
    certain: bool
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class RecordCompensation:
    """How the call ended that takes a step back, or mitigates it."""

    step: StepId
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class OpenIncident:
    """`stops`: it stops a whole rollback, and not only those steps that wait for this one."""

    kind: IncidentKind
    step: StepId | None
    why: str
    stops: bool = False


@dataclass(frozen=True, slots=True)
class RetryIncident:
    """`let_run`: a person has the compensation run that the gate refused.

    `mitigate`: have the saga go back past its pivot; `unmitigated` as in `CancelSaga`.
    `repeat`: have a step done once more although an attempt of it was lost, and nobody can be asked.
    """

    incident: int
    by: str
    let_run: bool = False
    mitigate: bool = False
    unmitigated: tuple[str, ...] = ()
    repeat: bool = False


@dataclass(frozen=True, slots=True)
class AssignIncident:
    incident: int
    owner: str
    by: str


@dataclass(frozen=True, slots=True)
class CommentIncident:
    incident: int
    by: str
    text: str


@dataclass(frozen=True, slots=True)
class ResolveIncident:
    incident: int
    by: str
    reason: str
    proof: str = ""


@dataclass(frozen=True, slots=True)
class AdoptPolicy:
    digest: str
    text: str
    by: str
    why: str


@dataclass(frozen=True, slots=True)
class StartWait:
    """Wait at this place for a signal of this name; "": only for the time."""

    place: StepId
    name: str
    until: int


@dataclass(frozen=True, slots=True)
class EndWait:
    """The time is up."""

    place: StepId


@dataclass(frozen=True, slots=True)
class SendSignal:
    """`early`: keep it, should nothing wait for it yet. `decides` says, as a verb, what a person decides by it."""

    name: str
    payload: Json
    by: str
    early: bool = False
    decides: str = ""


@dataclass(frozen=True, slots=True)
class PauseSaga:
    """`pause` is the number of the wide one that it came to; 0: its own. `rollbacks`: also where it is rolling back."""

    by: str
    why: str
    rollbacks: bool = False
    pause: int = 0


@dataclass(frozen=True, slots=True)
class UnpauseSaga:
    """`follows`: what held it is over, by what was decided elsewhere; nobody decides about this saga any more."""

    by: str
    follows: bool = False


@dataclass(frozen=True, slots=True)
class ChangeRoster:
    """Enrol a person's key, or revoke one."""

    fact: PersonEvent


@dataclass(frozen=True, slots=True)
class Sign:
    """Have a command recorded as a person has signed it: `fact` is what they signed, `signed` goes with it on record.

    Where the command would lead to another fact by now, nothing is recorded.
    """

    command: AnswerApproval | RetryIncident | ResolveIncident | UnpauseSaga | RaiseLimits | CancelSaga | RollBackTo
    fact: DecisionEvent
    signed: str


@dataclass(frozen=True, slots=True)
class KeepControl:
    """Put what holds for every saga on record."""

    fact: ControlEvent


@dataclass(frozen=True, slots=True)
class EndSaga:
    """Nothing is due any more: record how it ended."""


@dataclass(frozen=True, slots=True)
class Recover:
    """Another driver takes over: what was in flight under the last one is lost."""


@dataclass(frozen=True, slots=True)
class LeaveWaits:
    """Of an open saga: nobody is at these places any more."""

    places: tuple[StepId, ...]


@dataclass(frozen=True, slots=True)
class ReportIdle:
    """Of an open saga: a person is told that nobody takes a step."""

    why: str


@dataclass(frozen=True, slots=True)
class EndIdle:
    """Of an open saga: somebody goes on with it."""


SessionCommand: TypeAlias = LeaveWaits | ReportIdle | EndIdle
Command: TypeAlias = (
    DispatchStep
    | RecordOutcome
    | ProposeStep
    | PlaceStep
    | RecordVerdict
    | ThrottleStep
    | StartAttempt
    | KeepBefore
    | AwaitLock
    | TakeLock
    | RefuseLock
    | KeepAfter
    | StartSaga
    | FinishWork
    | RecordAnswer
    | EnrolLate
    | AnswerApproval
    | ExpireApproval
    | VoidApproval
    | VoidOutlived
    | FailWork
    | CancelSaga
    | MakeCheckpoint
    | Rewind
    | RollBackTo
    | TurnBack
    | SettleFamily
    | DropHeld
    | StartRelease
    | EndRelease
    | EndRewind
    | StartCompensation
    | RecordCompensation
    | OpenIncident
    | RetryIncident
    | ResolveIncident
    | AssignIncident
    | CommentIncident
    | AdoptPolicy
    | StartWait
    | EndWait
    | SendSignal
    | PauseSaga
    | UnpauseSaga
    | KeepControl
    | ChangeRoster
    | Sign
    | LimitCommand
    | SessionCommand
    | EndSaga
    | Recover
)

TIMELESS: Final = frozenset[type]({StartSaga, DispatchStep, FinishWork, StartCompensation})
"""Commands that are decided in the same way at any time, as what records a success is: nobody has to look at a clock
for them.
"""
