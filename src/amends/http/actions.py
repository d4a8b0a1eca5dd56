"""Actions whose functions are elsewhere: each call of one is a task, for whoever asked for the step or for a worker.

They are made of a contract alone: of the one that a client declares with a step, or of the one on record. So what was
done through a server can be taken back after it was started anew, by any worker that has the functions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, Final, cast

from amends.core.words.contracts import Contract, Reversibility, Topic
from amends.core.words.values import Json, SagaId
from amends.errors import UnknownActionError
from amends.http.tasks import Task, Tasks, asked_by, new_token
from amends.journal.port.journal import Journal
from amends.runtime.declare.action import Action, Asked, Done, call_under_way
from amends.runtime.declare.registry import Registry
from amends.runtime.drive.executor import Call, Part
from amends.runtime.values.signature import AnyNames

_MOST_NAMES: Final = 10_000
DefinitionOf = Callable[[SagaId], Awaitable[str]]
"""The name of the definition that a saga is of: by it, callers are told which of them may make its calls."""


class RemoteAction(Action[..., Any]):
    """An action whose functions are elsewhere."""

    def __init__(
        self,
        contract: Contract,
        tasks: Tasks,
        definition_of: DefinitionOf,
        sources: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self._tasks = tasks
        self._definition_of = definition_of

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
        task = Task(
            token=new_token(),
            part=part,
            saga=call.saga,
            definition=await self._definition_of(call.saga),
            step=call.step,
            topic=contract.topic,
            version=contract.version,
            key=call.key,
            timeout_s=call.timeout_s,
            given={**given, "reasons": list(call.feedback)},
            under_way=asked_by.get(),
        )
        return await self._tasks.made(task)


class RemoteRegistry(Registry):
    """A server's registry: its own actions and definitions, and whatever is on record of clients and workers."""

    left_alone_s = 3.0  # a worker that has them may come at any time

    def __init__(self, own: Registry, tasks: Tasks) -> None:
        super().__init__()
        self._actions, self._definitions = own._actions, own._definitions
        self._tasks = tasks
        self._names: dict[SagaId, str] = {}
        self.journal: Journal | None = None
        """The server's, once it is open."""

    async def _definition_of(self, saga: SagaId) -> str:
        name = self._names.get(saga)
        if name is None and self.journal is not None and (row := await self.journal.saga(saga)) is not None:
            if len(self._names) >= _MOST_NAMES:
                self._names.clear()
            name = self._names[saga] = row.definition
        return name or ""

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
        return RemoteAction(contract, self._tasks, self._definition_of, sources)

    def ensure_action(self, action: Action[..., Any]) -> None:
        if not isinstance(action, RemoteAction):  # the contract of one saga's client is no other saga's
            super().ensure_action(action)
