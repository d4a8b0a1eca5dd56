"""Temporal drives sagas: a workflow for each, by its id, with one activity for each stretch of work.

    async with Coordinator.open("postgresql://…") as coordinator:
        await TemporalEngine(coordinator, await Client.connect("temporal:7233")).work()

The workflow asks for the activity `amends.drive`, then waits until the saga wants to be driven again or the signal
`wake` comes, and ends with the saga. A saga that has ended and is woken all the same (somebody cancels it) has a new
run. A worker that dies stops beating, and the activity is given to another one: the journal says what has happened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.envconfig import ClientConfig
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from amends.adapters.engine import SagaEngine, Wake, driven
    from amends.bootstrap import Coordinator
    from amends.clock import SystemClock
    from amends.errors import EngineError, UnknownSagaError

QUEUE: Final = "amends"
"""The task queue, where none is given."""

_BEAT_S: Final = 1.0
_SILENCE: Final = timedelta(seconds=5)
"""A worker that says nothing for so long is taken for dead. If it is not, it goes on, and the next one is told so."""
_STICKY: Final = timedelta(seconds=2)
"""How long a dead worker's cached workflows are waited for."""
_STRETCH: Final = timedelta(days=30)
_RETRIES: Final = RetryPolicy(
    initial_interval=timedelta(milliseconds=200), backoff_coefficient=2.0, maximum_interval=timedelta(seconds=10)
)


@workflow.defn(name="amends.saga", sandboxed=False)
class SagaWorkflow:
    """One saga, as Temporal knows it: its id, and when to ask for it again. Its steps are in the journal."""

    def __init__(self) -> None:
        self._is_woken = False

    @workflow.signal
    def wake(self) -> None:
        self._is_woken = True

    @workflow.run
    async def run(self, saga: str) -> None:
        while True:
            self._is_woken = False
            is_over, wake_s = await workflow.execute_activity(
                "amends.drive",
                saga,
                result_type=list,
                start_to_close_timeout=_STRETCH,
                heartbeat_timeout=_SILENCE,
                retry_policy=_RETRIES,
            )
            if is_over and not self._is_woken:
                return
            await self._until(wake_s)
            if workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(saga)

    async def _until(self, wake_s: float | None) -> None:
        patience = None if wake_s is None else timedelta(seconds=wake_s)
        try:
            await workflow.wait_condition(lambda: self._is_woken, timeout=patience)
        except TimeoutError:
            return


async def connected(address: str, *, namespace: str = "default") -> Client:
    """A client of Temporal at HOST:PORT; keys and certificates are those of TEMPORAL_API_KEY and the other variables
    of Temporal's tools. Raises EngineError.
    """
    options: dict[str, Any] = {**ClientConfig.load_client_connect_config()}
    try:
        return await Client.connect(**{**options, "target_host": address, "namespace": namespace})
    except (RPCError, RuntimeError, ValueError) as exc:
        raise EngineError(f"Temporal at {address} does not answer: {' '.join(str(exc).split())[:200]}") from None


async def wake(client: Client, saga: str, *, task_queue: str = QUEUE) -> None:
    """Have a saga driven: its workflow is signalled, and started where there is none. Raises EngineError."""
    try:
        await client.start_workflow(
            SagaWorkflow.run, saga, id=saga, task_queue=task_queue, start_signal="wake", task_timeout=_SILENCE
        )
    except (RPCError, RuntimeError) as exc:
        where = client.service_client.config.target_host
        raise EngineError(f"Temporal at {where} did not take saga {saga}: {exc}") from None


async def front_end(address: str, *, namespace: str = "default", task_queue: str = QUEUE) -> Wake:
    """Have sagas driven by Temporal at HOST:PORT, for whoever has nothing else to say to it. Raises EngineError."""
    return partial(wake, await connected(address, namespace=namespace), task_queue=task_queue)


class TemporalEngine(SagaEngine):
    """Temporal beside a coordinator: starts sagas by it, wakes them, and drives here those that it hands out.

    `worker` is a worker of Temporal's with nothing else; `workflows` and `activities` are for one of your own.
    """

    workflows: Final[Sequence[type]] = (SagaWorkflow,)

    def __init__(self, coordinator: Coordinator, client: Client, *, task_queue: str = QUEUE) -> None:
        super().__init__(coordinator)
        self._client, self._queue = client, task_queue
        self.activities: Sequence[Any] = (self._drive,)

    async def wake(self, saga: str) -> None:
        await wake(self._client, saga, task_queue=self._queue)

    def worker(self, **options: Any) -> Worker:
        """A worker for sagas alone; `options` are those of Temporal's, as `max_concurrent_activities`."""
        what: dict[str, Any] = {"workflows": self.workflows, "activities": self.activities}
        return Worker(
            self._client,
            task_queue=self._queue,
            **{"sticky_queue_schedule_to_start_timeout": _STICKY, **what, **options},
        )

    async def work(self, **options: Any) -> None:
        """Drive sagas until cancelled, and look after what is due."""
        async with self.worker(**options), asyncio.TaskGroup() as group:
            group.create_task(self.look_after())

    @activity.defn(name="amends.drive")
    async def _drive(self, saga: str) -> list[Any]:
        beating = asyncio.ensure_future(_beat())
        try:
            stretch = await driven(self.coordinator, saga)
        except UnknownSagaError as exc:  # nobody will ever know more
            raise ApplicationError(str(exc), non_retryable=True) from None
        finally:
            beating.cancel()
        return [stretch.is_over, stretch.wake_s]


async def _beat() -> None:
    while True:
        activity.heartbeat()
        await SystemClock().sleep(_BEAT_S)
