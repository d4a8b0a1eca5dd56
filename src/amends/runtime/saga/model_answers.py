"""A model's answers as steps of a session: what was asked once is answered from the journal ever after.

A request is known by a digest of its words, so that an agent that is run again from its first prompt is given the same
answers, and with them the same ids of tool calls. The same request a second time in one run is another one.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import cached_property
from typing import Any, Final, cast

from amends.core.transitions import StepStatus
from amends.core.words.contracts import Contract, Retries, Reversibility, Topic
from amends.core.words.values import Json
from amends.errors import NotDone, StepError
from amends.runtime.declare.action import Action
from amends.runtime.saga.session import Session

Ask = Callable[[], Awaitable[Json]]
ANSWER_TOPIC: Final = Topic("amends.answer")
_VOLATILE: Final = frozenset({"timestamp", "run_id", "conversation_id"})
"""Names of what differs each time that the same is asked, wherever they stand in a request."""
_ask: Final[ContextVar[Ask | None]] = ContextVar("model_answer", default=None)


async def _answered(model: str, request: str) -> Json:  # noqa: ARG001 - the digest tells requests apart
    """Ask the model."""
    ask = _ask.get()
    if ask is None:
        raise NotDone(f"whoever asked {model} is gone")
    return await ask()


ANSWER: Final[Action[..., Any]] = Action(
    _answered,
    Contract(
        topic=ANSWER_TOPIC,
        side_effect=False,
        reversibility=Reversibility.REVERSIBLE,
        timeout_s=None,
        retries=Retries(attempts=1),
    ),
)


class Answers:
    """The answers that one run of an agent is given. `within` begins the ids of its steps."""

    def __init__(self, session: Session, within: str = "") -> None:
        self._session = session
        self._within = within
        self._asked: Counter[str] = Counter()
        self._known: dict[int, tuple[object, str]] = {}

    async def ask(self, model: str, request: str, ask: Ask) -> Json:
        """The model's answer to the request of this digest: on record, else a new one. Raises what `ask` does."""
        raised: list[BaseException] = []

        async def asked() -> Json:
            try:
                return await ask()
            except BaseException as exc:  # whoever asks is told of it as it was, and not as a step's error
                raised.append(exc)
                raise

        token = _ask.set(asked)
        try:
            named = {"model": model, "request": request}
            return cast("Json", await self._session.do_named(ANSWER, named, call=self._next(request)))
        except StepError:
            if raised:
                raise raised[0] from None
            raise
        finally:
            _ask.reset(token)

    def digest(self, part: object, told: Callable[[object], object]) -> str:
        """The digest of a part of a request, such as a message, which is made once; `told` makes JSON of it."""
        known = self._known.get(id(part))
        if known is None or known[0] is not part:
            known = self._known[id(part)] = (part, digest_of(told(part)))
        return known[1]

    @cached_property
    def _unanswered(self) -> frozenset[str]:
        """The ids that an earlier run has used up: what was asked has no answer, or it was taken back."""
        steps = (step for step in self._session.saga.steps.values() if step.topic == ANSWER_TOPIC)
        return frozenset(
            step.call for step in steps if step.status is not StepStatus.SUCCEEDED or step.rewind is not None
        )

    def _next(self, request: str) -> str:
        unanswered = self._unanswered
        while True:
            self._asked[request] += 1
            call = f"{self._within}{request}.{self._asked[request]}"
            if call not in unanswered:
                return call


def digest_of(request: object) -> str:
    """The digest of JSON, but for what differs each time that the same is asked."""
    told = json.dumps(_steady(request), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(told.encode()).hexdigest()[:32]


def _steady(value: object) -> object:
    if isinstance(value, dict):
        named = cast("dict[str, object]", value)
        return {name: _steady(one) for name, one in named.items() if name not in _VOLATILE}
    return [_steady(one) for one in cast("list[object]", value)] if isinstance(value, list | tuple) else value
