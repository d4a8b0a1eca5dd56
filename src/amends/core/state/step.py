"""One step's state, and how a fact changes it. Which status comes next is the table's business, not this module's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias, assert_never

from amends.core import events as e
from amends.core.transitions import APPROVAL, ApprovalStatus, StepStatus
from amends.core.words.contracts import Contract, Topic
from amends.core.words.values import CALL, HOLDS, Json, StepId
from amends.core.words.verdict import Need
from amends.dataclass import altered, dataclass
from amends.errors import JournalDamagedError

_S = StepStatus
IDLE: Final = frozenset({_S.AWAITING, _S.QUEUED})
"""It waits for others: for people, or for sagas that hold what it needs."""
KEPT_REASONS: Final = 16
OFTEN: Final = 16
"""So often is told of each time that a rate makes one step wait; after that, less and less often."""
_SAME_MS: Final = 1000
LIVE: Final = frozenset({_S.RUNNING, _S.COMPENSATING, _S.RECOMPENSATING, _S.MITIGATING})
_STANDING: Final = frozenset({_S.SUCCEEDED, _S.UNKNOWN, *LIVE, _S.UNCOMPENSATED, _S.UNMITIGATED})
_DOUBTFUL: Final = frozenset(
    {_S.UNKNOWN, _S.UNCOMPENSATED, _S.COMPENSATING, _S.RECOMPENSATING, _S.UNMITIGATED, _S.MITIGATING}
)
_HELD: Final = frozenset({_S.PROPOSED, _S.AWAITING, _S.QUEUED, _S.READY, _S.RUNNING, _S.FAILED, _S.UNKNOWN, _S.DENIED})
_JUDGED: Final = frozenset({_S.PROPOSED, _S.READY})
_TAKEN_BACK: Final = frozenset({_S.COMPENSATING, _S.UNCOMPENSATED, _S.COMPENSATED, _S.SETTLED})


@dataclass(frozen=True, kw_only=True)
class Approval:
    """The question to people about a step, and who has agreed so far. `number` counts the times of asking."""

    number: int
    digest: str
    shown: Json
    rule: str
    policy: str
    needs: tuple[Need, ...]
    expires_at: int
    signers: tuple[str, ...] = ()
    status: ApprovalStatus = ApprovalStatus.REQUESTED

    @property
    def unsettled(self) -> bool:
        """Whether it may still let something happen."""
        return self.status in {ApprovalStatus.REQUESTED, ApprovalStatus.GRANTED}


class Told(NamedTuple):
    """The end of a step as the definition was told of it, before it was taken back."""

    status: StepStatus
    error: str
    fatal: bool
    where: str = ""


class Ahead(NamedTuple):
    """A step that people were asked about before it was to be done: by which entry, where it is done, and who had
    agreed by then. No place: it is not to be done yet. `call`: the caller's own id of the asking, once it is done.
    """

    entry: int
    place: StepId | None = None
    signers: tuple[str, ...] = ()
    call: str = ""


class Throttle(NamedTuple):
    """The rate that a step waits for, and how often that was put on record."""

    rule: str
    policy: str
    most: int
    per_s: float
    until: int
    times: int = 1

    def is_news(self, rule: str, per_s: float, until: int) -> bool:
        """Whether it goes on record that a rate makes the step wait until then.

        Where many wait for one rate, each is passed over many times: a journal that told of every time would grow by
        the square of how many they are.
        """
        gap_ms = _SAME_MS if self.times < OFTEN else per_s * 1000 * 2 ** min(self.times - OFTEN, 60)
        return rule != self.rule or abs(until - self.until) >= gap_ms

    @property
    def words(self) -> str:
        """The rule and its rate, for a person."""
        return f"rule {self.rule} ({rate_words(self.most, self.per_s)})"


def rate_words(most: int, per_s: float) -> str:
    """A rate as its rule says it: so many per so long."""
    for unit, seconds in (("d", 86_400), ("h", 3600), ("min", 60)):
        if per_s > 60 and per_s % seconds == 0:  # noqa: PLR2004 - a minute is told in seconds
            return f"{most} per {per_s / seconds:g} {unit}"
    return f"{most} per {per_s:g} s"


SettlingEvent: TypeAlias = e.StepEvent | e.ApprovalEvent | e.IncidentResolved


@dataclass(frozen=True, kw_only=True)
class Step:
    """One place in a saga. `number` is its place in the order of intents; 0 before the first."""

    id: StepId
    contract: Contract
    args: Json
    digest: str
    status: StepStatus = StepStatus.PROPOSED
    number: int = 0
    attempts: int = 0
    renewed_at: int = 0
    probes: int = 0
    undo_attempts: int = 0
    undo_renewed_at: int = 0
    retry_at: int | None = None
    key: str = ""
    """That of its attempts, as its intent has it; empty before the first."""
    result: Json = None
    before: Json = None
    layer: str = ""
    """Of an action that works on files: what it changed, as number:digest."""
    seen: tuple[Json] | None = None
    """How the world looked right after its success, where that was asked; its compensation looks again."""
    queued_until: int = 0
    throttle: Throttle | None = None
    """What it waits for, where a rule's rate lets no more of its kind pass just now."""
    deadlocked: bool = False
    error: str = ""
    where: str = ""
    """Where in somebody's code the exception was raised that `error` tells of; empty where there was none."""
    reasons: tuple[str, ...] = ()
    """Why its attempts did not succeed, the newest last, and not all of many."""
    fatal: bool = False
    final: bool = False
    """It is not repeated, whatever a probe says: its code would fail in the same way again."""
    given_up: bool = False
    """The definition has been told that this step is over; a success after that is not its wish any more."""
    unsure: bool = False
    """An attempt was lost, and nothing has settled it: that a later one certainly failed says nothing of this one."""
    certain: bool = True
    turn: int = 0
    late: bool = False
    reports: int = 0
    """How often an attempt has reported late: what a probe was asked before says nothing of what came after."""
    trouble: e.IncidentKind | None = None
    approval: Approval | None = None
    after: tuple[StepId, ...] | None = None
    """What it was declared to be after, where its definition is a graph; else None: after all that came before."""
    repeats: bool = False
    """An attempt was lost, and a person has it done once more all the same."""
    let_run_by: str = ""
    """Who has its compensation run against the gate."""
    named: bool = False
    """An open incident stopped at it: the rollback goes on without it where its contract says so, else no further."""
    accepted: bool = False
    """It is held until the saga has settled: allowed, and approved where that is needed."""
    entry: int = 0
    """The number of the entry that proposed it, or that said where it is done."""
    ahead: Ahead | None = None
    """Where people were asked about it before it was to be done."""
    releasing: bool = False
    """What its child holds has begun to go out."""
    released: bool = False
    """Its child holds nothing any more."""
    rewind: StepId | None = None
    """The rewind that has set it aside: its definition does not count on it any more."""
    told: Told | None = None
    """What the definition was told about it, kept from when it begins to be taken back, or a person vouches for it."""
    forgotten: bool = False
    """The definition, when it is called again, does not ask for it: it does it anew."""
    denied_by: str = ""
    """The rule that denied it; empty where people did, or nobody."""
    call: str = ""
    """The caller's own id of it, in an open saga; empty where it has none."""

    @property
    def why(self) -> str:
        """Its error and, where it was raised in somebody's code, the place."""
        return located(self.error, self.where)

    @property
    def wake_at(self) -> int | None:
        """When something is due for it, where it only waits."""
        if self.status is _S.AWAITING and self.approval is not None:
            return self.approval.expires_at
        if self.throttle is not None and self.is_throttled:
            return self.throttle.until
        return self.queued_until if self.status is _S.QUEUED else self.retry_at

    @property
    def is_throttled(self) -> bool:
        """Whether it is to go forward, and waits for a rate."""
        return self.throttle is not None and self.status in _JUDGED and self.rewind is None

    @property
    def is_idle(self) -> bool:
        """Whether it waits for others, or for a rate: nothing in it is due by itself."""
        return self.status in IDLE or self.is_throttled

    @property
    def place(self) -> StepId:
        """Where the definition does it; what takes that place back takes it back."""
        return self.id if self.ahead is None or self.ahead.place is None else self.ahead.place

    @property
    def wanted(self) -> bool:
        """Whether it is to be done, and not only asked about."""
        return self.ahead is None or self.ahead.place is not None

    @property
    def topic(self) -> Topic:
        return self.contract.topic

    @property
    def standing(self) -> bool:
        """Whether something of it may stand in the world."""
        return self.status in _STANDING and self.contract.side_effect

    @property
    def owed(self) -> bool:
        """Whether a rollback cannot pass it."""
        return self.standing and not (self.named and self.contract.goes_on)

    @property
    def unsettled(self) -> bool:
        """Whether something of it may stand that the definition does not count on."""
        doubtful = self.status in _DOUBTFUL or (self.status is _S.SUCCEEDED and self.given_up)
        return doubtful and self.contract.side_effect

    @property
    def lends(self) -> bool:
        """Whether it called a child that has done its work, and holds something until nothing can fail any more."""
        if self.topic != CALL or self.status is not _S.SUCCEEDED or self.given_up or self.rewind is not None:
            return False
        return not self.released and isinstance(self.result, dict) and self.result.get(HOLDS) is True

    @property
    def is_asked_about(self) -> bool:
        """Whether nobody knows its outcome, and something can be asked: the answer may be a long time coming."""
        return self.status is _S.UNKNOWN and self.contract.probe

    @property
    def held(self) -> bool:
        """Whether it waits for the saga to settle, or is being released."""
        return self.accepted and self.status in _HELD

    @property
    def releasable(self) -> bool:
        """Whether it is held, and trying it again could not do it twice."""
        return self.held and (self.status is not _S.UNKNOWN or self.contract.repeatable or self.contract.probe)

    @property
    def doubtful(self) -> bool:
        """Whether a saga cannot count as complete before this step is settled."""
        return self.unsettled and not self.named


