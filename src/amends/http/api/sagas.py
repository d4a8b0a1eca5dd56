"""Sagas over HTTP: listed, shown, started, and told what people and the world have to say to them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final, Literal
from urllib.parse import quote

from starlette.responses import Response

from amends.core import events as e
from amends.core.state.limits import LimitName
from amends.core.words.values import BUILT_IN, OWN, SagaId
from amends.errors import ForbiddenError, InputError, UnknownDefinitionError
from amends.http.api.operations import PREFIX, At, Leaves, Operation, Outgoing, get, post
from amends.http.api.shapes import ANY, TEXT, TRUTH, WHOLE, many, maybe, page, record, shape
from amends.http.api.signing import decided
from amends.http.callers import Caller, Scope
from amends.journal.port.journal import Entry, SagaQuery, SagaRow
from amends.operate.fields import driven, entry_fields, saga_fields
from amends.operate.reading import unknown
from amends.runtime.coordinator.control import Rollbacks
from amends.runtime.coordinator.preview import RollbackPlan
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.declare.limits import Limit, Limits, whole
from amends.runtime.declare.names import checked_status
from amends.runtime.values.schema import Schema
from amends.source.marked import nearest

MOST: Final = 500
_ENTRIES: Final = 1000
Status = Literal["running", "waiting", "rolling_back", "completed", "rolled_back", "mitigated", "incident", "paused"]
_DRIVER: Final = record(state=TEXT, worker=maybe(TEXT), pid=maybe(WHOLE), until_at=maybe(WHOLE))
SAGA: Final[Schema] = shape(SagaRow, driver=maybe(_DRIVER))
ENTRY: Final = record(saga=TEXT, number=WHOLE, at=WHOLE, name=TEXT, body=ANY, hash=TEXT)


async def list_sagas(  # noqa: PLR0913 - one for each filter
    at: At,
    *,
    status: list[Status] | None = None,
    definition: str | None = None,
    topic: str | None = None,
    env: str | None = None,
    parent: str | None = None,
    label: list[str] | None = None,
    started_from: int | None = None,
    started_until: int | None = None,
    ended_from: int | None = None,
    ended_until: int | None = None,
    starts_with: str = "",
    key: str | None = None,
    own: bool = False,
    limit: int = 50,
    page: str | None = None,
) -> object:
    """List sagas, newest first.

    A label is written name=value; given several times: with all of them. Times are milliseconds of UTC, from one on,
    until before the other. `starts_with`: how their ids begin; such a list is in the order of ids, the last first.
    `key`: that of a call that was made. `own`: those too in which amends keeps its own records.
    `next` of a page is `page` of the one after it.
    """
    if key is not None:
        while not await at.journal.note_keys():
            pass
    found = await at.journal.sagas(
        SagaQuery(
            statuses=None if status is None else tuple(map(checked_status, status)),
            without=OWN if definition is None and not own else (),
            definition=definition,
            topic=topic,
            env=env,
            parent=None if parent is None else SagaId(parent),
            labels=tuple(map(_label, label or ())),
            started_from=started_from,
            started_until=started_until,
            ended_from=ended_from,
            ended_until=ended_until,
            starts_with=starts_with,
            key=key,
            before=page,
            limit=checked_limit(limit),
        )
    )
    rows = await driven(at.journal, found.rows)
    return {"items": [saga_fields(row, driver) for row, driver in rows], "next": found.cursor}


def checked_limit(limit: int) -> int:
    if not 1 <= limit <= MOST:
        raise InputError(f"limit is {limit}; a page has 1 to {MOST}")
    return limit


def _label(given: str) -> tuple[str, str]:
    name, is_given, value = given.partition("=")
    if not name or not is_given:
        raise InputError(f"{given[:80]!r} is no label with its value; write label=tenant=acme")
    return name, value


async def show_saga(at: At, saga: str) -> object:
    """Show one saga: where it stands, who drives it, and what waits for people.

    Whoever may run sees what they have started themselves.
    """
    await saga_for(at, saga, Scope.VIEW)
    return await told(at, saga)


async def saga_for(at: At, saga: str, scope: Scope) -> SagaRow:
    """A saga that the caller has this scope for, or has started themselves. Raises ForbiddenError, UnknownSagaError."""
    is_narrow = scope not in at.caller.scopes
    if is_narrow:
        at.caller.require(Scope.RUN)
    row = await at.journal.saga(SagaId(saga))
    if row is None and is_narrow:
        raise _not_theirs(at.caller, saga, scope)
    if row is None:
        raise await unknown(at.journal, saga)
    if is_narrow and row.actor != at.caller.name:
        raise _not_theirs(at.caller, saga, scope)
    return row


def _not_theirs(caller: Caller, saga: str, scope: Scope) -> ForbiddenError:
    return ForbiddenError(
        f"{caller.name} may not do this: they have started no saga {saga[:80]}, and for those of others it takes the "
        f"scope {scope}"
    )


async def told(at: At, saga: str) -> dict[str, object]:
    """One saga, for whoever asks about it or has just changed it. Raises UnknownSagaError."""
    row = await at.journal.saga(SagaId(saga))
    if row is None:
        raise await unknown(at.journal, saga)
    ((row, driver),) = await driven(at.journal, (row,))
    return saga_fields(row, driver)


async def list_entries(at: At, saga: str, *, after: int = 0, limit: int = _ENTRIES) -> object:
    """List the entries of one saga, oldest first: everything that happened.

    `next` is the number to go on after.
    """
    await saga_for(at, saga, Scope.VIEW)
    if not 1 <= limit <= _ENTRIES:
        raise InputError(f"limit is {limit}; a page has 1 to {_ENTRIES}")
    if after < 0:
        raise InputError(f"after is {after}; entries are numbered from 1")
    items: list[object] = []
    last: Entry | None = None
    async for entry in at.journal.read(SagaId(saga), after=after):
        if len(items) == limit:
            break
        items.append(entry_fields(entry))
        last = entry
    else:
        last = None
    return {"items": items, "next": None if last is None else last.number}


# -- starting ---------------------------------------------------------------------------------------------------------


async def start_saga(
    at: At,
    *,
    definition: str,
    version: int | None = None,
    input: dict[str, Any] | None = None,
    id: str | None = None,
    labels: dict[str, str] | None = None,
    limits: dict[str, str | int | float] | None = None,
) -> object:
    """Start a saga of a definition that this server knows, in the caller's name; on record once this answers.

    `version`: the newest where none is given. `input`: what it takes, by name. `id`: the same id twice is one saga.
    `limits`: how much of tokens, usd, seconds, steps, failures, retries and spin it may use up; at most what its
    definition says.
    """
    at.caller.require_definition(definition)
    meant = _definition(at, definition, version)
    handle = await at.coordinator.start_bound(
        meant,
        meant.bind_document(input or {}),
        id=id or _id_of(at),
        actor=at.caller.name,
        labels=labels,
        limits=_limits(meant, limits or {}),
    )
    await at.coordinator.require_begun(handle.id)
    return Outgoing(await told(at, handle.id), 201, {"Location": f"{PREFIX}/sagas/{quote(handle.id, safe='')}"})


def _definition(at: At, name: str, version: int | None) -> SagaDefinition:
    known = {one.version: one for one in at.coordinator.registry.definitions() if one.name == name}
    if known and (version is None or version in known):
        return known[max(known) if version is None else version]
    if known:
        raise UnknownDefinitionError(
            f"this server knows no version {version} of {name}; it knows {', '.join(map(str, sorted(known)))}"
        )
    names = [one.name for one in at.coordinator.registry.definitions() if not one.name.startswith(BUILT_IN)]
    right = nearest(name, names)
    hint = f"did you mean {right}?" if right else "name its module as it is started: amends serve --module MODULE"
    raise UnknownDefinitionError(f"this server knows no saga {name[:80]!r}; {hint}")


def _id_of(at: At) -> str:
    """The id of a saga that is given none: the same request, sent again, starts the same one."""
    return "r-" + hashlib.sha256(f"{at.caller.name}\n{at.key}".encode()).hexdigest()[:26]


def _limits(definition: SagaDefinition, asked: Mapping[str, str | int | float]) -> Limits | None:
    """Limits as asked for, each at most the definition's own: who runs a saga does not loosen it."""
    own = dict(definition.options.limits.each()) if definition.options.limits else {}
    found: dict[str, Any] = {}
    for name, most in asked.items():
        if name not in set(LimitName):
            right = nearest(name, list(LimitName))
            hint = f"did you mean {right}?" if right else f"there are {', '.join(LimitName)}"
            raise InputError(f"{name[:80]!r} is no limit; {hint}")
        limit = own.get(LimitName(name))
        if limit is not None and whole(name, most) > whole(name, limit.most):
            raise ForbiddenError(
                f"{definition.name} may use up {limit.most} {name}, and whoever starts it cannot have it use more; "
                "a person raises the limit of a saga that has reached it"
            )
        found[name] = Limit(most) if limit is None else Limit(most, limit.then, limit.stop_children)
    return Limits(**found) if found else None


