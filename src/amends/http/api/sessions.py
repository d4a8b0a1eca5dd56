"""Sessions over HTTP: an agent in any language opens one, proposes steps, makes the calls that are allowed, reports.

The journal has every step before its call is made. What the caller is told of a step is one of these states:

| state | what the caller does |
|---|---|
| perform | makes the call, with the key, and reports how it ended to `/v1/attempts/{token}/outcome` |
| succeeded, failed, lost, denied | goes on with that: it is on record |
| pending | asks again, by the same call: people are asked first |
| running | asks again, by the same call |
| child | drives the session that is named, and asks again, by the same call |
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, Literal, TypedDict, cast

from amends.clock import SystemClock
from amends.core.events import IncidentKind, WaitEnded
from amends.core.state.rewinds import is_asked_anew
from amends.core.state.saga import Saga, Step
from amends.core.transitions import IncidentStatus, SagaStatus
from amends.core.words.values import BUILT_IN, SESSION, SagaId, StepId
from amends.errors import InputError, SessionNotOpenError
from amends.http.api.operations import At, Operation, get, post
from amends.http.api.sagas import checked_limit, told
from amends.http.api.shapes import ANY, SOME_OBJECT, TEXT, TRUTH, WHOLE, many, maybe, page, record
from amends.http.callers import Scope
from amends.http.references import received, received_args, told as spelled
from amends.http.sessions import ChildRequest, Fields, OpenRequest, OpenSession
from amends.journal.port.journal import Entry, SagaQuery
from amends.operate.fields import ended_fields
from amends.remote.contracts import DeclaredContract
from amends.remote.errors import failure
from amends.runtime.declare.limits import Limit, Limits, to_checkpoint
from amends.runtime.engine.handle import Ended, ended
from amends.runtime.saga.calls import checked_call
from amends.runtime.saga.rewind import Feedback, feedback_of
from amends.runtime.saga.session import Session

LONGEST_WAIT_S: Final = 60.0
_SETTLING_S: Final = 2.0
_UNFINISHED: Final = (SagaStatus.RUNNING, SagaStatus.WAITING, SagaStatus.PAUSED)


_Response = Literal["rollback", "pause", "call"]


class _Checkpoint(TypedDict):
    checkpoint: str


class DeclaredCheckpoint(_Checkpoint, total=False):
    """Back to a checkpoint, and on from there: `to_checkpoint`."""

    guidance: str
    times: int


class _Most(TypedDict):
    most: int | float | str


class DeclaredLimit(_Most, total=False):
    """One limit with a response of its own."""

    then: _Response | DeclaredCheckpoint
    stop_children: bool


class DeclaredLimits(TypedDict, total=False):
    tokens: int | DeclaredLimit
    usd: float | str | DeclaredLimit
    seconds: float | DeclaredLimit
    steps: int | DeclaredLimit
    failures: int | DeclaredLimit
    retries: int | DeclaredLimit
    spin: int | DeclaredLimit
    then: _Response | DeclaredCheckpoint
    stop_children: bool


def limits_of(declared: DeclaredLimits | None) -> Limits | None:
    if declared is None:
        return None
    said = cast("dict[str, Any]", declared)
    return Limits(**{name: _response(value) if name == "then" else _limit(value) for name, value in said.items()})


def _limit(value: Any) -> Any:  # noqa: ANN401 - an amount, a limit, or whether children are stopped
    if not isinstance(value, dict):
        return value
    said = cast("dict[str, Any]", value)
    then = _response(said.get("then", "rollback"))
    return Limit(said["most"], then=then, stop_children=said.get("stop_children", False))


def _response(then: str | DeclaredCheckpoint) -> Any:  # noqa: ANN401 - a response, in one of its two forms
    if isinstance(then, str):
        return then
    return to_checkpoint(then["checkpoint"], then.get("guidance", ""), times=then.get("times", 1))


async def open_session(  # noqa: PLR0913 - one for each thing that can be said of it
    at: At,
    *,
    name: str,
    id: str | None = None,
    labels: dict[str, str] | None = None,
    limits: DeclaredLimits | None = None,
    idle: str | float = "1h",
    on_idle: Literal["call", "rollback", "keep"] = "call",
    input: dict[str, Any] | None = None,
    client: str = "",
    contracts: list[DeclaredContract] | None = None,
    starts_over: bool = False,
    wait: float = 10.0,
) -> object:
    """Open a session, a saga that you drive step by step; or take it up again, by its id.

    `holder` is yours: it goes along with everything that you ask of the session, until somebody opens it again. While
    its `state` is settling, calls that were lost are asked about or made again: take its tasks, and open it once more.
    `input` is what it is about, for the record. `contracts` are those of your actions. `client`: the id under which you
    take its tasks, where you do. `starts_over`: where a part of it is taken back from outside, you hold it no more;
    open it again then, and ask for everything anew.
    """
    asked = OpenRequest(
        name=name,
        id=id or SystemClock().new_id(),
        labels=labels,
        limits=limits_of(limits),
        idle=idle,
        on_idle=on_idle,
        input=None if input is None else received_args(input),
        client=client,
        starts_over=starts_over,
    )
    one = await at.served.sessions.open(asked, at.caller, contracts or [], checked_wait(wait), at.request)
    state = "open" if one.opened.done() else "settling"
    return {"id": one.id, "name": one.name, "actor": one.actor, "holder": one.holder, "state": state}


def checked_wait(wait: float) -> float:
    if not 0 <= wait <= LONGEST_WAIT_S:
        raise InputError(f"wait is {wait:g}; it is 0 to {LONGEST_WAIT_S:g} seconds")
    return wait


def _named(at: At, call: str | None) -> str:
    """A step's own id: what it says, or else the key of the request; without either, each is another one."""
    return checked_call(call if call is not None else at.key or SystemClock().new_id())