class Flag(NamedTuple):
    """Facts that may make a field of a step true, and false; the functions that go by it, as module and name."""

    set_by: tuple[type[e.Event], ...]
    cleared_by: tuple[type[e.Event], ...]
    read_by: str


FLAGS: Final[Mapping[str, Flag]] = {
    "deadlocked": Flag((e.LockRefused,), (e.LockRefused,), "exceptions.step_error"),
    "fatal": Flag(
        (e.AttemptFailed, e.AttemptLost),
        (e.AttemptFailed, e.AttemptLost, e.AttemptStarted, e.IncidentRetried),
        "step.told_of incidents._mitigate_incident",
    ),
    "final": Flag(
        (e.AttemptLost,),
        (e.AttemptFailed, e.AttemptLost, e.AttemptStarted, e.IncidentRetried),
        "decide._answer decide._ask_again_at",
    ),
    "given_up": Flag(
        (
            *(e.AttemptFailed, e.AttemptLost, e.ProbeFoundNothing, e.ProbeUnanswered, e.LateLossEnrolled),
            *(e.LockRefused, e.RewindStarted, e.WorkFinished, e.SagaCompleted),
        ),
        (e.AttemptFailed, e.AttemptLost, e.AttemptStarted, e.IncidentRetried),
        "plan.forward decide._answer decide._ask_again_at limits._is_over step.unsettled step.lends step.told_of "
        "step._ended_late step._probed saga._when_closed saga._evolve_step",
    ),
    "unsure": Flag(
        (e.AttemptLost, e.LateLossEnrolled, e.LateSuccessEnrolled),
        (e.AttemptSucceeded, e.ProbeFound, e.ProbeFoundNothing, e.LateSuccessEnrolled),
        "decide._outcome incidents.may_be_doubled step._ended_badly",
    ),
    "certain": Flag(
        (e.AttemptSucceeded, e.ProbeFound, e.LateSuccessEnrolled, e.CompensationStarted),
        (e.LateLossEnrolled, e.LateSuccessEnrolled, e.CompensationStarted),
        "plan.backward",
    ),
    "late": Flag(
        (e.LateSuccessEnrolled, e.LateLossEnrolled),
        (e.LateSuccessEnrolled, e.LateLossEnrolled, e.ProbeFound, e.ProbeFoundNothing, e.MitigationSucceeded),
        "plan._unknown plan.backward incidents.enrol_late step._ended_late",
    ),
    "repeats": Flag((e.IncidentRetried,), (e.IncidentRetried, e.AttemptStarted), "decide._start_attempt"),
    "named": Flag(
        (e.IncidentOpened,),
        (e.IncidentRetried, e.IncidentResolved),
        "plan.plan plan._rolling_back plan.rewinding incidents.open_incident incidents._left rewinds.end_rewind "
        "step.owed step.doubtful",
    ),
    "accepted": Flag((e.ActionAllowed, e.ApprovalGranted, e.StepPlaced), (), "step.held saga._evolve_step"),
    "releasing": Flag(
        (e.ReleaseStarted,),
        (),
        "plan.is_pivot plan.pivot_says decide._release incidents.require_mitigable rewinds._require_no_release "
        "saga._waits_after_work saga._evolve_step step.changed",
    ),
    "released": Flag((e.ReleaseEnded,), (e.ReleaseStarted,), "step.lends"),
    "forgotten": Flag((e.RewindStarted,), (), "rewinds.steps_above rewinds._set_aside"),
}
"""What is possible for a step, the tables of `transitions` say by its status; what is due depends on these, too."""


