"""Landing a saga's changeset by hand: what a person decides about file work that its saga has left in `review`.

Resolving its conflicts by hand is the same, a saga for each: `amends.changeset.resolve` lays a layer over the owner's,
which the landing is given too.

A changeset of a saga is the saga's: what is done to it behind its back, its record does not know, and its rollback
would not take back. So a person lands it by a saga of its own, `amends.changeset.land`, which is given the layers that
the other one's record names, as a child that shares them is. It looks, is judged, asks people where the policy says so,
and lands. Cancelled, it lands the inverse. The saga whose work it is takes it back first when it is taken back itself:
the ids of such landings follow from the changeset's, so that they are found by whoever has the journal.

| the saga whose work it is     | landing by hand                                                       |
|-------------------------------|-----------------------------------------------------------------------|
| not over                      | refused: it lands its files itself, or waits for somebody's approval  |
| completed                     | a saga of its own, as above                                           |
| rolled back                   | refused: its files went with it                                       |
| pruned, or there never was one| as with any changeset: nobody is left whose record it could contradict|
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from typing import Final

from amends.changeset import Summary
from amends.core.commands import StartSaga
from amends.core.state.deciders import DELEGATES, require_decider
from amends.core.state.saga import Saga, Step, open_waits
from amends.core.transitions import SagaStatus, StepStatus
from amends.core.words.values import BUILT_IN, Json, SagaId
from amends.errors import ChangesetLifeError, RefusedError
from amends.journal.port.journal import Journal, SagaRow
from amends.runtime.drive.logbook import load
from amends.runtime.files.given import ChangesetPlace, place_in
from amends.runtime.files.resolving import signal_of
from amends.runtime.files.sharing import fit, inherited, layers_of
from amends.runtime.files.topics import BY_HAND_VERSION, LAND, RESOLVE
from amends.runtime.files.verifying import LANDS

_OLD: Final = re.compile(r"(.+)-[0-9a-z]{10}")
"""How a saga's changesets are called; older ones do not say whose they are."""


_VERBS: Final = {LAND: "land", RESOLVE: "resolve"}


# -- whose it is ------------------------------------------------------------------------------------------------------


async def owner_of(journal: Journal, changeset: Summary) -> SagaRow | None:
    """The saga whose work it is, as this journal has it; None: nobody's, or one that the journal does not have."""
    if changeset.saga:
        return await journal.saga(SagaId(changeset.saga))
    named = _OLD.fullmatch(changeset.id)
    row = None if named is None else await journal.saga(SagaId(named[1]))
    if row is None or row.pruned or fit(row.id) != row.id:
        return None
    return row if _place_of(await load(journal, row.id), changeset.id) is not None else None


def _place_of(owner: Saga, changeset: str) -> ChangesetPlace | None:
    """Where a saga's record has a changeset; None where it names none such."""
    places = map(place_in, (step.args for step in owner.steps.values()))
    return next((one for one in places if one is not None and one.changeset == changeset and not one.fork), None)


def is_free(owner: SagaRow) -> bool:
    """Whether nothing of the saga's record can be contradicted any more, whatever becomes of its changeset."""
    return owner.pruned or owner.status.has_gone_back


def refuse_dropping(changeset: str, owner: SagaRow, *, whole: bool) -> RefusedError:
    how = f"cancel {owner.id}" if whole else f"rollback {owner.id} --last N, or --to CHECKPOINT"
    return RefusedError(
        f"changeset {changeset} belongs to saga {owner.id}, which is {_spelled(owner.status)}, and would not know of "
        f"it: take its work back with `amends saga {how}`"
    )


# -- landing ----------------------------------------------------------------------------------------------------------


async def landings(journal: Journal, changeset: str) -> list[SagaRow]:
    """The landings by hand of a changeset, oldest first."""
    return [row async for row in _by_hand(journal, changeset, LAND)]


async def resolutions(journal: Journal, changeset: str) -> list[SagaRow]:
    """The resolutions by hand of its conflicts, oldest first."""
    return [row async for row in _by_hand(journal, changeset, RESOLVE)]


async def by_hand(journal: Journal, changeset: str) -> list[SagaRow]:
    """All that was done to it by hand, in the order in which it can be taken back: landings first, newest first."""
    landed, resolved = await landings(journal, changeset), await resolutions(journal, changeset)
    return [*reversed(landed), *reversed(resolved)]


async def _by_hand(journal: Journal, changeset: str, definition: str) -> AsyncIterator[SagaRow]:
    number = 1
    while (row := await journal.saga(_id(changeset, number, definition))) is not None:
        number += 1
        if row.definition == definition:
            yield row


async def next_id(journal: Journal, changeset: str, definition: str = LAND) -> SagaId:
    """The id of the one under way, else of a new one."""
    number = 1
    while (row := await journal.saga(_id(changeset, number, definition))) is not None:
        if row.definition == definition and not row.status.ended:
            return row.id
        number += 1
    return _id(changeset, number, definition)


