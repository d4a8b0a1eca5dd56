"""The saga as its function sees it: `s`. It acts through `s.do`, and through nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, overload

from amends.core.secret import mask, secrets_in
from amends.core.values import Json, SagaId, canonical
from amends.errors import DeclarationError, InputError
from amends.runtime.action import Action

if TYPE_CHECKING:
    from amends.runtime.driver import Driver

P = ParamSpec("P")
T = TypeVar("T")


class Work:
    """What a saga's function is given as its first argument."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    @property
    def id(self) -> SagaId:
        return self._driver.book.saga.id

    @overload
    async def do(self, action: Action[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    @overload
    async def do(self, action: Action[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...

    async def do(self, action: Action[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Do one step: judged, on disk before it is dispatched, remembered once it is done.

        Returns what the action returned, from the journal if it was done before. Raises a StepError when it ended badly.
        """
        if not isinstance(cast("object", action), Action):
            raise DeclarationError(f"{action!r} is not an action; decorate it with @action(topic), or register(topic, function)")
        try:
            named = action.signature.bind(args, kwargs)
        except TypeError as exc:
            raise InputError(f"{action.topic}: {exc}; it takes ({', '.join(action.signature.names)})") from None
        return await self.do_named(action, named)

    async def do_named(self, action: Action[..., Any], named: Mapping[str, object]) -> Any:  # noqa: ANN401 - the action's own
        """The same with all arguments by name."""
        driver = self._driver
        masked = mask(dict(named), driver.book.saga.id)
        text = canonical(masked, what=f"{action.topic}: args")
        digest = hashlib.sha256(text.encode()).hexdigest()[:32]
        return await driver.step(action, cast("Json", masked), digest, tuple(secrets_in(named)))
