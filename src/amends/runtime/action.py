"""Declaring actions: `@action` with its compensation, probe and before-image, or `register(…)` for plain functions."""

from __future__ import annotations

import functools
import hashlib
import inspect
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from functools import cached_property
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, ParamSpec, Protocol, TypeAlias, TypeVar, cast

from amends.clock import SystemClock
from amends.core.contracts import BACK, FORWARD, Contract, OnIncident, Retries, Reversibility, Topic
from amends.core.limits import BUILT_IN
from amends.core.outcomes import Outcome
from amends.core.step import KEPT_REASONS
from amends.core.values import SagaId, StepId
from amends.dataclass import dataclass
from amends.errors import DeclarationError, DirectCallError, RefusedError, TopicError
from amends.runtime.generic import Args_co, R_co
from amends.runtime.parts import require_function, require_part, require_part_by_name, wanted_names
from amends.runtime.resources import checked_templates, listed
from amends.runtime.schema import tool_schema
from amends.runtime.signature import Signature
from amends.runtime.sourcing import listed_sources
from amends.runtime.typed import UNTYPED, Typed

if TYPE_CHECKING:
    from amends.core.saga import Step
    from amends.runtime.run import Run

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])
Examine: TypeAlias = "Callable[[Run, Step, Outcome], Awaitable[Outcome]]"
CheckArguments: TypeAlias = Callable[[Mapping[str, Any]], None]

_TOPIC: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,127}", re.ASCII)
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
    """The same function as code that belongs to no saga, whichever saga's function happens to run beside it."""

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


def feedback() -> tuple[str, ...]:
    """Inside an action: why it is tried or done again, the newest last; empty on the first attempt of what is new.

    That is: why earlier attempts of this step did not succeed; before these, why what it is done again for was taken
    back; and before these, in a child that is called again, why those before it ended. At most 16.
    """
    return current_feedback.get()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Generic[Args_co]):
    """What a probe or a before-image is asked about. `Asked[Args]` says of which keys `args` is: a TypedDict."""

    saga: SagaId
    step: StepId
    args: Args_co
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Done(Generic[R_co, Args_co]):
    """What a compensation takes back, or a mitigation is about. `Done[Receipt]` says what the action returned, and
    `Done[Receipt, Args]` of which keys `args` is: a TypedDict.

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
        self.function = function
        self.signature = Signature(function)
        self.is_async = inspect.iscoroutinefunction(function)
        self.compensate: Callable[..., object] | None = None
        self.mitigate: Callable[..., object] | None = None
        self.ask: Callable[..., object] | None = None
        self.capture: Callable[..., object] | None = None
        self.sourced: Mapping[str, tuple[str, ...]] = {}
        """The arguments that may not be made up, each with the topics that it has to come from; none: from anywhere."""
        self.examine: Examine | None = None
        """What is made of an attempt's outcome before it goes on record; None: it goes as it is."""
        self.repeats_bugs = False
        """Whether its author said how often it is tried; else a mistake in its code is not made twice."""
        self.repeats_bugs_back = False
        """The same for its compensation and its mitigation."""
        self.look: Callable[..., object] | None = None
        self.looks_at_result: Callable[..., object] | None = None
        self.on_files: Literal["", "layer", "changeset"] = "layer" if _takes_files(function) else ""
        """Whether it works on a saga's files: in a layer of its own, or, of the built-in ones, on all of them."""
        self._declared = contract
        if self.on_files and contract.reversibility is Reversibility.UNDECLARED:
            contract = replace(contract, reversibility=Reversibility.REVERSIBLE, atomic=True, idempotent=True)
        resources = checked_templates(contract.topic, contract.resources, self.signature.names)
        self.contract = replace(contract, does=_words(function), tool=self._tool(), resources=resources)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        if isinstance(asker := current_call.get(), InFunction):
            name = getattr(self, "__name__", self.topic)
            raise DirectCallError(
                f"{self.topic} was called directly in the function of saga {asker.definition}, where the gate and the "
                f"journal would not know of it, and nothing was done; write `await s.do({name}, …)`"
            )
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<action {self.contract.topic}/{self.contract.version}>"

    @property
    def topic(self) -> Topic:
        return self.contract.topic

    @cached_property
    def typed(self) -> Typed:
        """What its annotations ask for; the runtime's own actions are called by the runtime alone."""
        return UNTYPED if self.topic.startswith(BUILT_IN) else Typed(str(self.topic), self.function)

    @cached_property
    def check(self) -> CheckArguments | None:
        """What looks at the arguments of a new step, as they go on record; None where nothing is asked of them."""
        return self.typed.check if self.typed.checks else None

    @cached_property
    def typed_before(self) -> Typed:
        """What its before-image is declared to be."""
        return UNTYPED if self.capture is None else Typed(f"{self.topic}: its before-image", self.capture)

    def schema(self) -> dict[str, Any]:
        """The action as a tool of a model: `name`, `description` and, as JSON Schema, `parameters`.

        The name is the topic with `_` for each dot. What the runtime gives itself, files, and what no model may know,
        a parameter that is a Secret, is not among the parameters.
        """
        parameters = self.typed.schema(leave_out=("files",) if self.on_files else ())
        return tool_schema(self.topic, inspect.getdoc(self.function) or "", parameters)

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
        require_part(self.topic, "compensation", function, "Done", self.compensate)
        self.compensate = function
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
        self.mitigate = function
        undoes = _words(function) or getattr(function, "__name__", repr(function))
        self.contract = replace(self.contract, mitigation=True, undoes=undoes, tool=self._tool())
        return function

    def _tool(self) -> str:
        """The digest of what is behind the topic: another function, or other parameters, are another tool."""
        parts = [_identity(self.function), str(inspect.signature(self.function))]
        if self.compensate is not None:
            parts += [_identity(self.compensate), _words(self.compensate)]
        if self.mitigate is not None:
            parts += ["mitigation", _identity(self.mitigate), _words(self.mitigate)]
        return hashlib.sha256("\x1f".join((*parts, _words(self.function))).encode()).hexdigest()[:32]

    def probe(self, function: F) -> F:
        """Declare the read-only question that settles a lost attempt. It gets an Asked; see Happened, NotHappened."""
        require_part(self.topic, "probe", function, "Asked", self.ask)
        self.ask = function
        self.contract = replace(self.contract, probe=True)
        return function

    def before(self, function: F) -> F:
        """Declare how to capture what the compensation will need to know.

        It gets an Asked, or any of the action's own parameters by name.
        """
        require_part_by_name(self.topic, "before", function, "Asked", self.signature.names, self.capture)
        self.capture = function
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
            from amends.runtime.validating import RESULT, validation

            names = (RESULT, *self.signature.names)
            require_part_by_name(self.topic, "validate", function, "result", names, self.looks_at_result)
            self.looks_at_result = function
            self.examine = validation(self, function, tries)
            return function

        return declare if function is None else declare(function)

    def reread(self, function: F) -> F:
        """Declare the read-only question about the present that a compensation is preceded by. It gets a Done.

        It is asked right after the action's success, and again before the compensation: another answer means that
        someone changed it since, and the compensation is not run.
        """
        require_part(self.topic, "reread", function, "Done", self.look)
        self.look = function
        self.contract = replace(self.contract, reread=True)
        return function


