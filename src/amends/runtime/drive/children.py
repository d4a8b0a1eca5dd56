"""Child sagas as steps: the built-in actions `amends.call` and `amends.revert`, and what else concerns a step's child.

All of it is done by the engine that drives the calling saga, which is found by the context: see `engine.children`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final, Protocol

from amends.core.state.reasons import REVERT as REVERT_TOPIC
from amends.core.transitions import SagaStatus
from amends.core.words.contracts import Contract, Retries, Reversibility, Topic
from amends.core.words.values import Json, SagaId, StepId
from amends.runtime.declare.action import Action, Asked, Done, Happened, NotHappened, Pending, call_under_way
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.drive.family import CALL_TOPIC


class DrivesChildren(Protocol):
    """Runs children, and takes them back: an engine."""

    def know(self, definition: SagaDefinition) -> None: ...

    def definition(self, name: str, version: int) -> SagaDefinition: ...

    async def call(
        self,
        parent: SagaId,
        step: StepId,
        definition: str,
        version: int,
        given: object,
        actor: str,
        files: Json,
        timeout_s: float | None = None,
    ) -> Json: ...

    async def ask(self, asked: Asked) -> Happened | NotHappened | Pending: ...

    async def take_back(self, done: Done) -> Json: ...

    async def revert_own(self, parent: SagaId, child: SagaId) -> None: ...

    async def revert(
        self, child: SagaId, why: str, what: str = "child", *, mitigated_by: str = ""
    ) -> SagaStatus | None: ...

    async def known_as(self, parent: SagaId, step: StepId) -> SagaId: ...

    async def ends_with(self, parent: SagaId, step: StepId) -> bool: ...

    async def release(self, parent: SagaId, step: StepId) -> bool: ...


here: ContextVar[DrivesChildren] = ContextVar("amends_children")
"""The engine that drives the calling saga."""


async def ends_with(parent: SagaId, step: StepId) -> bool:
    """Whether the child of a step holds nothing any more."""
    return await here.get().ends_with(parent, step)


async def release(parent: SagaId, step: StepId) -> bool:
    """Have the child of a step release what it holds; whether it has ended."""
    return await here.get().release(parent, step)


def know(definition: SagaDefinition) -> None:
    """Make a child's definition known to the engine that drives the calling saga."""
    here.get().know(definition)


async def known_as(parent: SagaId, step: StepId) -> SagaId:
    """The id of the child that a step of a saga calls, which this engine drives."""
    return await here.get().known_as(parent, step)


async def revert_landing(saga: SagaId, why: str) -> None:
    """Take back the saga by which a person landed a changeset; for whoever drives the one whose changeset it is."""
    await here.get().revert(saga, why, "its landing, saga")


# -- the built-in actions ---------------------------------------------------------------------------------------------


async def _call(
    definition: str,
    version: int,
    given: object,
    actor: str = "",
    files: Json = None,
    timeout_s: float | None = None,
) -> Json:
    """Run another saga to its end, as a child of this one."""
    caller = call_under_way()
    return await here.get().call(caller.saga, caller.step, definition, version, given, actor, files, timeout_s)


def _check(named: Mapping[str, Any]) -> None:
    """Look at the input of a child that is new, as its definition declares it. Raises InputError."""
    here.get().definition(named["definition"], named["version"]).check(named["given"])


async def _take_back(done: Done) -> Json:
    """Cancels the child and rolls it back, even after it completed."""
    return await here.get().take_back(done)


async def _ask(asked: Asked) -> Happened | NotHappened | Pending:
    return await here.get().ask(asked)


async def _revert(child: str) -> None:
    """Take a child of this saga back, while the saga goes on."""
    await here.get().revert_own(call_under_way().saga, SagaId(child))


async def _stays_reverted(done: Done) -> None:
    """Nothing: what was taken back stays so."""


def _built_in(topic: str, function: Any, undo: Any, probe: Any = None) -> Action[..., Any]:  # noqa: ANN401 - functions of this module
    retries = Retries(attempts=1_000_000, first_s=0.1, cap_s=30.0)
    contract = Contract(
        topic=Topic(topic),
        reversibility=Reversibility.COMPENSATABLE,
        idempotent=True,
        timeout_s=None,
        retries=retries,
        undo_timeout_s=3600.0,
    )
    built_in: Action[..., Any] = Action(function, contract)
    built_in.compensation(undo)
    if probe is not None:
        built_in.probe(probe)
    return built_in


CALL: Final = _built_in(CALL_TOPIC, _call, _take_back, _ask)
CALL.parts.check = _check
REVERT: Final = _built_in(REVERT_TOPIC, _revert, _stays_reverted)
