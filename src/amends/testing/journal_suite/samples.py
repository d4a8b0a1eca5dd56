"""One of everything that can be stored: for the rules, and for whoever tests a codec."""

from __future__ import annotations

from typing import Final

from amends.core import events as e
from amends.core.words.contracts import Contract, OnIncident, Retries, Reversibility, Topic
from amends.core.words.values import Json, StepId
from amends.core.words.verdict import Need
from amends.journal.port.entries import PARENT

STEP: Final = StepId("charge.1")
CHARGE: Final = Topic("payments.charge")

CONTRACT: Final = Contract(
    topic=CHARGE,
    version=3,
    side_effect=True,
    reversibility=Reversibility.COMPENSATABLE,
    no_rollback="because",
    idempotent=True,
    atomic=True,
    probe=True,
    before=True,
    risk=("money", "pii"),
    timeout_s=2.5,
    retries=Retries(attempts=3, first_s=0.5, cap_s=9.0),
    undo_timeout_s=12.0,
    undo_retries=Retries(attempts=7),
    on_incident=OnIncident.GO_ON,
)

# Everything that JSON can hold and that a careless codec would lose: order, widths, scripts, emptiness, limits.
PAYLOAD: Final[Json] = {
    "text": 'quotes " and \\ and \n and \u2028 and é and 日本 and 😀',
    "": {"nested": [None, True, False, [], {}, [[1]]]},
    "\ufb33 before \U0001f600": "keys are sorted by UTF-16",
    "\U0001f600": 1,
    "numbers": [0, -1, 2**53 - 1, -(2**53) + 1, 0.1, -2.5, 1e300, 5e-324, 1e21, 123456.789],
}


def started(
    *,
    definition: str = "trip.book",
    env: str = "production",
    actor: str = "agent:ann",
    about: Json = None,
    parent: str = "",
) -> e.SagaStarted:
    labels = {"team": "travel", "ключ": "значение", **({PARENT: parent} if parent else {})}
    return e.SagaStarted(definition=definition, version=2, input=about, actor=actor, env=env, labels=labels)


def proposed(step: str = STEP, topic: str = CHARGE, args: Json = None, *, is_first: bool = True) -> e.StepProposed:
    contract = Contract(topic=Topic(topic)) if is_first else None
    return e.StepProposed(
        step=StepId(step), topic=Topic(topic), version=1, args=args, digest="d" * 64, contract=contract
    )


def resumed(by: str = "ann") -> e.WorkResumed:
    return e.WorkResumed(by=by)


def succeeded(result: Json) -> e.AttemptSucceeded:
    return e.AttemptSucceeded(step=STEP, attempt=1, result=result)


def walked(step: str, *, args: Json = None, is_first: bool = True) -> tuple[e.Event, ...]:
    """Events that one ordinary step leaves behind."""
    name = StepId(step)
    return (
        proposed(step, args=args, is_first=is_first),
        e.ActionAllowed(step=name, rule="builtin", policy="p" * 64),
        e.AttemptStarted(step=name, attempt=1, key="k" * 32),
        e.AttemptSucceeded(step=name, attempt=1, result={"id": "ch_1"}),
    )


def opened(number: int = 1, step: str | None = STEP) -> e.IncidentOpened:
    where = None if step is None else StepId(step)
    left = () if where is None else (where, StepId("hotel.1"))
    return e.IncidentOpened(
        incident=number, kind=e.IncidentKind.COMPENSATION_FAILED, step=where, why="no luck", left=left
    )


def requested(step: str = STEP, rule: str = "two-people") -> e.ApprovalRequested:
    return e.ApprovalRequested(
        step=StepId(step),
        digest="d" * 64,
        shown={"topic": CHARGE, "args": {"cents": 5}},
        rule=rule,
        policy="p" * 64,
        needs=(Need(rule=rule, approvals=2, approvers=("person:*",)),),
        expires_at=1_700_000_060_000,
    )