def action(  # noqa: PLR0913 - a contract has that many clauses, each by name
    topic: str,
    *,
    version: int = 1,
    read_only: bool = False,
    no_rollback: str | None = None,
    idempotent: bool = False,
    atomic: bool = False,
    risk: Iterable[str] = (),
    timeout: float | None = 300.0,
    retries: Retries | int = FORWARD,
    compensation_timeout: float = 30.0,
    compensation_retries: Retries | int = BACK,
    on_incident: Literal["stop", "go_on"] = "stop",
    hold: bool = False,
    resources: Iterable[str] = (),
    lock_wait: float | None = None,
    sourced: Iterable[str] | Mapping[str, str | Iterable[str]] = (),
) -> Callable[[Callable[P, R]], Action[P, R]]:
    """Make a function an action, known by its topic.

    read_only: it changes nothing, so it needs no compensation and may be repeated.
    retries, compensation_retries: how often each is tried, and how far apart. Where nothing is said, a mistake in the
        code (a TypeError, a KeyError and the like) is not tried again.
    no_rollback: why it cannot be taken back; the first such step that takes effect is the saga's pivot. What
        can be done about it all the same is its .mitigation.
    idempotent: repeating it with the same key is the same as doing it once.
    atomic: any exception of it means that nothing happened (a database transaction, say).
    resources: what it needs for itself until its saga has ended, as templates over its parameters:
        ["account:{account}"]. Another saga's step that needs the same waits for its turn.
    lock_wait: how many seconds it waits for them; then it fails, and nothing happened. 0: it does not wait.
    on_incident: whether a rollback stops when this action's compensation fails for good, or goes on with older ones.
    sourced: arguments that may not be made up: each has to come from an earlier result, the saga's input or a person;
        as {"cents": "shop.quote"}, from the result of that action.
    hold: it is released only after the work has finished and everything that could fail has passed; a rollback before
        that drops it. For actions with no_rollback=.
    """
    contract = Contract(
        topic=checked_topic(topic),
        version=version,
        side_effect=not read_only,
        reversibility=_reversibility(read_only=read_only, no_rollback=no_rollback),
        no_rollback=_reason(topic, no_rollback, read_only=read_only),
        idempotent=idempotent,
        atomic=atomic,
        risk=tuple(sorted(set(risk))),
        timeout_s=_positive(topic, "timeout", timeout),
        retries=_retries(topic, retries),
        undo_timeout_s=_positive(topic, "compensation_timeout", compensation_timeout) or 30.0,
        undo_retries=_retries(topic, compensation_retries),
        on_incident=OnIncident(on_incident),
        hold=_held(topic, hold, no_rollback, resources),
        resources=listed(topic, resources),
        lock_wait_s=_not_negative(topic, lock_wait),
    )

    def declare(function: Callable[P, R]) -> Action[P, R]:
        if not callable(function):
            raise DeclarationError(f"@action({topic!r}) goes on a function, not on {function!r}")
        if isinstance(function, staticmethod):
            function = cast("Callable[P, R]", function.__func__)
        from amends.runtime.registry import PROCESS

        declared = Action(function, contract)
        declared.repeats_bugs = retries is not FORWARD
        declared.repeats_bugs_back = compensation_retries is not BACK
        declared.sourced = listed_sources(topic, sourced, declared.signature.names)
        PROCESS.add_action(declared)
        return declared

    return declare