def _id(changeset: str, number: int, definition: str) -> SagaId:
    name = f"{_VERBS[definition]}-{changeset}"
    return SagaId(name if number == 1 else f"{name}-{number}")


async def _standing(journal: Journal, owner: Saga, changeset: str) -> dict[int, str]:
    """The layers of a changeset that stand on record: its saga's own, and those by which conflicts were resolved."""
    under = dict(layers_of(owner, changeset)[0])
    for row in await resolutions(journal, changeset):
        if row.status is SagaStatus.COMPLETED:
            resolved = await load(journal, row.id)
            given = inherited(resolved.begun)
            known = {} if given is None else given.under
            under |= {each: digest for each, digest in layers_of(resolved, changeset)[0].items() if each not in known}
    return under


async def start_of(
    journal: Journal,
    changeset: Summary,
    owner: SagaRow,
    *,
    by: str,
    message: str,
    verify: Sequence[str],
    verify_s: float | None,
    wait_s: float | None,
) -> StartSaga:
    """How the landing begins. Raises RefusedError where the saga is not over, ChangesetLifeError where that is."""
    asked: dict[str, Json] = {"message": message, "verify": list(verify), "verify_s": verify_s, "wait_s": wait_s}
    return await _start(journal, changeset, owner, by, LAND, asked)


async def start_of_resolution(
    journal: Journal, changeset: Summary, owner: SagaRow, *, by: str, path: str, take: str, draft: str
) -> StartSaga:
    """How a resolution begins. Raises as `start_of` does, and while a landing of the changeset is under way."""
    for each in await landings(journal, changeset.id):
        if not each.status.ended:
            raise RefusedError(
                f"changeset {changeset.id} is being landed by saga {each.id}, which is {_spelled(each.status)}: wait, "
                f"or `amends saga cancel {each.id}` first"
            )
    asked: dict[str, Json] = {"path": path, "take": take, "draft": draft}
    return await _start(journal, changeset, owner, by, RESOLVE, asked)


async def _start(
    journal: Journal, changeset: Summary, owner: SagaRow, by: str, definition: str, asked: dict[str, Json]
) -> StartSaga:
    state = await load(journal, owner.id)
    _require_completed(changeset.id, owner, state)
    verb = "land" if definition == LAND else "resolve a conflict of"
    own = require_decider(state.begun, by, f"{verb} changeset {changeset.id} by hand")
    if changeset.branch_of is not None:
        raise ChangesetLifeError(
            f"changeset {changeset.id} is a branch of {changeset.branch_of}: merged into that, it lands with it"
        )
    place = _place_of(state, changeset.id)
    if place is None:
        raise RefusedError(f"saga {owner.id} is on record, and no step of it names changeset {changeset.id}")
    under = await _standing(journal, state, changeset.id)
    return StartSaga(
        definition=definition,
        version=BY_HAND_VERSION,
        input={"roots": list(place.roots), "state": place.state, **asked},
        actor=by,
        env=owner.env,
        taken_for="" if state.begun is None else state.begun.taken_for,
        labels={**_labels(owner), LANDS: owner.id},
        own=own,
        files={**place.data(), "under": {str(number): digest for number, digest in sorted(under.items())}},
    )


def _labels(owner: SagaRow) -> dict[str, str]:
    """Whose work it is, it stays: who asked for it has asked for its landing too."""
    labels = {name: value for name, value in owner.labels.items() if not name.startswith(BUILT_IN)}
    labels[DELEGATES] = ",".join(dict.fromkeys(filter(None, (*labels.get(DELEGATES, "").split(","), owner.actor))))
    return labels


def waits_for_people(owner: SagaRow, state: Saga, changeset: str) -> bool:
    """Whether its saga waits for people to resolve its conflicts."""
    return not owner.status.ended and any(wait.name == signal_of(changeset) for wait in open_waits(state))


def _require_completed(changeset: str, owner: SagaRow, state: Saga) -> None:
    if owner.status is SagaStatus.COMPLETED:
        return
    said = f"changeset {changeset} belongs to saga {owner.id}, which is {_spelled(owner.status)}"
    if owner.status.has_gone_back:
        raise RefusedError(f"{said}: its files went with it")
    asked = next((step for step in state.steps.values() if _asks_to_land(step, changeset)), None)
    if asked is not None:
        raise RefusedError(
            f"{said}: its landing waits for people; see `amends approval show {owner.id}/{asked.id}`, and grant it"
        )
    raise RefusedError(
        f"{said}, and lands its files itself: see `amends saga show {owner.id}`; `amends saga cancel {owner.id}` gives "
        "them up"
    )


def _asks_to_land(step: Step, changeset: str) -> bool:
    place = place_in(step.args) if step.topic == LAND and step.status is StepStatus.AWAITING else None
    return place is not None and place.changeset == changeset


def _spelled(status: SagaStatus) -> str:
    return status.replace("_", " ")
