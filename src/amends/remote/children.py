"""Children through a server: `s.call` and `s.call_all`. The function of a child runs here, in a session of its own.

The step that calls it is the server's, as on a journal at hand: it begins the child, hears of its end, and takes it
back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn, TypeVar, cast

from amends.errors import InputError
from amends.remote.limits import require_remote
from amends.runtime.declare.action import Action
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.declare.registry import Registry
from amends.runtime.drive.children import DrivesChildren, here
from amends.runtime.saga.children import (
    Child,
    OnChildFailure,
    call_group,
    call_one,
    child_of,
    parted_call,
    restored_result,
)
from amends.runtime.values.bounded import small_or_off_loop

T = TypeVar("T")


class KnownDefinitions:
    """The definitions of this process, as the steps that call them ask for them."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def know(self, definition: SagaDefinition[..., Any]) -> None:
        """Raises InputError for one that cannot run through a server."""
        require_remote(definition)
        self._registry.add_definition(definition)

    def definition(self, name: str, version: int) -> SagaDefinition[..., Any]:
        return self._registry.definition(name, version)


class Calling(ABC):
    """The part of a saga through a server that calls others as its children."""

    _definitions: KnownDefinitions

    @abstractmethod
    async def do_named(self, action: Action[..., Any], named: Mapping[str, object]) -> Any:  # noqa: ANN401 - the action's own
        ...

    def call(self, definition: SagaDefinition[..., T], /, *args: object, **kwargs: Any) -> Coroutine[Any, Any, T]:  # noqa: ANN401 - the saga's own
        """Run another saga to its end, as a child of this one; gives its result. Await it.

        Taking this step back rolls the child back, even after it completed. It takes the options `restarts=` and
        `timeout=`, as `s.call` does on a journal at hand; a child is whose its parent is, and has no files of it.
        """
        asked, own = parted_call(definition, args, kwargs)
        restarts = asked.pop("restarts", 0)
        return self._call(partial(child_of, definition, args, own, **asked), restarts)

    async def _call(self, bind: Callable[[int], Child[T]], restarts: int) -> T:
        wanted = await small_or_off_loop(bind)
        self._enter((wanted,))
        ended = await call_one(self.do_named, wanted, restarts, _no_layers)
        return await restored_result(wanted, ended["result"])

    async def call_all(
        self, children: Sequence[Child[T]], *, on_failure: OnChildFailure = "revert_all", restarts: int = 1
    ) -> list[T]:
        """Run several children side by side; gives their results in order. What is to be when one fails is as on a
        journal at hand.
        """
        self._enter(children)
        return await call_group(self.do_named, children, on_failure, restarts, _no_layers)

    def _enter(self, children: Sequence[Child[Any]]) -> None:
        for one in children:
            require_remote(one.definition, one.actor)
        here.set(cast("DrivesChildren", self._definitions))


def _no_layers() -> NoReturn:
    raise InputError("a child works on its parent's files only where the journal is; leave files= out, or run it there")
