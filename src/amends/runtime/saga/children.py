"""`s.call` and `s.call_all`: one child saga, or a group of them with a policy for when one fails."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, ParamSpec, TypeAlias, TypeVar, cast, overload

from amends.core.words.values import LARGEST_VALUE
from amends.dataclass import dataclass
from amends.errors import DeclarationError, InputError, StepError, StepFatalError
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.declare.limits import whole
from amends.runtime.declare.names import checked_actor
from amends.runtime.declare.options import CallOptions, ChildFiles
from amends.runtime.drive.children import CALL, REVERT, know
from amends.runtime.drive.validation import DoNamed
from amends.runtime.files.merging import MERGE, UNMERGE
from amends.runtime.saga.waits import seconds_of
from amends.runtime.values.bounded import small_or_off_loop
from amends.runtime.values.signature import R_co

if TYPE_CHECKING:
    from amends.runtime.files.given import SagaFiles
    from amends.runtime.files.layers import Layers

P = ParamSpec("P")
T = TypeVar("T")
OnChildFailure: TypeAlias = Literal["revert_all", "restart_one", "restart_all"]
_FILES: Final = ("own", "share", "branch")
_POLICIES: Final = ("revert_all", "restart_one", "restart_all")


@dataclass(frozen=True, slots=True)
class Child(Generic[R_co]):
    """A child saga to be called: `child(definition, …)` makes one, for `s.call_all`."""

    definition: SagaDefinition[..., R_co]
    named: Mapping[str, object]
    actor: str = ""
    files: str = "own"
    timeout_s: float | None = None


@overload
def child(definition: SagaDefinition[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Child[T]: ...


@overload
def child(
    definition: SagaDefinition[..., T],
    /,
    *args: object,
    actor: str | None,
    files: ChildFiles = ...,
    timeout: float | timedelta | None = ...,
    options: CallOptions = ...,
    **kwargs: object,
) -> Child[T]: ...


@overload
def child(
    definition: SagaDefinition[..., T],
    /,
    *args: object,
    files: ChildFiles,
    actor: str | None = ...,
    timeout: float | timedelta | None = ...,
    options: CallOptions = ...,
    **kwargs: object,
) -> Child[T]: ...


@overload
def child(
    definition: SagaDefinition[..., T],
    /,
    *args: object,
    timeout: float | timedelta | None,
    actor: str | None = ...,
    files: ChildFiles = ...,
    options: CallOptions = ...,
    **kwargs: object,
) -> Child[T]: ...


@overload
def child(
    definition: SagaDefinition[..., T],
    /,
    *args: object,
    options: CallOptions,
    **kwargs: object,
) -> Child[T]: ...


def child(definition: Any, /, *args: object, **kwargs: object) -> Child[Any]:
    """A child saga with its input, for `s.call_all`. `actor` is the agent that it is delegated to.

    files: "share" has it work in the changeset of its parent, "branch" on a branch of that, which is merged when it has
    completed, and "own" in one of its own.
    timeout: in how many seconds it has to complete, whatever it waits for; else it is rolled back.
    options: the same as one object, where the saga itself takes a parameter of such a name.
    """
    asked, own = parted_call(definition, args, kwargs, restarts=False)
    return child_of(definition, args, own, **asked)


def parted_call(
    definition: SagaDefinition[..., Any],
    args: tuple[object, ...],
    keywords: Mapping[str, Any],
    *,
    restarts: bool = True,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of a call, and the keywords of the child's own. Raises DeclarationError for what is no saga."""
    if not isinstance(cast("object", definition), SagaDefinition):
        raise DeclarationError(f"{definition!r} is not a saga; decorate it with @saga(name), or make a SagaDefinition")
    return definition.parted(("actor", "files", "timeout", *(["restarts"] if restarts else [])), args, keywords)


def child_of(
    definition: SagaDefinition[..., T],
    args: tuple[object, ...],
    own: Mapping[str, object],
    most: int = LARGEST_VALUE,
    *,
    actor: str | None = None,
    files: ChildFiles = "own",
    timeout: float | timedelta | None = None,
) -> Child[T]:
    if files not in _FILES:
        raise DeclarationError(f"files={files!r} is none of {', '.join(_FILES)}")
    timeout_s = None if timeout is None else seconds_of(timeout, f"the timeout of {definition.name}")
    if timeout_s is not None:
        whole("seconds", timeout_s)
    delegate = "" if actor is None else checked_actor(actor)
    return Child(definition, definition.bind(args, own, most), delegate, files, timeout_s)


async def call_one(do: DoNamed, wanted: Child[Any], restarts: int, layers: Callable[[], Layers]) -> dict[str, Any]:
    """The child's id and result. One that was rolled back is started again, as another child, up to so many times."""
    call = _Call(do, wanted, restarts, layers)
    return await call.merged(await call.ended())


