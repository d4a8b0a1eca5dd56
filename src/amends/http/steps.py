"""Steps under way in sessions that are open at a server: what whoever asks for one calls next, and how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final

from amends.core.words.values import StepId
from amends.errors import ApprovalPending, StepDeniedError, StepError
from amends.http.references import told
from amends.http.tasks import Task, Tasks, asked_by
from amends.remote.errors import step_error_fields
from amends.remote.outcomes import CallReport

if TYPE_CHECKING:
    from amends.http.sessions import OpenSession

Fields = dict[str, object]
_GONE: Final[CallReport] = {"outcome": "lost", "why": "whoever made the call has gone: its session was taken up again"}


class StepUnderWay:
    """One step that is being done: what its asker has to call next, and how it ended."""

    def __init__(
        self, session: OpenSession, call: str, begin: Callable[[], Coroutine[Any, Any, Any]], *, own: bool
    ) -> None:
        self.call = call
        self._session = session
        self._offered: Task | None = None
        self._news = asyncio.Event()
        context = copy_context()
        context.run(asked_by.set, self if own else None)
        self.doing: asyncio.Task[Any] = asyncio.get_running_loop().create_task(begin(), context=context)
        self.doing.add_done_callback(self._end)

    def _end(self, doing: asyncio.Task[Any]) -> None:
        if not doing.cancelled():
            doing.exception()
        self._news.set()

    @property
    def is_over(self) -> bool:
        return self.doing.done()

    def offer(self, task: Task) -> None:
        self._offered = task
        self._session.tokens[task.token] = self
        self._news.set()

    def withdraw(self, task: Task) -> None:
        if self._offered is task:
            self._offered = None

    @property
    def endless(self) -> StepId | None:
        """The step whose call its asker is making, where that may take as long as it likes."""
        return None if self._offered is None or self._offered.timeout_s is not None else self._offered.step

    def leave(self) -> None:
        self.doing.cancel()

    def abandon(self, tasks: Tasks) -> None:
        """Say that whoever made its calls has gone."""
        if self._offered is not None and self._offered.taken.is_set():
            tasks.end(self._offered, _GONE if self._offered.part != "probe" else {**_GONE, "outcome": "lost"})

    async def stand(self, wait_s: float) -> Fields:
        """Say what its asker has to do next, or how it ended; `running` where neither is known in time."""
        until = asyncio.get_running_loop().time() + wait_s
        while True:
            self._news.clear()
            if self.doing.done():
                return self._told()
            if (task := self._offered) is not None and not task.report.done():
                task.taken.set()
                return {"state": "perform", "call": self.call, **task.fields()}
            left_s = until - asyncio.get_running_loop().time()
            if left_s <= 0:
                return {"state": "running", "call": self.call}
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), left_s)

    def _told(self) -> Fields:
        """How it ended. Raises AmendsError where it could not be done at all."""
        if self.doing.cancelled():
            return {"state": "running", "call": self.call}
        error = self.doing.exception()
        if error is None:
            return {"state": "succeeded", "call": self.call, "result": told(self.doing.result(), self._session.id)}
        if isinstance(error, ApprovalPending):
            return {
                "state": "pending",
                "call": self.call,
                "approval": error.approval,
                "topic": error.topic,
                "rule": error.rule,
                "why": error.why,
                "digest": error.digest,
                "expires_at": error.expires_at,
            }
        if isinstance(error, StepError):
            return {"state": _state(error), "call": self.call, "error": step_error_fields(error)}
        raise error


def _state(error: StepError) -> str:
    if isinstance(error, StepDeniedError):
        return "denied"
    return "failed" if error.happened is False else "lost"