def located(error: str, where: str) -> str:
    """Words of an exception, with the place where it was raised, for a person; without one, only what it says."""
    return f"{error} ({where})" if where else error


def changed(step: Step, event: SettlingEvent, status: StepStatus) -> Step:
    step = step if step.throttle is None or isinstance(event, e.StepThrottled) else altered(step, throttle=None)
    if isinstance(event, e.AttemptSucceeded):  # as most do; a `match` that takes out fields is dear
        return altered(
            step,
            status=status,
            result=event.result,
            certain=True,
            unsure=False,
            error=event.opaque,
            where="",
            layer=event.layer,
        )
    match event:
        case e.CompensationStarted() | e.CompensationSucceeded() | e.CompensationFailed():
            return _taken_back(step, event, status)
        case e.AttemptStarted():
            return _attempted(step, event, status)
        case e.AttemptFailed() | e.AttemptLost():
            return _ended_badly(step, event, status)
        case e.ProbeFound() | e.ProbeFoundNothing() | e.ProbeUnanswered():
            return _probed(step, event, status)
        case e.LateSuccessEnrolled() | e.LateLossEnrolled():
            return _ended_late(step, event, status)
        case e.CompensationLost() | e.CompensationDenied():
            return _taken_back(step, event, status)
        case e.MitigationStarted() | e.MitigationSucceeded() | e.MitigationFailed():
            return _mitigated(step, event, status)
        case e.MitigationLost() | e.MitigationDenied():
            return _mitigated(step, event, status)
        case e.BeforeCaptured(before=before):
            return altered(step, status=status, before=before)
        case e.AfterCaptured(after=after):
            return altered(step, status=status, seen=(after,))
        case e.LockAwaited() | e.StepThrottled() | e.LockRefused() | e.ActionDenied():
            return _held_up(step, event, status)
        case e.IncidentResolved():
            return altered(step, status=status, told=told_of(step))
        case e.ActionAllowed() | e.LockTaken() | e.StepPlaced() | e.StepDropped():
            return altered(step, status=status)
        case e.ReleaseStarted() | e.ReleaseEnded():
            over = isinstance(event, e.ReleaseEnded)
            return altered(step, status=status, releasing=step.releasing or not over, released=over)
        case (
            e.ApprovalRequested()
            | e.ApprovalSigned()
            | e.ApprovalGranted()
            | e.ApprovalRefused()
            | e.ApprovalExpired()
            | e.ApprovalVoided()
            | e.ApprovalUsed()
        ):
            return _approved(step, event, status)
        case _:
            assert_never(event)