async def do_step(
    at: At,
    session: str,
    *,
    holder: str,
    topic: str,
    args: dict[str, Any] | None = None,
    call: str | None = None,
    contract: DeclaredContract | None = None,
    by: Literal["caller", "worker"] = "caller",
    wait: float = 20.0,
) -> object:
    """Do one step: judged, on record before its call is made, remembered once it is done.

    `call`, or else the request's Idempotency-Key, is your own id of it: the same again is the same step, and answered
    from the record. `by` worker: its call is a task for whoever takes tasks of its topic, and not for you.
    """
    one, opened = await _held(at, session, holder)
    return await at.served.sessions.step(
        one,
        opened,
        topic=topic,
        args=args or {},
        call=_named(at, call),
        contract=contract,
        by_worker=by == "worker",
        wait_s=checked_wait(wait),
    )


async def ask_in_session(
    at: At,
    session: str,
    *,
    holder: str,
    topic: str,
    args: dict[str, Any] | None = None,
    call: str | None = None,
    contract: DeclaredContract | None = None,
    wait: float = 20.0,
) -> object:
    """Have people approve a step before it is to be done; the next step of the same topic and arguments is that one.

    `call` is your own id of the asking: the same again waits for the same people. `succeeded` comes with the names of
    those who approved; `denied`, where they refuse or do not answer in time.
    """
    one, opened = await _held(at, session, holder)
    return await at.served.sessions.ask(
        one,
        opened,
        topic=topic,
        args=args or {},
        call=_named(at, call),
        contract=contract,
        wait_s=checked_wait(wait),
    )


async def call_in_session(  # noqa: PLR0913 - one for each thing that can be said of it
    at: At,
    session: str,
    *,
    holder: str,
    definition: str,
    version: int = 1,
    input: dict[str, Any] | None = None,
    call: str | None = None,
    limits: DeclaredLimits | None = None,
    timeout_s: float | None = None,
    driven: bool = False,
    wait: float = 20.0,
) -> object:
    """Run another saga of yours to its end, as a child of this session: taken back with it, even after it completed.

    In the state `child`, open the session that `child` names, drive it to its end, and ask again with `driven`. What
    has become of it is told as of a step: its result is `result` of `succeeded`.
    """
    at.caller.require_definition(definition)
    one, opened = await _held(at, session, holder)
    asked = ChildRequest(
        definition=definition,
        version=version,
        input=input or {},
        limits=limits_of(limits),
        timeout_s=timeout_s,
    )
    return await at.served.sessions.call(
        one,
        opened,
        child=asked,
        call=_named(at, call),
        is_begun=driven,
        wait_s=checked_wait(wait),
    )


async def settle_in_session(at: At, session: str, *, holder: str, step: str, why: str, wait: float = 20.0) -> object:
    """Have a step that ended badly, and may stand, taken back before something else takes its place.

    Where that takes longer than `wait` seconds, the `state` is `running`: ask again. Else it is `open`.
    """
    wait_s = checked_wait(wait)
    one, opened = await _held(at, session, holder)
    _require_step(one, opened, step)
    under_way = await one.within(f"settle {step}", lambda: opened.settle(step, why), wait_s)
    return _open_once(under_way)


def _open_once(under_way: asyncio.Future[None]) -> Fields:
    if not under_way.done():
        return {"state": "running"}
    under_way.result()
    return {"state": "open"}


