"""Actions: a function with a contract, its compensation, probe and before-image. `decorators` make one."""

from __future__ import annotations

import functools
import hashlib
import inspect
import re
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import replace
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, Protocol, TypeAlias, TypeVar

from amends.clock import SystemClock
from amends.core.state.step import KEPT_REASONS
from amends.core.words.contracts import TOPIC_PATTERN, Contract, Reversibility, Topic
from amends.core.words.values import SagaId, StepId
from amends.dataclass import dataclass
from amends.errors import DeclarationError, DirectCallError, RefusedError, TopicError
from amends.runtime.declare.parts import (
    RESULT,
    Parts,
    require_function,
    require_part,
    require_part_by_name,
    wanted_names,
)
from amends.runtime.declare.resources import checked_templates
from amends.runtime.values.schema import tool_schema
from amends.runtime.values.signature import Args_co, R_co

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])

_TOPIC: Final = re.compile(TOPIC_PATTERN, re.ASCII)
LONGEST_WORDS: Final = 400
current_feedback: ContextVar[tuple[str, ...]] = ContextVar("amends_feedback", default=())


class Current(Protocol):
    """The call that is being made: of which step, under which key."""

    saga: SagaId
    step: StepId
    key: str


@dataclass(frozen=True, slots=True)
class InFunction:
    """A saga's own function runs, and none of its steps: an action has to be asked for with `s.do` here."""

    definition: str


current_call: ContextVar[Current | InFunction | None] = ContextVar("amends_call", default=None)
"""Whose code runs: a call's, with all that it starts; a saga's function's; or, where it is None, nobody's here."""


def call_under_way() -> Current:
    """The call that the asking code is part of. For the runtime's own actions, which are always called by a step."""
    call = current_call.get()
    if call is None or isinstance(call, InFunction):
        raise RefusedError("this is a part of a step, and no step runs here; ask for it with `await s.do(…)`")
    return call


def outside(function: Callable[[T], R]) -> Callable[[T], R]:
    """The function as code that belongs to no saga, whichever saga's function happens to run beside it."""

    def called(given: T) -> R:
        token = current_call.set(None)
        try:
            return function(given)
        finally:
            current_call.reset(token)

    return called


def key() -> str:
    """The idempotency key of the attempt that is running: the same on every attempt of its step.

    In an action that is called as a plain function, outside any saga, each call to key() is a new one.
    """
    call = current_call.get()
    return f"plain-{SystemClock().new_id()}" if call is None or isinstance(call, InFunction) else call.key


def reasons() -> tuple[str, ...]:
    """Inside an action: why it is tried or done again, the newest last; empty on the first attempt of what is new.

    That is: why earlier attempts of this step did not succeed; before these, why what it is done again for was taken
    back; and before these, in a child that is called again, why those before it ended. At most 16.
    """
    return current_feedback.get()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Generic[Args_co]):
    """The step in question for a probe or a before-image. `Asked[Args]` says of which keys `args` is: a TypedDict."""

    saga: SagaId
    step: StepId
    args: Args_co
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Done(Generic[R_co, Args_co]):
    """The step that a compensation takes back, or a mitigation is about. `Done[Receipt]` says what the action returned,
    and `Done[Receipt, Args]` of which keys `args` is: a TypedDict.

    `certain` is false when nobody knows whether it happened, and there is no result then; a mitigation is only of what
    did. `key` is the compensation's own, or the mitigation's; `action_key` is the one that the action was given.
    """

    if not TYPE_CHECKING:
        __class_getitem__ = classmethod(GenericAlias)  # with one argument as with two

    saga: SagaId
    step: StepId
    args: Args_co
    result: R_co
    before: Any
    certain: bool
    key: str
    action_key: str


@dataclass(frozen=True, slots=True)
class Happened:
    """A probe's answer: it did, and this is what the action would have returned."""

    result: Any = None


@dataclass(frozen=True, slots=True)
class NotHappened:
    """A probe's answer: it did not, and it will not."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A built-in probe's answer: not yet. Nothing goes on record; it is asked again after so long, or when stirred."""

    after_s: float


ProbeAnswer: TypeAlias = "Happened | NotHappened | None"