def placed(step: Step, ahead: Ahead, event: e.StepPlaced, entry: int) -> Step:
    """A step that was asked ahead, at the place where it is done."""
    signers = () if step.approval is None else step.approval.signers
    moved = Ahead(ahead.entry, event.place, signers, step.call)
    return altered(step, entry=entry, ahead=moved, call=event.call or step.call)


def _attempted(step: Step, event: e.AttemptStarted, status: StepStatus) -> Step:
    return altered(
        step,
        status=status,
        attempts=event.attempt,
        key=event.key,
        retry_at=None,
        probes=0,
        fatal=False,
        final=False,
        given_up=False,
        repeats=False,
    )


def _probed(step: Step, event: e.ProbeFound | e.ProbeFoundNothing | e.ProbeUnanswered, status: StepStatus) -> Step:
    match event:
        case e.ProbeFound(result=result, opaque=opaque):
            sure = altered(step, certain=True, late=False, unsure=False)
            return altered(sure, status=status, result=result, retry_at=None, error=opaque, where="")
        case e.ProbeFoundNothing(retry_at=at):
            given_up = step.given_up or at is None
            return altered(step, status=status, retry_at=at, given_up=given_up, late=False, unsure=False)
        case e.ProbeUnanswered(retry_at=at):
            return altered(
                step, status=status, retry_at=at, given_up=step.given_up or at is None, probes=step.probes + 1
            )
        case _:
            assert_never(event)