def _require_step(one: OpenSession, opened: Session, step: object) -> None:
    if step not in opened.saga.steps:
        raise InputError(f"step {str(step)[:80]!r} is named, and session {one.id} has none of that id")


async def checkpoint_session(at: At, session: str, *, holder: str, name: str) -> object:
    """Mark a place that a rollback can stop at."""
    _, opened = await _held(at, session, holder)
    await opened.checkpoint(name)
    return {"state": "open"}


async def rollback_session_to(at: At, session: str, *, holder: str, name: str, why: str) -> object:
    """Take back all steps since a checkpoint, newest first; the session goes on."""
    _, opened = await _held(at, session, holder)
    return _feedback(await opened.rollback_to(name, why))


async def rollback_session_last(at: At, session: str, *, holder: str, steps: int, why: str) -> object:
    """Take back the newest steps that stand, so many of them; the session goes on."""
    _, opened = await _held(at, session, holder)
    return _feedback(await opened.rollback_last(steps, why))


def _feedback(feedback: Feedback) -> Fields:
    taken_back = [{"step": one.step, "topic": one.topic} for one in feedback.taken_back]
    return {"number": feedback.number, "why": feedback.why, "by": feedback.by, "taken_back": taken_back}


async def wait_in_session(
    at: At,
    session: str,
    *,
    holder: str,
    signal: str | None = None,
    seconds: float | None = None,
    call: str | None = None,
    wait: float = 20.0,
) -> object:
    """Wait for a signal from outside, as long as `seconds`, or for that time alone. It does not count as idle.

    `running` after `wait` seconds: ask again by the same `call`. `succeeded` comes with the signal's `payload`.
    """
    one, opened = await _held(at, session, holder)
    if signal is None and seconds is None:
        raise InputError("say what to wait for: signal, seconds, or both")
    return await at.served.sessions.wait(
        one,
        opened,
        signal=signal,
        seconds=seconds,
        call=_named(at, call),
        wait_s=checked_wait(wait),
    )


async def spend_in_session(
    at: At, session: str, *, holder: str, tokens: int = 0, usd: float | str = 0, what: str = ""
) -> object:
    """Put on record what the work has used up. Where that crosses a limit, the session ends as its limits say."""
    _, opened = await _held(at, session, holder)
    await opened.spend(tokens=tokens, usd=usd, what=what)
    return {"state": "open"}


async def lock_in_session(at: At, session: str, *, holder: str, resources: list[str], wait: float = 20.0) -> object:
    """Keep resources to this session until it has ended. `wait` and `state` as for settle."""
    wait_s = checked_wait(wait)
    one, opened = await _held(at, session, holder)
    under_way = await one.within(f"lock {' '.join(resources)}", lambda: opened.lock(*resources), wait_s)
    return _open_once(under_way)


async def complete_session(
    at: At,
    session: str,
    *,
    holder: str,
    result: Any = None,  # noqa: ANN401 - the caller's own
    wait: float = 20.0,
) -> object:
    """The work is done, with this result. Says how it ended: what was promised for the end is kept first.

    Where that takes longer than `wait` seconds, the `state` is `running`: ask again. Else it is `ended`, or `halted`:
    it waits, for people say, as its `status` says.
    """
    wait_s = checked_wait(wait)
    asked = await _to_end(at, session, holder, SagaStatus.COMPLETED)
    if isinstance(asked, dict):
        return asked
    one, opened = asked
    kept = received(result)
    return await _ended(at, one, "complete", lambda: opened.complete(kept), wait_s)


async def fail_session(at: At, session: str, *, holder: str, error: dict[str, Any], wait: float = 20.0) -> object:
    """The work was left by an error: everything is taken back. Says how it ended.

    `error` has the `type` and the `reason`; that of a step is handed on as it came. `wait` and `state` as for complete.
    """
    wait_s = checked_wait(wait)
    asked = await _to_end(at, session, holder, SagaStatus.ROLLED_BACK)
    if isinstance(asked, dict):
        return asked
    one, opened = asked
    left_by = failure(error)
    if step := getattr(left_by, "step", None):
        _require_step(one, opened, step)
    return await _ended(at, one, "fail", lambda: opened.fail(left_by), wait_s)


async def cancel_session(at: At, session: str, *, holder: str, why: str = "cancelled", wait: float = 20.0) -> object:
    """Take everything back, and end. Says how it ended. `wait` and `state` as for complete."""
    wait_s = checked_wait(wait)
    asked = await _to_end(at, session, holder, SagaStatus.ROLLED_BACK)
    if isinstance(asked, dict):
        return asked
    one, opened = asked
    return await _ended(at, one, "cancel", lambda: opened.cancel(why), wait_s)


