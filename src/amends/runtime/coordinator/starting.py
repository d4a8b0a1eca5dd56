"""Where sagas begin: the part of a coordinator that runs and starts them.

A saga's own arguments are checked by type checkers where no option stands beside them: a signature cannot say both. So
each further overload requires one of the options; with all of them optional, it would take every wrong call.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Any, ParamSpec, TypeVar, cast, overload

from amends.errors import InputError
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.declare.limits import Limits
from amends.runtime.declare.options import START_OPTIONS, StartOptions
from amends.runtime.engine.handle import Ended, Handle
from amends.runtime.settings import Bounds
from amends.runtime.values.bounded import small_or_off_loop

P = ParamSpec("P")
R = TypeVar("R")


def checked_definition(definition: SagaDefinition[..., R]) -> SagaDefinition[..., R]:
    if not isinstance(cast("object", definition), SagaDefinition):
        raise InputError(f"{definition!r} is not a saga; decorate it with @saga(name), or make a SagaDefinition")
    return definition


class Starting(ABC):
    """Runs a definition as a new saga, or joins the one that has its id."""

    @overload
    async def run(self, definition: SagaDefinition[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Ended[R]: ...

    @overload
    async def run(
        self,
        definition: SagaDefinition[..., R],
        /,
        *args: object,
        id: str | None,
        actor: str | None = ...,
        labels: Mapping[str, str] | None = ...,
        limits: Limits | None = ...,
        options: StartOptions = ...,
        **kwargs: object,
    ) -> Ended[R]: ...

    @overload
    async def run(
        self,
        definition: SagaDefinition[..., R],
        /,
        *args: object,
        actor: str | None,
        id: str | None = ...,
        labels: Mapping[str, str] | None = ...,
        limits: Limits | None = ...,
        options: StartOptions = ...,
        **kwargs: object,
    ) -> Ended[R]: ...

    @overload
    async def run(
        self,
        definition: SagaDefinition[..., R],
        /,
        *args: object,
        labels: Mapping[str, str] | None,
        id: str | None = ...,
        actor: str | None = ...,
        limits: Limits | None = ...,
        options: StartOptions = ...,
        **kwargs: object,
    ) -> Ended[R]: ...

    @overload
    async def run(
        self,
        definition: SagaDefinition[..., R],
        /,
        *args: object,
        limits: Limits | None,
        id: str | None = ...,
        actor: str | None = ...,
        labels: Mapping[str, str] | None = ...,
        options: StartOptions = ...,
        **kwargs: object,
    ) -> Ended[R]: ...

    @overload
    async def run(
        self,
        definition: SagaDefinition[..., R],
        /,
        *args: object,
        options: StartOptions,
        **kwargs: object,
    ) -> Ended[R]: ...

    async def run(
        self,
        definition: Any,
        /,
        *args: object,
        **kwargs: object,
    ) -> Ended[Any]:
        """Run a saga to its end: completed, rolled back, or an incident. The keywords are those of `start`."""
        return await (await self._start(definition, args, kwargs))

    @overload
    async def start(self, definition: SagaDefinition[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Handle[R]: ...

    @overload
    async def start(
        self,
        definition: SagaDefinition[..., R],
        /,
        *args: object,
        id: str | None,
        actor: str | None = ...,
        labels: Mapping[str, str] | None = ...,
        limits: Limits | None = ...,
        options: StartOptions = ...,
        **kwargs: object,
    ) -> Handle[R]: ...

    @overload
    async def start(
        self,
        definition: SagaDefinition[..., R],
        /,
        *args: object,
        actor: str | None,
        id: str | None = ...,
        labels: Mapping[str, str] | None = ...,
        limits: Limits | None = ...,
        options: StartOptions = ...,
        **kwargs: object,
    ) -> Handle[R]: ...

    @overload
    async def start(
        self,
        definition: SagaDefinition[..., R],
        /,
        *args: object,
        labels: Mapping[str, str] | None,
        id: str | None = ...,
        actor: str | None = ...,
        limits: Limits | None = ...,
        options: StartOptions = ...,
        **kwargs: object,
    ) -> Handle[R]: ...

    @overload
    async def start(
        self,
        definition: SagaDefinition[..., R],
        /,
        *args: object,
        limits: Limits | None,
        id: str | None = ...,
        actor: str | None = ...,
        labels: Mapping[str, str] | None = ...,
        options: StartOptions = ...,
        **kwargs: object,
    ) -> Handle[R]: ...

    @overload
    async def start(
        self,
        definition: SagaDefinition[..., R],
        /,
        *args: object,
        options: StartOptions,
        **kwargs: object,
    ) -> Handle[R]: ...

    async def start(
        self,
        definition: Any,
        /,
        *args: object,
        **kwargs: object,
    ) -> Handle[Any]:
        """Start a saga and go on; awaiting the handle waits for its end. Beside its input it takes options.

        id: the same id twice is one saga: the second call joins the first, in whichever process, as long as it asks
        for the same. Raises RefusedError, here or when it is awaited, where it asks for something else.
        actor: on whose behalf it runs. labels: notes on it.
        limits: what it may use up; each takes the place of the definition's own.
        options: the same as one object, where the saga itself takes a parameter of such a name.
        """
        return await self._start(definition, args, kwargs)

    async def _start(
        self, definition: SagaDefinition[..., R], args: tuple[object, ...], keywords: dict[str, Any]
    ) -> Handle[R]:
        asked, own = checked_definition(definition).parted(START_OPTIONS, args, keywords)
        named = await small_or_off_loop(partial(definition.bind, args, own))
        return await self.start_bound(definition, named, **asked)

    @abstractmethod
    async def start_bound(
        self,
        definition: SagaDefinition[..., R],
        named: Mapping[str, object],
        *,
        id: str | None = None,
        actor: str | None = None,
        labels: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        bounds: Bounds | None = None,
    ) -> Handle[R]: ...
