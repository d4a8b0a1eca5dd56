"""Actions whose functions are elsewhere: each call of one is a task, for whoever asked for the step or for a worker.

They are made of a contract alone: of the one that a client declares with a step, or of the one on record. So what was
done through a server can be taken back after it was started anew, by any worker that has the functions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple, cast

from amends.core.words.contracts import Contract, Reversibility, Topic
from amends.core.words.values import Json, SagaId
from amends.errors import UnknownActionError, UnknownDefinitionError
from amends.http.references import told
from amends.http.tasks import AttemptName, Task, Tasks, asked_by
from amends.journal.port.journal import ROOT, Journal
from amends.runtime.declare.action import Action, Asked, Done, call_under_way
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.declare.limits import Limits
from amends.runtime.declare.registry import Registry
from amends.runtime.drive.executor import Call, Part
from amends.runtime.drive.run import Run
from amends.runtime.saga.open import open_child
from amends.runtime.values.signature import AnyNames

_MOST_NAMES: Final = 10_000


class Whose(NamedTuple):
    """The definition that a saga is of: by it, callers are told which of them may make its calls. And the saga that
    stands over all its family, itself where it is nobody's child.
    """

    definition: str
    root: SagaId


WhoseOf = Callable[[SagaId], Awaitable[Whose]]


class RemoteAction(Action[..., Any]):
    """An action whose functions are elsewhere."""

    def __init__(
        self,
        contract: Contract,
        tasks: Tasks,
        whose_of: WhoseOf,
        sources: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self._tasks = tasks
        self._whose_of = whose_of

        async def perform(arguments: Any) -> Any:  # noqa: ANN401 - the client's own
            return await self._make(contract, "action", {"args": arguments})

        super().__init__(perform, replace(contract, resources=()))
        parts = self.parts
        parts.signature = AnyNames(perform)
        parts.repeats_bugs = parts.repeats_bugs_back = True
        parts.sourced = sources or {}
        if contract.reversibility is Reversibility.COMPENSATABLE:
            parts.compensation = self._of_done(contract, "compensation")
        if contract.mitigation:
            parts.mitigation = self._of_done(contract, "mitigation")
        if contract.reread:
            parts.reread = self._of_done(contract, "reread")
        if contract.probe:
            parts.probe = self._of_asked(contract, "probe")
        if contract.before:
            parts.before = self._of_asked(contract, "before")
        self.contract = contract

    def _of_done(self, contract: Contract, part: Part) -> Callable[[Done], Awaitable[Any]]:
        async def call(done: Done) -> Any:  # noqa: ANN401 - the client's own
            given = {
                "args": done.args,
                "result": done.result,
                "before": done.before,
                "certain": done.certain,
                "action_key": done.action_key,
            }
            return await self._make(contract, part, given)

        return call

    def _of_asked(self, contract: Contract, part: Part) -> Callable[[Asked], Awaitable[Any]]:
        async def call(asked: Asked) -> Any:  # noqa: ANN401 - the client's own
            return await self._make(contract, part, {"args": asked.args})

        return call

    async def _make(self, contract: Contract, part: Part, given: Mapping[str, Json]) -> Any:  # noqa: ANN401 - as above
        call = cast("Call", call_under_way())
        whose = await self._whose_of(call.saga)
        task = Task(
            token=self._tasks.new_token(_attempt_of(call)),
            part=part,
            saga=call.saga,
            root=whose.root,
            definition=whose.definition,
            step=call.step,
            topic=contract.topic,
            version=contract.version,
            key=call.key,
            timeout_s=call.timeout_s,
            given={**cast("Mapping[str, Json]", told(dict(given), call.saga)), "reasons": list(call.feedback)},
            under_way=asked_by.get(),
        )
        return await self._tasks.made(task)


def _attempt_of(call: Call) -> AttemptName | None:
    """The attempt that a call is; nothing for one that is repeated by whoever drives the saga next."""
    if call.part != "action" or not isinstance(call.knows, Run):
        return None
    return AttemptName(call.saga, call.step, call.knows.state(call.step).attempts)


class RemoteRegistry(Registry):
    """A server's registry: its own actions and definitions, and whatever is on record of clients and workers."""

    left_alone_s = 3.0  # a worker that has them may come at any time

    def __init__(self, own: Registry, tasks: Tasks) -> None:
        super().__init__()
        self._actions, self._definitions = own._actions, own._definitions
        self._tasks = tasks
        self._whose: dict[SagaId, Whose] = {}
        self._limits: dict[tuple[str, int], Limits | None] = {}
        """Those of children, as whoever called them has declared them."""
        self.journal: Journal | None = None
        """The server's, once it is open."""

    async def _whose_of(self, saga: SagaId) -> Whose:
        found = self._whose.get(saga)
        if found is None and self.journal is not None and (row := await self.journal.saga(saga)) is not None:
            if len(self._whose) >= _MOST_NAMES:
                self._whose.clear()
            found = self._whose[saga] = Whose(row.definition, SagaId(row.labels.get(ROOT, saga)))
        return found or Whose("", saga)

    def know_child(self, name: str, version: int, limits: Limits | None) -> None:
        """A client is about to call one of its own definitions as a child."""
        if len(self._limits) >= _MOST_NAMES:
            self._limits.clear()
        self._limits[name, version] = limits

    def child_definition(self, name: str, version: int) -> SagaDefinition:
        try:
            return super().definition(name, version)
        except UnknownDefinitionError:
            return open_child(name, version, self._limits.get((name, version)))

    def action(self, topic: Topic, version: int) -> Action[..., Any]:
        """Of an action that is elsewhere, the little that is known without its contract, while a worker has it."""
        try:
            return super().action(topic, version)
        except UnknownActionError:
            if not self._tasks.has_worker(lambda pattern: fnmatchcase(topic, pattern)):
                raise UnknownActionError(
                    f"no worker of {topic} is connected; start one that asks for its tasks"
                ) from None
            return self.remote(Contract(topic=topic, version=version))

    def action_of(self, contract: Contract) -> Action[..., Any]:
        try:
            return super().action(contract.topic, contract.version)
        except UnknownActionError:
            return self.remote(contract)

    def remote(self, contract: Contract, sources: Mapping[str, tuple[str, ...]] | None = None) -> RemoteAction:
        return RemoteAction(contract, self._tasks, self._whose_of, sources)

    def ensure_action(self, action: Action[..., Any]) -> None:
        if not isinstance(action, RemoteAction):  # the contract of one saga's client is no other saga's
            super().ensure_action(action)