# -- asking something of one ------------------------------------------------------------------------------------------


async def cancel_saga(at: At, saga: str, *, why: str = "cancelled", mitigate: bool = False, proof: str = "") -> object:
    """Take a saga back, even one that had completed, as long as it has no pivot. It goes back in the background.

    `mitigate`: past its pivot too; what cannot be taken back is mitigated. Whoever may run takes back what they have
    started themselves. `proof`: where decisions are signed and this answers for an incident.
    """
    await saga_for(at, saga, Scope.DECIDE)
    cancel, by = at.coordinator.cancel, at.caller.name
    answered = await decided(
        lambda signed: cancel(saga, why=why, by=by, mitigate=mitigate, proof=signed, wait=False), proof
    )
    return answered if isinstance(answered, Response) else await told(at, saga)


async def roll_back_saga(
    at: At,
    saga: str,
    *,
    to: str | None = None,
    last: int | None = None,
    why: str = "rolled back",
    mitigate: bool = False,
    plan: bool = False,
    proof: str = "",
) -> object:
    """Take a saga back to a checkpoint, or by its last steps that stand; without either, all of it.

    `plan`: nothing is changed; the answer is what would be taken back, and what stands in the way.
    """
    await saga_for(at, saga, Scope.DECIDE)
    coordinator, by = at.coordinator, at.caller.name
    if plan:
        planned = await coordinator.rollback(saga, to=to, last=last, mitigate=mitigate, plan=True)
        return {**asdict(planned), "is_clean": planned.is_clean}
    answered = await decided(
        lambda signed: coordinator.rollback(
            saga, to=to, last=last, why=why, by=by, mitigate=mitigate, proof=signed, wait=False
        ),
        proof,
    )
    return answered if isinstance(answered, Response) else await told(at, saga)


