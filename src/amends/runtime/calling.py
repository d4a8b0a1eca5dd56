"""`s.call` and `s.call_all`: one child saga, or a group of them with a policy for when one fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, cast

from amends.errors import DeclarationError, InputError, StepError, StepFatalError
from amends.runtime.checked import checked_actor
from amends.runtime.children import CALL, REVERT, know

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from amends.runtime.action import Action
    from amends.runtime.definition import SagaDefinition
    from amends.runtime.files.layers import Layers
    from amends.runtime.files.sharing import ChildFiles

OnChildFailure: TypeAlias = Literal["revert_all", "restart_one", "restart_all"]
_FILES: Final = ("own", "share")
_POLICIES: Final = ("revert_all", "restart_one", "restart_all")


class Do(Protocol):
    """What does a step: `s.do_named`."""

    def __call__(self, action: Action[..., Any], named: Mapping[str, object], /) -> Coroutine[Any, Any, Any]: ...


@dataclass(frozen=True, slots=True)
class Child:
    """A child saga to be called: `child(definition, …)` makes one, for `s.call_all`."""

    definition: SagaDefinition
    named: Mapping[str, object]
    actor: str = ""
    files: str = "own"


def child(
    definition: SagaDefinition,
    *args: Any,  # noqa: ANN401 - the saga's own
    actor: str | None = None,
    files: ChildFiles = "own",
    **kwargs: Any,  # noqa: ANN401 - the saga's own
) -> Child:
    """A child saga with its input, for `s.call_all`. `actor` is the agent that it is delegated to.

    files: "share" has it work in the changeset of its parent, "own" in one of its own.
    """
    from amends.runtime.definition import SagaDefinition as Definition

    if not isinstance(cast("object", definition), Definition):
        raise DeclarationError(f"{definition!r} is not a saga; decorate it with @saga(name), or make a SagaDefinition")
    if cast("str", files) == "branch":
        raise DeclarationError(
            "files='branch': a child cannot work on a copy of its parent's unlanded files that is merged back later; "
            "files='share' has it work on them in its turn, and files='own' on the tree, to land by itself"
        )
    if files not in _FILES:
        raise DeclarationError(
            f"files={files!r} is none of {', '.join(_FILES)}; where the saga itself takes `files`, pass it by position"
        )
    return Child(definition, definition.bind(args, kwargs), "" if actor is None else checked_actor(actor), files)


async def call_one(do: Do, wanted: Child, restarts: int, layers: Callable[[], Layers]) -> dict[str, Any]:
    """The child's id and result. One that was rolled back is started again, as another child, up to so many times."""
    if wanted.files == "own":
        return await _called(do, wanted, restarts, None)
    known = layers().known
    if len(known) != 1:
        what = "call s.files(root) first" if not known else f"this one has {len(known)}, and they cannot be told apart"
        raise InputError(f"{wanted.definition.name} is to share its parent's files; {what}")
    async with layers().turn:  # from here to its end nobody else of the family works on them
        place = layers().place(known[0])
        await layers().lend(place)
        return await _called(do, wanted, restarts, place.data())


async def _called(do: Do, wanted: Child, restarts: int, files: object) -> dict[str, Any]:
    if restarts < 0:
        raise InputError(f"restarts={restarts} is less than none")
    named: dict[str, object] = {
        "definition": wanted.definition.name,
        "version": wanted.definition.version,
        "given": dict(wanted.named),
        "actor": wanted.actor,
        **({"files": files} if files else {}),
    }
    know(wanted.definition)
    left = restarts
    while True:
        try:
            return cast("dict[str, Any]", await do(CALL, named))
        except StepFatalError as exc:
            if exc.happened is not False or left == 0:
                raise
            left -= 1


async def call_group(
    do: Do, group: Sequence[Child], on_failure: OnChildFailure, restarts: int, layers: Callable[[], Layers]
) -> list[Any]:
    """The results, in the order of the group. What failed for good is raised, when all the others have ended."""
    if on_failure not in _POLICIES:
        raise InputError(f"on_failure={on_failure!r} is none of {', '.join(_POLICIES)}")
    one_by_one = restarts if on_failure == "restart_one" else 0
    rounds = restarts if on_failure == "restart_all" else 0
    while True:
        ended = await asyncio.gather(*(call_one(do, one, one_by_one, layers) for one in group), return_exceptions=True)
        failures = [one for one in ended if isinstance(one, BaseException)]
        if not failures:
            return [cast("dict[str, Any]", one)["result"] for one in ended]
        stranger = next((one for one in failures if not isinstance(one, StepError)), None)
        if stranger is not None:
            raise stranger
        for one, done in reversed(list(zip(group, ended, strict=True))):  # newest first, as a rollback would
            if isinstance(done, dict):
                await _reverted(do, done["child"], layers if one.files == "share" else None)
        if rounds == 0:
            raise failures[0]
        rounds -= 1


async def _reverted(do: Do, child: str, layers: Callable[[], Layers] | None) -> None:
    """Have a child taken back; where it shares files, while nobody else of the family has them open."""
    if layers is None:
        await do(REVERT, {"child": child})
        return
    async with layers().turn:
        await layers().let_go(layers().place(layers().known[0]))
        await do(REVERT, {"child": child})