def _held_up(
    step: Step, event: e.LockAwaited | e.StepThrottled | e.LockRefused | e.ActionDenied, status: StepStatus
) -> Step:
    match event:
        case e.LockAwaited(until=until):
            return altered(step, status=status, queued_until=until)
        case e.StepThrottled():
            return altered(step, status=status, throttle=_throttled(step, event))
        case e.LockRefused(error=error, deadlock=deadlock):
            refused = altered(step, deadlocked=deadlock, retry_at=None, given_up=True)
            return altered(refused, status=status, error=error, where="")
        case e.ActionDenied(rule=rule, why=why):
            return altered(step, status=status, error=why, where="", denied_by=rule)
        case _:
            assert_never(event)


def _throttled(step: Step, event: e.StepThrottled) -> Throttle:
    times = 1 if step.throttle is None else step.throttle.times + 1
    return Throttle(event.rule, event.policy, event.most, event.per_s, event.until, times)


def told_of(step: Step) -> Told:
    """The end of a step that is over, as the definition was, or would have been, told of it."""
    if step.told is not None:
        return step.told
    lost = step.status is _S.SUCCEEDED and step.given_up and step.rewind is None
    return Told(_S.UNKNOWN if lost else step.status, step.error, step.fatal, step.where)


def _ended_badly(step: Step, event: e.AttemptFailed | e.AttemptLost, status: StepStatus) -> Step:
    return altered(
        step,
        status=status,
        error=event.error,
        where=event.where,
        fatal=event.fatal,
        final=isinstance(event, e.AttemptLost) and event.final,
        retry_at=event.retry_at,
        given_up=event.retry_at is None,
        unsure=step.unsure or isinstance(event, e.AttemptLost),
        reasons=(*step.reasons, event.error)[-KEPT_REASONS:],
    )


def _ended_late(step: Step, event: e.LateSuccessEnrolled | e.LateLossEnrolled, status: StepStatus) -> Step:
    again = step.status in _TAKEN_BACK
    late = (again and status is not _S.UNCOMPENSATED) or (step.late and status is _S.UNKNOWN)
    seen = altered(step, status=status, late=late, turn=step.turn + again, probes=0, reports=step.reports + 1)
    if isinstance(event, e.LateSuccessEnrolled):
        counts = status is _S.SUCCEEDED and not step.given_up
        return altered(
            seen,
            result=event.result,
            certain=not again,
            unsure=status is _S.RUNNING,
            error=event.opaque if counts else step.error,
            where="" if counts else step.where,
            retry_at=None if late else step.retry_at,
        )
    may_settle = step.contract.probe or step.contract.repeatable
    retry_at = step.retry_at if status is not _S.UNKNOWN or (may_settle and not late) else None
    over = status is _S.UNKNOWN and retry_at is None
    unsure = altered(seen, certain=False, unsure=True, retry_at=retry_at, given_up=step.given_up or over)
    return altered(unsure, error=event.error, where=event.where)


_BackEvent: TypeAlias = (
    e.CompensationStarted | e.CompensationSucceeded | e.CompensationFailed | e.CompensationLost | e.CompensationDenied
)


