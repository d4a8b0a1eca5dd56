"""The saga as its function sees it: `s`. It acts through `s.do`, waits through `s.sleep` and `s.wait_for`, and takes
back through its rollbacks; it does nothing itself. `@saga` makes a definition of such a function, `perform` calls it.
"""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, Protocol, TypeVar, Unpack, cast, overload

from amends.core.words.values import LARGEST_VALUE, Json, StepId
from amends.errors import Abort, DeclarationError, InputError, NotJsonError, StepError, TooLargeError
from amends.journal.port.locks import checked_resource
from amends.runtime.declare.action import Action
from amends.runtime.declare.decorators import action
from amends.runtime.declare.definition import Arguments, SagaDefinition
from amends.runtime.declare.graph import Graph
from amends.runtime.declare.limits import Amount
from amends.runtime.declare.options import CallOptions, ChildFiles, OptionNames
from amends.runtime.declare.resources import resources_of
from amends.runtime.drive.forward import Forward
from amends.runtime.drive.limits import Keeper
from amends.runtime.drive.positions import Spot
from amends.runtime.drive.run import Run
from amends.runtime.files.work import FILES, OnFiles, with_room_for_files
from amends.runtime.saga.attempts import Attempts
from amends.runtime.saga.children import (
    Child,
    OnChildFailure,
    call_group,
    call_one,
    child_of,
    parted_call,
    restored_result,
)
from amends.runtime.saga.documents import State
from amends.runtime.saga.graph import GraphRun
from amends.runtime.saga.rewind import Feedback, Rewinds
from amends.runtime.saga.waits import Waiting
from amends.runtime.values.bounded import ON_LOOP, Kept, keep, keep_at_sight, off_loop, small_or_off_loop
from amends.secrets import Secret

if TYPE_CHECKING:
    from amends.runtime.files.layers import Layers


@action("amends.hold", read_only=True, resources=["{resources}"])
async def take_resources(resources: list[str]) -> None:
    """Keep these resources to the saga until it has ended."""


P = ParamSpec("P")
Q = ParamSpec("Q")
T = TypeVar("T")


class DoStep(Protocol):
    """A step's beginning: its action, its arguments, their digest, the secrets among them, and its own name if any."""

    def __call__(
        self,
        action: Action[..., Any],
        args: Json,
        digest: str,
        secrets: tuple[Secret, ...],
        at: Spot | None = None,
        /,
    ) -> Coroutine[Any, Any, Any]: ...