async def detach_session(at: At, session: str, *, holder: str) -> object:
    """Leave it open, for whoever opens it again, by its id."""
    one, _ = await _held(at, session, holder)
    one.leave.set()
    if one.owner is not None:
        await asyncio.wait({one.owner})
    return {"state": "left"}


async def _held(at: At, session: str, holder: str) -> tuple[OpenSession, Session]:
    return await at.served.sessions.held(session, holder, at.caller, _SETTLING_S, at.request)


async def _to_end(at: At, session: str, holder: str, status: SagaStatus) -> tuple[OpenSession, Session] | Fields:
    """The session that the caller has end; or how it ended, where it has ended just so, perhaps while this looks."""
    if (over := await _is_over(at, session, status)) is not None:
        return over
    try:
        return await _held(at, session, holder)
    except SessionNotOpenError:
        if (over := await _is_over(at, session, status)) is None:
            raise
        return over


async def _is_over(at: At, session: str, status: SagaStatus) -> Fields | None:
    """How it ended, where it has ended just so: whoever asks again has not heard the answer."""
    row = await at.journal.saga(SagaId(session))
    if row is None or row.status is not status:
        return None
    history = await at.coordinator.show(session)
    at.caller.require_definition(row.definition)
    return {"state": "ended", **ended_fields(ended(history.saga))}


async def _ended(
    at: At, one: OpenSession, verb: str, end: Callable[[], Coroutine[Any, Any, Ended[Any]]], wait_s: float
) -> Fields:
    under_way = await one.within(verb, end, wait_s)
    if not under_way.done():
        history = await at.coordinator.show(one.id)
        return {"state": "running", **ended_fields(ended(history.saga))}
    how = under_way.result()
    if how.status.ended or how.status is SagaStatus.ROLLING_BACK or how.incidents:
        one.leave.set()
    return {"state": "ended" if how.status.ended else "halted", **ended_fields(how)}


async def list_sessions(at: At, *, name: str, limit: int = 50, page: str | None = None) -> object:
    """List unfinished sessions of one name, newest first."""
    if Scope.VIEW not in at.caller.scopes:
        at.caller.require_definition(name)
    found = await at.journal.sagas(
        SagaQuery(
            definition=name, statuses=_UNFINISHED, labels=((SESSION, "open"),), before=page, limit=checked_limit(limit)
        )
    )
    rows = [{"id": row.id, "status": row.status, "started_at": row.started_at} for row in found.rows]
    return {"items": rows, "next": found.cursor}


async def show_session(at: At, session: str) -> object:
    """Show what stands of a session: its steps with what became of each, its checkpoints, what was taken back."""
    shown = await told(at, session)
    if Scope.VIEW not in at.caller.scopes:
        at.caller.require_definition(str(shown["definition"]))
    history = await at.coordinator.show(session)
    saga = history.saga
    begun = saga.begun
    if begun is None or begun.session is None:
        raise InputError(f"saga {session} is no session: it is driven by its definition, {shown['definition']}")
    return {
        "id": session,
        "name": begun.definition,
        "actor": begun.actor,
        "input": spelled(begun.input, session),
        "held": at.served.sessions.is_held(saga.id),
        "ended": ended_fields(ended(saga)),
        "steps": [_step(saga, one) for one in saga.steps.values() if one.call or not one.topic.startswith(BUILT_IN)],
        "vouched_for": [
            one.step
            for one in saga.incidents
            if one.kind is IncidentKind.VERIFICATION_FAILED and one.status is IncidentStatus.RESOLVED
        ],
        "goes_back": saga.rewinding or saga.awaited is not None,
        **_marks(saga, _left_waits(saga, history.entries)),
    }


def _step(saga: Saga, step: Step) -> Fields:
    status, error = (str(step.status), step.error) if step.told is None else (str(step.told.status), step.told.error)
    return {
        "step": step.id,
        "call": step.call,
        "asked": None if step.ahead is None else step.ahead.call or step.call,
        "is_asked_alone": not step.wanted,
        "is_asked_anew": step.forgotten and is_asked_anew(saga, step),
        "signers": _signers(step),
        "topic": step.topic,
        "args": spelled(step.args, saga.id),
        "status": str(step.status),
        "told": status,
        "result": spelled(step.result, saga.id),
        "error": error,
        "is_back": step.rewind is not None,
        "is_forgotten": step.forgotten,
    }


def _signers(step: Step) -> list[str]:
    """People who have approved what they were asked ahead."""
    if step.ahead is not None and step.ahead.signers:
        return list(step.ahead.signers)
    return [] if step.approval is None else list(step.approval.signers)