class Action(Generic[P, R_co]):
    """A function with a contract. Called, it is just the function; but in a saga's function, where `s.do` is meant."""

    def __init__(self, function: Callable[P, R_co], contract: Contract) -> None:
        require_function(contract.topic, function)
        functools.update_wrapper(self, function)
        self.topic: Final[Topic] = contract.topic
        self.parts: Final[Parts[P, R_co]] = Parts(contract.topic, function)
        """Its functions, and all that is known of them: for the runtime, and no part of what users may build on."""
        self._declared = contract
        if self.parts.on_files and contract.reversibility is Reversibility.UNDECLARED:
            contract = replace(contract, reversibility=Reversibility.REVERSIBLE, atomic=True, idempotent=True)
        resources = checked_templates(contract.topic, contract.resources, self.parts.signature.names)
        self.contract = replace(contract, does=_words(function), tool=self._tool(), resources=resources)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        if isinstance(asker := current_call.get(), InFunction):
            name = getattr(self, "__name__", self.topic)
            raise DirectCallError(
                f"{self.topic} was called directly in the function of saga {asker.definition}, where the gate and the "
                f"journal would not know of it, and nothing was done; write `await s.do({name}, …)`"
            )
        return self.parts.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<action {self.contract.topic}/{self.contract.version}>"

    def schema(self) -> dict[str, Any]:
        """The action as a tool of a model: `name`, `description` and, as JSON Schema, `parameters`.

        The name is the topic with `_` for each dot. What the runtime gives itself, files, and what no model may know,
        a parameter that is a Secret, is not among the parameters.
        """
        parameters = self.parts.typed.schema(leave_out=("files",) if self.parts.on_files else ())
        return tool_schema(self.topic, inspect.getdoc(self.parts.function) or "", parameters)

    def compensation(self, function: F) -> F:
        """Declare what takes this action back. It gets one argument, a Done."""
        if self.contract.no_rollback is not None or not self.contract.side_effect:
            instead = (
                "" if self.contract.no_rollback is None else "; what is done about it all the same is a .mitigation"
            )
            raise DeclarationError(
                f"{self.topic} has a compensation and also says that it needs none; remove no_rollback= or read_only="
                f"{instead}"
            )
        require_part(self.topic, "compensation", function, "Done", self.parts.compensation)
        self.parts.compensation = function
        undoes = _words(function) or getattr(function, "__name__", repr(function))
        self.contract = replace(
            self.contract,
            reversibility=Reversibility.COMPENSATABLE,
            atomic=self._declared.atomic,
            idempotent=self._declared.idempotent,
            undoes=undoes,
            tool=self._tool(),
        )
        return function

    def mitigation(self, function: F) -> F:
        """Declare what is done about this irreversible action when a person takes its saga back. It gets a Done.

        Past the pivot nothing goes back by itself, and the record says mitigated, never taken back.
        """
        if self.contract.no_rollback is None:
            raise DeclarationError(
                f"{self.topic} has a mitigation, which is for what cannot be taken back: say why with no_rollback=, or "
                "declare a .compensation"
            )
        self.parts.mitigation = function
        undoes = _words(function) or getattr(function, "__name__", repr(function))
        self.contract = replace(self.contract, mitigation=True, undoes=undoes, tool=self._tool())
        return function

    def _tool(self) -> str:
        """The digest of what is behind the topic: another function, or other parameters, are another tool."""
        parts = self.parts
        words = [_identity(parts.function), str(inspect.signature(parts.function))]
        if parts.compensation is not None:
            words += [_identity(parts.compensation), _words(parts.compensation)]
        if parts.mitigation is not None:
            words += ["mitigation", _identity(parts.mitigation), _words(parts.mitigation)]
        return hashlib.sha256("\x1f".join((*words, _words(parts.function))).encode()).hexdigest()[:32]

    def probe(self, function: F) -> F:
        """Declare the read-only question that settles a lost attempt. It gets an Asked; see Happened, NotHappened."""
        require_part(self.topic, "probe", function, "Asked", self.parts.probe)
        self.parts.probe = function
        self.contract = replace(self.contract, probe=True)
        return function

    def before(self, function: F) -> F:
        """Declare how to capture what the compensation will need to know.

        It gets an Asked, or any of the action's own parameters by name.
        """
        require_part_by_name(self.topic, "before", function, "Asked", self.parts.signature.names, self.parts.before)
        self.parts.before = function
        self.contract = replace(self.contract, before=True)
        return function

    def validate(self, function: Callable[..., object] | None = None, /, *, tries: int = 3) -> Any:  # noqa: ANN401 - the function, or what takes it
        """Declare what looks at this read-only action's result before it counts.

        It gets the result, and any of the action's own parameters by name. A reason it returns, or anything it raises,
        makes the attempt a failed one; after `tries` flawed results the step has failed.
        """
        if self.contract.side_effect:
            raise DeclarationError(f"{self.topic} changes something: only a read_only= action's result is validated")
        if not 1 <= tries <= KEPT_REASONS:
            raise DeclarationError(f"{self.topic}: tries={tries} must be between 1 and {KEPT_REASONS}")

        def declare(function: Callable[..., object]) -> Callable[..., object]:
            names = (RESULT, *self.parts.signature.names)
            require_part_by_name(self.topic, "validate", function, "result", names, self.parts.validation)
            self.parts.validation = function
            self.parts.tries = tries
            return function

        return declare if function is None else declare(function)

    def reread(self, function: F) -> F:
        """Declare the read-only question about the present that a compensation is preceded by. It gets a Done.

        It is asked right after the action's success, and again before the compensation: another answer means that
        someone changed it since, and the compensation is not run.
        """
        require_part(self.topic, "reread", function, "Done", self.parts.reread)
        self.parts.reread = function
        self.contract = replace(self.contract, reread=True)
        return function


def _words(function: Callable[..., object]) -> str:
    """The first paragraph of what its author says of it."""
    return " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split())[:LONGEST_WORDS]


def _identity(function: Callable[..., object]) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)


def checked_topic(topic: str) -> Topic:
    if not _TOPIC.fullmatch(topic):
        raise TopicError(
            f"{topic!r} is not a topic: use 1 to 128 of a-z 0-9 _ . - and begin with a letter or digit, "
            "as in 'payments.charge'"
        )
    return Topic(topic)


def captures(capture: Callable[..., object], names: Iterable[str], asked: Asked) -> Callable[[], object]:
    """A call of a before-image: it wants an Asked, or some of the action's own parameters, and gets those."""
    wanted = wanted_names(capture, tuple(names))
    if wanted is None:
        return lambda: capture(asked)
    return lambda: capture(**{name: value for name, value in asked.args.items() if name in wanted})