class Work(OnFiles):
    """The first argument of a saga's function."""

    def __init__(self, run: Run, forward: Forward, keeper: Keeper, stop_children: Callable[[], None]) -> None:
        self.id = run.book.saga.id
        self._run = run
        self._forward = forward
        self._keeper = keeper
        self._stop_children = stop_children

    def _layers(self) -> Layers:
        return cast("Layers", self._run.layers)

    @cached_property
    def _waiting(self) -> Waiting:
        return Waiting(self._run, self._forward)

    @cached_property
    def _rewinds(self) -> Rewinds:
        """The rollbacks of this call of the function."""
        return Rewinds(self._run, self._forward, self._stop_children)

    @cached_property
    def state(self) -> State:
        """The agent's own documents: they stand under the name of the saga's actor."""
        return State(self.do_named, own=True)

    @cached_property
    def documents(self) -> State:
        """All documents, by their full names."""
        return State(self.do_named, own=False)

    @overload
    def do(
        self, action: Action[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...

    @overload
    def do(self, action: Action[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]: ...

    def do(self, action: Action[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, Any]:
        """Do one step: judged, on disk before it is dispatched, remembered once it is done. Await it.

        Returns what the action returned, from the journal if it was done before. Raises StepError when it ended badly.
        """
        return self._with(self._forward.step, action, bound(action, args, kwargs))

    def do_named(
        self, action: Action[..., Any], named: Mapping[str, object], *, at: Spot | None = None
    ) -> Coroutine[Any, Any, Any]:
        """Do one step with all arguments by name; `at` is for a step that has a name of its own."""
        return self._with(self._forward.step, action, named, at)

    def do_steps(self, graph: Graph, arguments: Arguments) -> Coroutine[Any, Any, dict[str, Any]]:
        """Do the steps of a list or a graph; gives their results by label. Await it."""
        return GraphRun(self, graph, arguments).run()

    def in_flight(self, step: str) -> bool:
        """Whether an attempt of this step is on its way now."""
        return StepId(step) in self._run.in_flight

    def ask(self, action: Action[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, tuple[str, ...]]:
        """Have people approve a step before it is done; the next `s.do` of the same action and arguments is that step.

        Await it: it gives the names of those who approved. Raises StepDeniedError when they refuse, or do not answer in
        time.
        """
        return self._with(self._forward.ask, action, bound(action, args, kwargs))

    async def sleep(self, seconds: float | timedelta) -> None:
        """Go on after that long, whatever becomes of this process: the time runs from the first call, on record."""
        await self._waiting.sleep(seconds)

    async def sleep_until(self, when: datetime | float) -> None:
        """Go on at that time: an aware datetime, or seconds since 1970."""
        await self._waiting.sleep_until(when)

    async def wait_for(self, name: str, timeout: float | timedelta | None = None) -> Any:  # noqa: ANN401, ASYNC109 - any JSON value; the time is kept on record
        """Wait for a signal from outside, `coordinator.signal(id, name, payload)`; gives its payload.

        Signals of one name come in order, each to one wait. Raises WaitTimeoutError after `timeout` seconds.
        """
        return await self._waiting.wait_for(name, timeout)

    @property
    def feedback(self) -> Feedback | None:
        """Why the work goes on here a second time; None where it is new.

        After a rollback from outside it is None until the function has come by all that was left of its work. In a
        child that is called again it says from the start why the one before it ended.
        """
        return self._rewinds.feedback()

    def checkpoint(self, name: str) -> Coroutine[Any, Any, Feedback | None]:
        """Mark a place that a rollback can stop at: `s.rollback_to(name)`, or one from outside. Await it.

        Gives None; after a rollback from outside has come back to this place, what was taken back and why. A name that
        is used again means the newest place.
        """
        return self._rewinds.checkpoint(name)

    def rollback_to(self, name: str, why: str) -> Coroutine[Any, Any, Feedback]:
        """Take back all steps since a checkpoint that this branch has made, newest first, and go on. Await it."""
        return self._rewinds.rollback_to(name, why)

    def rollback_last(self, steps: int, why: str) -> Coroutine[Any, Any, Feedback]:
        """Take back the newest steps of this branch that stand, so many of them, and go on. Await it."""
        return self._rewinds.rollback_last(steps, why)

    def settle(self, error: StepError) -> Coroutine[Any, Any, None]:
        """Have a step that ended badly, and may stand, settled before anything takes its place. Await it."""
        return self._rewinds.settle(StepId(error.step), str(error))

    def attempts(self, name: str, *, max: int) -> Attempts:
        """Try a block several times: `async for attempt in s.attempts("pay", max=3): async with attempt: …`.

        An exception that leaves the block has the block's own steps taken back, newest first; then it is tried again,
        with `attempt.feedback`. The last one's goes on.
        """
        return Attempts(self._rewinds, name, max)

    def lock(self, *resources: str) -> Coroutine[Any, Any, None]:
        """Keep resources to this saga until it has ended, as an action's `resources=` does. Await it.

        Raises StepFailedError when another saga does not give them back in time, DeadlockError when it never would.
        """
        return self.do_named(take_resources, {"resources": [checked_resource(name) for name in resources]})

    def hold(self, *resources: str) -> Coroutine[Any, Any, None]:
        """Deprecated: `lock`, under the name that it had until 0.1."""
        warnings.warn("s.hold is s.lock now; the old name goes with the next release", DeprecationWarning, stacklevel=2)
        return self.lock(*resources)

    async def spend(self, *, tokens: int = 0, usd: Amount = 0, what: str = "") -> None:
        """Put on record what the work has used up. Where that crosses a limit, the saga ends here as its limits say."""
        await self._keeper.spend(tokens, usd, what)

    async def abort(self, why: str) -> NoReturn:
        """Give up: all is taken back, and `why` is on record as the reason. Nothing after it runs."""
        await self._keeper.abort(why)
        raise Abort(why)

    @overload
    def call(
        self, definition: SagaDefinition[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...

    @overload
    def call(
        self,
        definition: SagaDefinition[..., T],
        /,
        *args: object,
        actor: str | None,
        restarts: int = ...,
        files: ChildFiles = ...,
        timeout: float | timedelta | None = ...,
        options: CallOptions = ...,
        **kwargs: object,
    ) -> Coroutine[Any, Any, T]: ...

    @overload
    def call(
        self,
        definition: SagaDefinition[..., T],
        /,
        *args: object,
        restarts: int,
        actor: str | None = ...,
        files: ChildFiles = ...,
        timeout: float | timedelta | None = ...,
        options: CallOptions = ...,
        **kwargs: object,
    ) -> Coroutine[Any, Any, T]: ...

    @overload
    def call(
        self,
        definition: SagaDefinition[..., T],
        /,
        *args: object,
        files: ChildFiles,
        actor: str | None = ...,
        restarts: int = ...,
        timeout: float | timedelta | None = ...,
        options: CallOptions = ...,
        **kwargs: object,
    ) -> Coroutine[Any, Any, T]: ...

    @overload
    def call(
        self,
        definition: SagaDefinition[..., T],
        /,
        *args: object,
        timeout: float | timedelta | None,
        actor: str | None = ...,
        restarts: int = ...,
        files: ChildFiles = ...,
        options: CallOptions = ...,
        **kwargs: object,
    ) -> Coroutine[Any, Any, T]: ...

    @overload
    def call(
        self,
        definition: SagaDefinition[..., T],
        /,
        *args: object,
        options: CallOptions,
        **kwargs: object,
    ) -> Coroutine[Any, Any, T]: ...

    def call(self, definition: Any, /, *args: object, **kwargs: object) -> Coroutine[Any, Any, Any]:
        """Run another saga to its end, as a child of this one; gives its result. Await it. It takes options, too.

        Taking this step back rolls the child back, even after it completed. A child that was rolled back raises
        StepFatalError, or is started again up to `restarts` times. `actor`: the agent that it is delegated to.
        files: "share" has it work in the changeset that this saga has of the same trees, "branch" on a branch of that,
        which is merged into it when the child has completed; else it has its own.
        timeout: in how many seconds it has to complete, whatever it waits for and whoever drives it; else it is rolled
        back. An `asyncio.timeout` around the call begins anew whenever this function is called again.
        options: the same as one object, where the saga itself takes a parameter of such a name.
        """
        asked, own = parted_call(definition, args, kwargs)
        restarts = asked.pop("restarts", 0)
        return self._call(partial(child_of, definition, args, own, **asked), restarts)

    async def _call(self, bind: Callable[[int], Child[T]], restarts: int) -> T:
        wanted = await small_or_off_loop(bind)
        ended = await call_one(self.do_named, wanted, restarts, self._layers)
        return await restored_result(wanted, ended["result"])

    async def call_all(
        self, children: Sequence[Child[T]], *, on_failure: OnChildFailure = "revert_all", restarts: int = 1
    ) -> list[T]:
        """Run several children side by side; gives their results in order.

        When one is rolled back, the others come to their end first. Then "revert_all" takes them back and raises;
        "restart_one" has started only that one again; "restart_all" takes them back and starts all of them again. Both
        do so up to `restarts` times.
        """
        return await call_group(self.do_named, children, on_failure, restarts, self._layers)

    def _with(
        self, begin: DoStep, action: Action[..., Any], named: Mapping[str, object], at: Spot | None = None
    ) -> Coroutine[Any, Any, Any]:
        if action.parts.on_files or FILES in named:
            named = self._with_files(action, named)
        if not action.parts.typed.stores and (plain := keep_at_sight(named)) is not None:
            return begin(action, *plain, (), at)
        try:
            kept = self._kept(action, named, ON_LOOP)
        except TooLargeError:
            return self._with_large(begin, action, named, at)
        return begin(action, kept.value, kept.digest, kept.secrets, at)

    async def _with_large(
        self, begin: DoStep, action: Action[..., Any], named: Mapping[str, object], at: Spot | None
    ) -> Any:  # noqa: ANN401 - the action's own type
        """Begin a step whose arguments are too large to be walked on the loop, which others wait for."""
        kept = await off_loop(lambda: self._kept(action, named))
        return await begin(action, kept.value, kept.digest, kept.secrets, at)

    def _kept(self, action: Action[..., Any], named: Mapping[str, object], most: int = LARGEST_VALUE) -> Kept:
        if action.parts.typed.stores:
            named = action.parts.typed.store(named, most)
        try:
            return keep(named, self.id, f"{action.topic}: args", most)
        except NotJsonError as exc:
            raise action.parts.typed.not_json(named, exc) from None


def rewinds_of(work: Work) -> Rewinds:
    """The rollbacks that go with it."""
    return work._rewinds  # pyright: ignore[reportPrivateUsage] - of this module


def begin_with(
    work: Work, begin: DoStep, action: Action[..., Any], named: Mapping[str, object], at: Spot | None = None
) -> Coroutine[Any, Any, Any]:
    """Do one step in another way than `do` does; `begin` is given what is kept of the arguments."""
    return work._with(begin, action, named, at)  # pyright: ignore[reportPrivateUsage] - of this module


def bound(action: Action[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Mapping[str, object]:
    """The arguments of a step by name. Raises DeclarationError or InputError."""
    if not isinstance(action, Action):  # pyright: ignore[reportUnnecessaryIsInstance] - users may give anything
        raise DeclarationError(
            f"{action!r} is not an action; decorate it with @action(topic), or register(topic, function)"
        )
    if action.parts.on_files:
        args, kwargs = with_room_for_files(action, args, kwargs)
    try:
        return action.parts.signature.bind(args, kwargs)
    except TypeError as exc:
        raise InputError(f"{action.topic}: {action.parts.signature.misfit(exc, kwargs)}") from None


def saga(
    name: str, *, version: int = 1, **options: Unpack[OptionNames]
) -> Callable[[Callable[Concatenate[Work, Q], Awaitable[T]]], SagaDefinition[Q, T]]:
    """Make an async function a saga's definition. Its first parameter is the saga, to act through: `await s.do(…)`.

    The further keywords are those of `Options`.
    """

    def declare(function: Callable[Concatenate[Work, Q], Awaitable[T]]) -> SagaDefinition[Q, T]:
        return SagaDefinition(name, function=function, version=version, **options)

    return declare


def performed(definition: SagaDefinition, s: Work, named: Mapping[str, Any]) -> Awaitable[Any]:
    """A definition on its way with this input: awaited, it gives its result."""
    options = definition.options
    if definition.rehearsal is not None:
        return definition.rehearsal(_perform(definition, s, named))
    if definition.resources or options.files or definition.steps or definition.typed.loads or options.lands is not None:
        return _perform(definition, s, named)
    return cast("Awaitable[Any]", definition.signature.call(definition.function, named, s))


async def _perform(definition: SagaDefinition, s: Work, named: Mapping[str, Any]) -> Any:  # noqa: ANN401 - the user's own type
    options = definition.options
    if definition.resources:
        given = cast("Json", dict(definition.given(named)))
        await s.lock(*resources_of(f"saga {definition.name}", definition.resources, given))
    if options.files:
        s.files(*options.files)
    if definition.steps:
        result: Any = await definition(s, named["given"])
    else:
        if definition.typed.loads:
            named = await small_or_off_loop(partial(definition.typed.restore, dict(named)))
        result = await definition.signature.call(definition.function, named, s)
    if options.lands is not None:
        await s.land(message=options.lands)
    return result