async def signal_saga(at: At, saga: str, *, name: str, payload: Any = None, early: bool = False) -> object:  # noqa: ANN401 - any JSON
    """Send a saga the signal that it waits for. `early`: keep it until the saga waits for one of that name."""
    await saga_for(at, saga, Scope.DECIDE)
    await at.coordinator.signal(saga, name, payload, by=at.caller.name, early=early)
    return await told(at, saga)


async def pause_saga(at: At, saga: str, *, why: str, rollbacks: Rollbacks = "go_on") -> object:
    """Dispatch nothing more for one saga. What is in flight may end; a rollback goes on unless it is to `stop`."""
    await saga_for(at, saga, Scope.DECIDE)
    await at.coordinator.pause(saga=saga, why=why, by=at.caller.name, rollbacks=rollbacks)
    return await told(at, saga)


async def unpause_saga(at: At, saga: str, *, proof: str = "") -> object:
    """Let a paused saga go on. For a person; outside development, who has not asked for it themselves."""
    answered = await decided(lambda signed: at.coordinator.unpause(saga=saga, by=at.caller.name, proof=signed), proof)
    return answered if isinstance(answered, Response) else await told(at, saga)


async def raise_limits(  # noqa: PLR0913 - one for each limit
    at: At,
    saga: str,
    *,
    tokens: int | None = None,
    usd: str | float | None = None,
    seconds: float | None = None,
    steps: int | None = None,
    failures: int | None = None,
    retries: int | None = None,
    spin: int | None = None,
    why: str = "",
    proof: str = "",
) -> object:
    """Set a saga's limits higher; one that had stopped at its limit goes on. For a person, who has not asked for it.

    Without amounts: as much again of the one that it has reached.
    """
    await told(at, saga)
    answered = await decided(
        lambda signed: at.coordinator.raise_limit(
            saga,
            tokens=tokens,
            usd=usd,
            seconds=seconds,
            steps=steps,
            failures=failures,
            retries=retries,
            spin=spin,
            why=why,
            by=at.caller.name,
            proof=signed,
            wait=False,
        ),
        proof,
    )
    return answered if isinstance(answered, Response) else await told(at, saga)


async def _told(at: At, saga: str, **_: object) -> object:
    return await told(at, saga)


_GOES_BACK: Final = Leaves(
    events=(e.RollbackStarted, e.RollbackResumed, e.RollbackAwaited, e.RewindStarted),
    shows=_told,
    others=frozenset({"to"}),
)
_GOES_ON: Final = Leaves(events=(e.WorkResumed, e.RollbackResumed), shows=_told)
PLAN: Final = shape(RollbackPlan, is_clean=TRUTH)


def operations() -> tuple[Operation, ...]:
    entries = record(items=many(ENTRY), next=maybe(WHOLE))
    back: Schema = {"anyOf": [SAGA, PLAN]}
    signals = Leaves(events=(e.SignalReceived,), shows=_told)
    pauses = Leaves(events=(e.SagaPaused,), shows=_told)
    raises = Leaves(events=(e.LimitRaised,), shows=_told)
    return (
        get("/sagas", list_sagas, page(SAGA)),
        get("/sagas/{saga}", show_saga, SAGA, scope=None),
        get("/sagas/{saga}/entries", list_entries, entries, scope=None),
        post("/sagas", start_saga, SAGA, scope=Scope.RUN, status=201),
        post("/sagas/{saga}/cancel", cancel_saga, SAGA, scope=None, leaves=_GOES_BACK),
        post("/sagas/{saga}/rollback", roll_back_saga, back, scope=None, leaves=_GOES_BACK),
        post("/sagas/{saga}/signal", signal_saga, SAGA, scope=None, leaves=signals),
        post("/sagas/{saga}/pause", pause_saga, SAGA, scope=None, leaves=pauses),
        post("/sagas/{saga}/unpause", unpause_saga, SAGA, scope=Scope.DECIDE, leaves=_GOES_ON),
        post("/sagas/{saga}/limits", raise_limits, SAGA, scope=Scope.DECIDE, leaves=raises),
    )