def _taken_back(step: Step, event: _BackEvent, status: StepStatus) -> Step:
    step = step if step.told is not None else altered(step, told=told_of(step))
    match event:
        case e.CompensationStarted(attempt=attempt, certain=certain):
            return altered(step, status=status, undo_attempts=attempt, certain=certain, retry_at=None, trouble=None)
        case e.CompensationSucceeded():
            return altered(step, status=status, error="", where="")
        case e.CompensationFailed(error=error, changed_since=changed, retry_at=at, where=where):
            kind = e.IncidentKind.CHANGED_SINCE if changed else e.IncidentKind.COMPENSATION_FAILED
            return altered(step, status=status, error=error, where=where, retry_at=at, trouble=kind)
        case e.CompensationLost(error=error, timed_out=timed_out, retry_at=at, where=where):
            kind = e.IncidentKind.COMPENSATION_TIMED_OUT if timed_out else e.IncidentKind.COMPENSATION_FAILED
            return altered(step, status=status, error=error, where=where, retry_at=at, trouble=kind)
        case e.CompensationDenied(why=why):
            return _denied_back(step, status, why, e.IncidentKind.COMPENSATION_DENIED)
        case _:
            assert_never(event)


def _mitigated(step: Step, event: e.MitigationEvent, status: StepStatus) -> Step:
    step = step if step.told is not None else altered(step, told=told_of(step))
    match event:
        case e.MitigationStarted(attempt=attempt):
            return altered(step, status=status, undo_attempts=attempt, retry_at=None, trouble=None)
        case e.MitigationSucceeded():
            return altered(step, status=status, error="", where="", late=False)
        case e.MitigationFailed(error=error, changed_since=changed, retry_at=at, where=where):
            kind = e.IncidentKind.CHANGED_SINCE if changed else e.IncidentKind.MITIGATION_FAILED
            return altered(step, status=status, error=error, where=where, retry_at=at, trouble=kind)
        case e.MitigationLost(error=error, timed_out=timed_out, retry_at=at, where=where):
            kind = e.IncidentKind.MITIGATION_TIMED_OUT if timed_out else e.IncidentKind.MITIGATION_FAILED
            return altered(step, status=status, error=error, where=where, retry_at=at, trouble=kind)
        case e.MitigationDenied(why=why):
            return _denied_back(step, status, why, e.IncidentKind.MITIGATION_DENIED)
        case _:
            assert_never(event)


def _denied_back(step: Step, status: StepStatus, why: str, kind: e.IncidentKind) -> Step:
    return altered(step, status=status, error=why, where="", retry_at=None, trouble=kind)


def _approved(step: Step, event: e.ApprovalEvent, status: StepStatus) -> Step:
    old = step.approval
    if isinstance(event, e.ApprovalRequested):
        asked = Approval(
            number=1 if old is None else old.number + 1,
            digest=event.digest,
            shown=event.shown,
            rule=event.rule,
            policy=event.policy,
            needs=event.needs,
            expires_at=event.expires_at,
        )
        return altered(step, status=status, approval=asked)
    if old is None:
        raise JournalDamagedError(f"step {step.id}: {type(event).__name__}, and nobody was asked")
    new = APPROVAL[old.status].get(type(event))
    if new is None:
        raise JournalDamagedError(f"step {step.id}: {type(event).__name__}, and its approval is {old.status}")
    answered = altered(old, status=new)
    match event:
        case e.ApprovalSigned(by=by) | e.ApprovalGranted(by=by):
            return altered(step, status=status, approval=altered(answered, signers=(*old.signers, by)))
        case e.ApprovalRefused(by=by, why=why):
            return altered(step, status=status, approval=answered, error=f"{by} refused it: {why}", where="")
        case e.ApprovalExpired():
            late = "its approval was not given, or not used, in time"
            return altered(step, status=status, approval=answered, error=late, where="")
        case e.ApprovalVoided() | e.ApprovalUsed():
            return altered(step, status=status, approval=answered)
        case _:
            assert_never(event)


def waits(step: Step) -> bool:
    return step.is_idle or (step.retry_at is not None and step.status in {_S.FAILED, _S.UNKNOWN})


def renewed(step: Step, *, given_up: bool) -> Step:
    """A person wants it tried again: what was given up is due at once, with a full measure of attempts."""
    if step.status not in {_S.FAILED, _S.UNKNOWN, _S.UNCOMPENSATED, _S.UNMITIGATED}:
        return step
    return altered(
        step,
        retry_at=0,
        given_up=given_up,
        fatal=False,
        final=False,
        probes=0,
        renewed_at=step.attempts,
        undo_renewed_at=step.undo_attempts,
    )