class _Call:
    """One child on its way: run to its end, and then, where it has a branch, merged."""

    def __init__(self, do: DoNamed, wanted: Child[Any], restarts: int, layers: Callable[[], Layers]) -> None:
        if restarts < 0:
            raise InputError(f"restarts={restarts} is less than none")
        self._do = do
        self._wanted = wanted
        self._left = restarts
        self._layers = layers
        self.merge: dict[str, Any] | None = None
        """The arguments that take the merge out again, once it was made."""

    @functools.cached_property
    def _files(self) -> SagaFiles:
        known = self._layers().known
        if len(known) == 1:
            return known[0]
        what = "call s.files(root) first" if not known else f"this one has {len(known)}, and they cannot be told apart"
        how = "share" if self._wanted.files == "share" else "work on a branch of"
        raise InputError(f"{self._wanted.definition.name} is to {how} its parent's files; {what}")

    async def ended(self) -> dict[str, Any]:
        """Its id and result, when it has completed. A failure flies when no restart is left."""
        if self._wanted.files == "own":
            return await self._called(None)
        place = self._layers().place(self._files)
        if self._wanted.files == "branch":
            from amends.runtime.files.branches import lends

            lends(self._layers())
            return await self._called(replace(place, fork=True).data())
        async with self._layers().turn:  # from here to its end nobody else of the family works on them
            await self._layers().lend(place)
            return await self._called(place.data())

    async def _called(self, files: object) -> dict[str, Any]:
        wanted = self._wanted
        named: dict[str, object] = {
            "definition": wanted.definition.name,
            "version": wanted.definition.version,
            "given": dict(wanted.named),
            "actor": wanted.actor,
            **({"files": files} if files else {}),
            **({} if wanted.timeout_s is None else {"timeout_s": wanted.timeout_s}),
        }
        know(wanted.definition)
        while True:
            try:
                return cast("dict[str, Any]", await self._do(CALL, named))
            except StepFatalError as exc:
                self._take_restart(exc)

    def _take_restart(self, exc: StepError) -> None:
        if exc.happened is not False or self._left == 0:
            raise exc
        self._left -= 1

    async def merged(self, done: dict[str, Any]) -> dict[str, Any]:
        """The child's answer, once what it made is in its parent's files. One that does not fit there is taken back."""
        while (branch := done.get("branch")) is not None:
            named = {"files": self._files, "child": done["child"], "branch": branch}
            try:
                merge = await self._do(MERGE, named)
            except StepError as exc:
                await self._do(REVERT, {"child": done["child"]})
                self._take_restart(exc)
                done = await self.ended()
            else:
                self.merge = {**named, "layer": merge["layer"]}
                break
        return done

    async def unmerge(self) -> None:
        if self.merge is not None:
            await self._do(UNMERGE, self.merge)
            self.merge = None

    async def revert(self, done: dict[str, Any]) -> None:
        """Have it taken back; where it shares files, while nobody else of the family has them open."""
        if self._wanted.files != "share":
            await self._do(REVERT, {"child": done["child"]})
            return
        async with self._layers().turn:
            await self._layers().let_go(self._layers().place(self._files))
            await self._do(REVERT, {"child": done["child"]})


async def restored_result(wanted: Child[T], result: object) -> T:
    """The result of a child, as its definition declares it. Raises DivergedError."""
    typed = wanted.definition.typed
    if typed.result.loads:
        result = await small_or_off_loop(functools.partial(typed.restore_result, result))
    return cast("T", result)


async def call_group(
    do: DoNamed, group: Sequence[Child[T]], on_failure: OnChildFailure, restarts: int, layers: Callable[[], Layers]
) -> list[T]:
    """The results, in the order of the group. What failed for good is raised, when all the others have ended."""
    if on_failure not in _POLICIES:
        raise InputError(f"on_failure={on_failure!r} is none of {', '.join(_POLICIES)}")
    one_by_one = restarts if on_failure == "restart_one" else 0
    rounds = restarts if on_failure == "restart_all" else 0
    while True:
        calls = [_Call(do, one, one_by_one, layers) for one in group]
        ended = await asyncio.gather(*(each.ended() for each in calls), return_exceptions=True)
        if all(isinstance(one, dict) for one in ended):
            ended = await _merged_in_order(calls, cast("list[dict[str, Any]]", ended))
        failures = [one for one in ended if isinstance(one, BaseException)]
        if not failures:
            results = [cast("dict[str, Any]", one)["result"] for one in ended]
            return [await restored_result(one, each) for one, each in zip(group, results, strict=True)]
        stranger = next((one for one in failures if not isinstance(one, StepError)), None)
        if stranger is not None:
            raise stranger
        for each in reversed(calls):
            await each.unmerge()
        for each, done in reversed(list(zip(calls, ended, strict=True))):  # newest first, as a rollback would
            if isinstance(done, dict):
                await each.revert(done)
        if rounds == 0:
            raise failures[0]
        rounds -= 1


async def _merged_in_order(calls: Sequence[_Call], ended: list[dict[str, Any]]) -> list[dict[str, Any] | BaseException]:
    """Merge what children made on branches in the order of the group, whoever of them ended first."""
    found: list[dict[str, Any] | BaseException] = [*ended]
    for place, each in enumerate(calls):
        try:
            found[place] = await each.merged(ended[place])
        except StepError as exc:
            found[place] = exc
            break
    return found