def _left_waits(saga: Saga, entries: Sequence[Entry]) -> Mapping[StepId, int]:
    """The waits that were left before their time was up, as nobody was there any more: until when each was to be."""
    places = {} if saga.waits is None else saga.waits.places
    ended = ((entry.event.place, entry) for entry in entries if isinstance(entry.event, WaitEnded))
    return {
        place: places[place].until
        for place, entry in ended
        if isinstance(entry.event, WaitEnded) and entry.event.signal is None and entry.at < places[place].until
    }


def _sent_back(saga: Saga, checkpoint: StepId) -> Fields | None:
    """Why the work goes on at this checkpoint another time; None where it does not."""
    found: Feedback | None = None
    for one in saga.rewinds.values():
        if one.from_outside and one.ended and one.begun.to == checkpoint:
            found = feedback_of(saga, one, () if found is None else found.all)
    return None if found is None else _feedback(found)


def _marks(saga: Saga, left: Mapping[StepId, int]) -> Fields:
    """The verbs on record beside its steps, oldest first."""
    waits = () if saga.waits is None else saga.waits.places.values()
    signals = {} if saga.waits is None else saga.waits.signals
    return {
        "checkpoints": [
            {"place": one.place, "name": one.name, "feedback": _sent_back(saga, one.place)}
            for one in saga.checkpoints.values()
        ],
        "sent_back": sum(one.from_outside and one.ended for one in saga.rewinds.values()),
        "rewinds": [
            _feedback(feedback_of(saga, one)) for one in saga.rewinds.values() if one.ended and not one.from_outside
        ],
        "spendings": [{"place": one} for one in (saga.budget.places if saga.budget is not None else ())],
        "waits": [
            {
                "name": one.name,
                "payload": None if one.signal is None else signals[one.signal].payload,
                "is_signalled": one.signal is not None,
                "left_until": left.get(one.place),
            }
            for one in waits
            if one.status == "ended" and not one.place.startswith("idle.")
        ],
    }


def operations() -> tuple[Operation, ...]:
    opened = record(id=TEXT, name=TEXT, actor=TEXT, holder=TEXT, state=TEXT)
    state = record(state=TEXT)
    back = record(number=WHOLE, why=TEXT, by=TEXT, taken_back=many(SOME_OBJECT))
    shown = record(
        id=TEXT,
        name=TEXT,
        actor=TEXT,
        input=ANY,
        held=TRUTH,
        ended=SOME_OBJECT,
        steps=many(SOME_OBJECT),
        vouched_for=many(TEXT),
        goes_back=TRUTH,
        sent_back=WHOLE,
        checkpoints=many(SOME_OBJECT),
        rewinds=many(SOME_OBJECT),
        spendings=many(SOME_OBJECT),
        waits=many(SOME_OBJECT),
    )
    run = Scope.RUN
    return (
        post("/sessions", open_session, opened, scope=run, is_keyed=False),
        get("/sessions", list_sessions, page(record(id=TEXT, status=TEXT, started_at=WHOLE)), scope=None),
        get("/sessions/{session}", show_session, shown, scope=None),
        post("/sessions/{session}/steps", do_step, STEP, scope=run, is_keyed=False),
        post("/sessions/{session}/ask", ask_in_session, STEP, scope=run, is_keyed=False),
        post("/sessions/{session}/call", call_in_session, STEP, scope=run, is_keyed=False),
        post("/sessions/{session}/settle", settle_in_session, state, scope=run, is_keyed=False),
        post("/sessions/{session}/checkpoint", checkpoint_session, state, scope=run, is_keyed=False),
        post("/sessions/{session}/rollback_to", rollback_session_to, back, scope=run, is_keyed=False),
        post("/sessions/{session}/rollback_last", rollback_session_last, back, scope=run),
        post("/sessions/{session}/wait", wait_in_session, STEP, scope=run),
        post("/sessions/{session}/spend", spend_in_session, state, scope=run),
        post("/sessions/{session}/lock", lock_in_session, state, scope=run, is_keyed=False),
        post("/sessions/{session}/complete", complete_session, END, scope=run, is_keyed=False),
        post("/sessions/{session}/fail", fail_session, END, scope=run, is_keyed=False),
        post("/sessions/{session}/cancel", cancel_session, END, scope=run, is_keyed=False),
        post("/sessions/{session}/detach", detach_session, state, scope=run, is_keyed=False),
    )


END: Final = record(state=TEXT, id=TEXT, status=TEXT, why=TEXT)
STEP: Final = {**record(state=TEXT), "properties": {"state": TEXT, "call": maybe(TEXT), "token": TEXT}}