EVERY_EVENT: Final[tuple[e.Event, ...]] = (
    started(about=PAYLOAD),
    e.WorkFinished(result=PAYLOAD),
    e.SagaCompleted(result=PAYLOAD),
    e.FamilySettled(by="saga:top"),
    e.ReleaseStarted(step=STEP),
    e.ReleaseEnded(step=STEP),
    e.RollbackAwaited(cause=e.Cause.FATAL, why="broken", step=STEP, by="system:runtime"),
    e.RollbackAwaited(cause=e.Cause.LIMIT, why="", step=None, by="ann", to=STEP, above=3, floor=2),
    e.RollbackStarted(cause=e.Cause.FATAL, why="broken", step=STEP, by="system:runtime", deadline_at=5),
    e.RollbackStarted(cause=e.Cause.CANCELLED, why="", step=None, by="ann", deadline_at=5),
    e.RollbackStarted(cause=e.Cause.CANCELLED, why="", step=None, by="person:ann", deadline_at=5, mitigate=True),
    e.RollbackResumed(by="ann", deadline_at=2**53 - 1),
    e.RollbackResumed(by="person:ann", deadline_at=7, mitigate=True),
    e.WorkResumed(by="ann"),
    e.WorkResumed(by="ann", deadline_at=5),
    e.CheckpointMade(place=STEP, name="before the payment"),
    e.RewindStarted(
        place=STEP, steps=(STEP,), why="declined", by="system:runtime", deadline_at=5, step=STEP, to=STEP, attempt=2
    ),
    e.RewindStarted(place=None, steps=(), why="", by="ann", deadline_at=5, above=3),
    e.RewindEnded(place=STEP, taken_back=(STEP,)),
    e.RewindEnded(place=None, taken_back=()),
    e.StepPlaced(step=STEP, place=StepId("4")),
    e.StepDropped(step=STEP, why="the saga is rolled back"),
    e.SagaRolledBack(),
    e.SagaMitigated(),
    e.SagaHalted(),
    e.StepProposed(step=STEP, topic=CHARGE, version=3, args=PAYLOAD, digest="d" * 64, contract=CONTRACT),
    proposed(),
    proposed(is_first=False),
    e.ActionDispatched(
        step=STEP, topic=CHARGE, version=3, args=PAYLOAD, digest="d", rule="r", policy="p", key="k", contract=CONTRACT
    ),
    e.ActionDispatched(step=STEP, topic=CHARGE, version=3, args=None, digest="d", rule="r", policy="p", key="k"),
    e.ActionAllowed(step=STEP, rule="builtin", policy="p" * 64),
    e.ActionDenied(step=STEP, rule="no", policy="p" * 64, why="not in production"),
    e.StepThrottled(step=STEP, rule="slowly", policy="p" * 64, most=20, per_s=60.0, until=7),
    e.BeforeCaptured(step=STEP, before=PAYLOAD),
    e.LockAwaited(step=STEP, resources=("account:1", "account:2"), holder="another", until=7),
    e.LockTaken(step=STEP),
    e.LockRefused(step=STEP, error="a deadlock", deadlock=True),
    e.LockRefused(step=STEP, error="too long"),
    e.AttemptStarted(step=STEP, attempt=1, key="k" * 32),
    e.AttemptSucceeded(step=STEP, attempt=1, result=PAYLOAD),
    e.AttemptSucceeded(step=STEP, attempt=1, result=None, opaque="a socket cannot be kept"),
    e.AfterCaptured(step=STEP, after=PAYLOAD),
    e.AttemptFailed(step=STEP, attempt=1, error="no", fatal=True, retry_at=None),
    e.AttemptLost(step=STEP, attempt=1, error="timeout", fatal=False, retry_at=7),
    e.ProbeFound(step=STEP, result=PAYLOAD),
    e.ProbeFoundNothing(step=STEP, retry_at=7),
    e.ProbeUnanswered(step=STEP, error="down", retry_at=None),
    e.LateSuccessEnrolled(step=STEP, attempt=2, result=PAYLOAD),
    e.LateLossEnrolled(step=STEP, attempt=2, error="no answer in 10 s"),
    e.CompensationStarted(step=STEP, attempt=1, key="k" * 32, certain=False, rule="r", policy="p" * 64),
    e.CompensationSucceeded(step=STEP, attempt=1),
    e.CompensationFailed(step=STEP, attempt=1, error="no", changed_since=True, retry_at=None),
    e.CompensationLost(step=STEP, attempt=1, error="no", timed_out=True, retry_at=9),
    e.CompensationDenied(step=STEP, rule="r", policy="p" * 64, why="no"),
    e.MitigationStarted(step=STEP, attempt=1, key="k" * 32, rule="r", policy="p" * 64),
    e.MitigationSucceeded(step=STEP, attempt=1),
    e.MitigationFailed(step=STEP, attempt=1, error="no", changed_since=False, retry_at=None),
    e.MitigationLost(step=STEP, attempt=1, error="no", timed_out=True, retry_at=9),
    e.MitigationDenied(step=STEP, rule="r", policy="p" * 64, why="no"),
    requested(),
    e.ApprovalSigned(step=STEP, by="person:ann", digest="d" * 64),
    e.ApprovalGranted(step=STEP, by="person:bob", digest="d" * 64, why="it is fine"),
    e.ApprovalRefused(step=STEP, by="bob", why="too much"),
    e.ApprovalExpired(step=STEP),
    e.ApprovalVoided(step=STEP, why="the policy changed"),
    e.ApprovalUsed(step=STEP, digest="d" * 64),
    opened(),
    opened(2, None),
    e.IncidentAssigned(incident=1, owner="person:ann", by="person:bob"),
    e.IncidentCommented(incident=1, by="person:ann", text="the bank is closed"),
    e.IncidentRetried(incident=1, by="ann"),
    e.IncidentRetried(incident=1, by="person:ann", let_run=True),
    e.IncidentRetried(incident=1, by="person:ann", repeat=True),
    e.IncidentRetried(incident=1, by="person:ann", mitigate=True),
    e.IncidentResolved(incident=2, by="ann", reason="refunded by hand", settled=(STEP,)),
    e.IncidentResolved(incident=2, by="person:ann", reason="by hand", settled=(), proof="ticket 7"),
    e.IncidentResolved(incident=2, by="person:ann", reason="it goes back", settled=(), mitigate=True),
    e.BudgetSpent(place=StepId("4"), tokens=1200, usd_micros=420_000, what="the plan"),
    e.ChildSpent(step=StepId("5"), tokens=300, usd_micros=70_000, steps=2),
    e.LimitReached(limit="usd", most=5_000_000, used=5_200_000, then="call", why="5.2 USD spent"),
    e.LimitRaised(limit="usd", most=10_000_000, by="person:ann", why="worth it"),
    e.PolicyAdopted(digest="d" * 64, text="version: v1\nrules: []\n", by="person:ann", why="the first"),
    e.PersonEnrolled(person="person:ann", key="ssh-ed25519 AAAA", by="person:ann", recovery=True, signed="3:ab"),
    e.PersonRevoked(person="person:ann", key="SHA256:abc", by="person:ann", why="left", signed="4:cd"),
    e.WaitStarted(place=StepId("3"), name="paid", until=1_700_000_000_000),
    e.SignalReceived(number=1, name="paid", payload={"cents": 300}, by="person:ann"),
    e.WaitEnded(place=StepId("3"), signal=1),
    e.SagaPaused(by="person:ann", why="the bank is down", pause=3),
    e.DispatchPaused(
        topic="payments.*", definition="", tenant="acme", rollbacks=True, by="person:ann", why="the bank is down"
    ),
    e.DispatchUnpaused(pause=3, by="person:ann", why="it is back"),
    e.HoldPlaced(saga="s-1", by="person:ann", why="a court asks"),
    e.HoldLifted(saga="s-1", by="person:ann", why="the case is closed"),
    e.ContentRemoved(entries=4, by="person:ann", why="the year is over", own=True, was_gone=True),
    e.DrillMissed(saga="trip.book", target="trip:book", last_at=1, every_s=604_800.0, by="system:local"),
    e.TokenMade(
        name="agent:shop", digest="5d", scopes=("run",), definitions=("shop.*",), expires_at=9, by="person:ann"
    ),
    e.TokenRevoked(digest="5d", by="person:ann", why="it was in a log"),
)