def register(
    topic: str,
    function: Callable[P, R],
    *,
    compensation: Callable[..., object] | None = None,
    mitigation: Callable[..., object] | None = None,
    probe: Callable[..., object] | None = None,
    before: Callable[..., object] | None = None,
    reread: Callable[..., object] | None = None,
    validate: Callable[..., object] | None = None,
    **contract: Any,  # noqa: ANN401 - the keywords of `action`, checked there
) -> Action[P, R]:
    """Make an action of a function that is not yours to decorate. The keywords are those of `action`."""
    declared: Action[P, R] = action(topic, **contract)(function)
    if compensation is not None:
        declared.compensation(compensation)
    if mitigation is not None:
        declared.mitigation(mitigation)
    if probe is not None:
        declared.probe(probe)
    if before is not None:
        declared.before(before)
    if reread is not None:
        declared.reread(reread)
    if validate is not None:
        declared.validate(validate)
    return declared


def _words(function: Callable[..., object]) -> str:
    """The first paragraph of what its author says of it."""
    return " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split())[:LONGEST_WORDS]


def _takes_files(function: Callable[..., object]) -> bool:
    """Whether it says that it works on files: a parameter `files: Files`, by that very name and type."""
    parameter = inspect.signature(function).parameters.get("files")
    said = None if parameter is None else parameter.annotation
    return (said if isinstance(said, str) else getattr(said, "__name__", "")).rpartition(".")[2] == "Files"


def _identity(function: Callable[..., object]) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)


def checked_topic(topic: str) -> Topic:
    if not _TOPIC.fullmatch(topic):
        raise TopicError(
            f"{topic!r} is not a topic: use 1 to 128 of a-z 0-9 _ . - and begin with a letter or digit, "
            "as in 'payments.charge'"
        )
    return Topic(topic)


def _reversibility(*, read_only: bool, no_rollback: str | None) -> Reversibility:
    if read_only:
        return Reversibility.REVERSIBLE
    return Reversibility.UNDECLARED if no_rollback is None else Reversibility.IRREVERSIBLE


def _reason(topic: str, no_rollback: str | None, *, read_only: bool) -> str | None:
    if no_rollback is not None and (read_only or not no_rollback.strip()):
        what = "read_only= needs no" if read_only else "is empty; say in words why there is no way back as the"
        raise DeclarationError(f"{topic}: {what} no_rollback= reason")
    return no_rollback


def _held(topic: str, hold: bool, no_rollback: str | None, resources: object) -> bool:  # noqa: FBT001 - a clause
    if hold and resources:
        raise DeclarationError(
            f"{topic}: what is held goes out when nothing can fail any more, and waiting for a resource can; "
            "take it before, with `await s.hold(…)` or the definition's resources="
        )
    if hold and no_rollback is None:
        raise DeclarationError(
            f"{topic}: hold=True is for what cannot be taken back; say why with no_rollback=, or leave hold= out"
        )
    return hold


def _positive(topic: str, what: str, seconds: float | None) -> float | None:
    if seconds is not None and not seconds > 0:
        raise DeclarationError(f"{topic}: {what}={seconds} must be more than 0 seconds")
    return None if seconds is None else float(seconds)


def _not_negative(topic: str, seconds: float | None) -> float | None:
    if seconds is not None and not 0 <= seconds < math.inf:
        raise DeclarationError(f"{topic}: lock_wait={seconds} must be 0 seconds or more, and not for ever")
    return None if seconds is None else float(seconds)


def _retries(topic: str, retries: Retries | int) -> Retries:
    declared = Retries(attempts=retries) if isinstance(retries, int) else retries
    if declared.attempts < 1 or declared.first_s < 0 or declared.cap_s < 0:
        raise DeclarationError(f"{topic}: {declared} must allow at least one attempt, and no negative delay")
    return declared


def captures(capture: Callable[..., object], names: Iterable[str], asked: Asked) -> Callable[[], object]:
    """A call of a before-image: it wants an Asked, or some of the action's own parameters, and gets those."""
    wanted = wanted_names(capture, tuple(names))
    if wanted is None:
        return lambda: capture(asked)
    return lambda: capture(**{name: value for name, value in asked.args.items() if name in wanted})
