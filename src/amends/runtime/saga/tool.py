"""Tools for agents: an action as a callable that any framework takes, and a framework's own tool as an action.

A tool has its action's signature, annotations and docstring. In a session it is a step of that, under the id of the
tool call that an adapter has set; anywhere else it opens a session of one step. A plain function of a saga is told to
use `s.do`, and an action's own code calls other actions as plain functions, as without a tool.

A tool that is a plain function may be called in a thread of the framework's while the session's loop runs: its step
goes on there, and the thread waits. On the loop's own thread nothing may wait like that, and it says so.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import ContextVar
from keyword import iskeyword
from typing import Any, Final, ParamSpec, Protocol, TypeVar, cast

from amends.core.words.contracts import Contract, Reversibility, Topic
from amends.errors import DeclarationError, InputError, RefusedError
from amends.gate.environments import DEVELOPMENT
from amends.logs import logger
from amends.runtime.declare.action import Action, InFunction, current_call
from amends.runtime.saga.calls import checked_call
from amends.runtime.saga.model_text import text_of_rollback
from amends.runtime.saga.session import Session, call_id, current_session
from amends.runtime.saga.work import bound
from amends.runtime.values.schema import tool_name

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
_ACTION: Final = "amends_action"
_LONGEST_TOPIC: Final = 128
_log = logger("amends.gate")
_warned: Final[set[str]] = set()
_waits: Final[ContextVar[bool]] = ContextVar("amends_tool_waits", default=False)


class Opens(Protocol):
    """A coordinator, as far as a tool needs it."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that it was opened on."""
        ...

    def session(self, name: str, /) -> AbstractAsyncContextManager[Session]: ...


Opening = Callable[[], AbstractAsyncContextManager[Opens]]
"""How a coordinator is opened for a single step where none is given."""


def make_tool(
    action: Action[P, R],
    opening: Opening | None = None,
    *,
    session: Session | None = None,
    coordinator: Opens | None = None,
) -> Callable[P, R]:
    """A callable with the action's signature: a step of the session that it is called in, else of one of its own."""
    if not isinstance(cast("object", action), Action):
        raise DeclarationError(f"{action!r} is not an action; decorate it with @action(topic), or use register(…)")
    parts = action.parts

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Coroutine[Any, Any, Any], Any]:
        """The step, and the loop that it belongs to; None: whichever runs."""
        named = bound(action, args, kwargs)
        here = session or current_session.get()
        if here is not None:
            call = call_id.get()
            return here.do_named(action, named, call=call, waits=not call or _waits.get()), here.loop
        if coordinator is not None:
            return _alone(action, named, coordinator), coordinator.loop
        if opening is None:
            raise RefusedError(f"{action.topic}: no session is open here, and no coordinator is given")
        return _by_itself(action, named, opening), None

    @functools.wraps(parts.function)
    async def called(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the action's own
        if _is_plain(session):
            return await cast("Coroutine[Any, Any, Any]", action(*args, **kwargs))
        step, loop = begin(args, kwargs)
        if loop is None or loop is asyncio.get_running_loop():
            return await step
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(step, loop))

    @functools.wraps(parts.function)
    def called_in_thread(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the action's own
        if _is_plain(session):
            return action(*args, **kwargs)
        require_no_loop(action.topic, session, coordinator)
        step, loop = begin(args, kwargs)
        return asyncio.run(step) if loop is None else asyncio.run_coroutine_threadsafe(step, loop).result()

    made = cast("Any", called if parts.is_async else called_in_thread)
    if parts.on_files:
        whole = inspect.signature(parts.function)
        kept = [one for name, one in whole.parameters.items() if name != "files"]
        made.__signature__ = whole.replace(parameters=kept)
        made.__annotations__ = {name: one for name, one in made.__annotations__.items() if name != "files"}
        del made.__wrapped__
    made.__name__ = getattr(parts.function, "__name__", tool_name(action.topic))
    setattr(made, _ACTION, action)
    return cast("Callable[P, R]", made)


def require_no_loop(topic: str, session: Session | None, coordinator: Opens | None) -> None:
    """Raises RefusedError where a plain function would have to wait for the loop that it keeps from going on."""
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        return
    here = session or current_session.get()
    owner = here.loop if here is not None else None if coordinator is None else coordinator.loop
    if owner is None or owner is running:
        raise RefusedError(
            f"{topic} is a plain function, and its tool was called on the event loop's own thread, which it would keep "
            f"waiting for itself: declare the action with `async def`, or call the tool in a thread"
        )


def action_of(function: object) -> Action[..., Any] | None:
    """The action behind a tool of ours, or an action itself; None for any other callable."""
    while isinstance(function, functools.partial):
        function = function.func
    found: object = getattr(function, _ACTION, function)
    return cast("Action[..., Any]", found) if isinstance(found, Action) else None


@contextmanager
def calling(session: Session, call: str, *, waits: bool = False) -> Generator[None]:
    """Tools that are called in this block are steps of the session, under the framework's id of the tool call.

    For adapters. Where people are asked about such a step, it raises ApprovalPending, or waits for them with `waits`.
    """
    tokens = current_session.set(session), call_id.set(checked_call(call)), current_call.set(InFunction(session.name))
    waiting = _waits.set(waits)
    try:
        yield
    finally:
        current_session.reset(tokens[0])
        call_id.reset(tokens[1])
        current_call.reset(tokens[2])
        _waits.reset(waiting)


def _is_plain(session: Session | None) -> bool:
    """Whether it is called in a saga's function, which refuses that, or in an action's own code, where it is a call."""
    call = current_call.get()
    if isinstance(call, InFunction):
        return session is None and current_session.get() is None
    return call is not None


async def _alone(action: Action[..., Any], named: Mapping[str, object], coordinator: Opens) -> Any:  # noqa: ANN401 - the action's own type
    async with coordinator.session(action.topic) as s:
        return await s.do_named(action, named)


async def _by_itself(action: Action[..., Any], named: Mapping[str, object], opening: Opening) -> Any:  # noqa: ANN401 - the action's own type
    async with opening() as coordinator:
        return await _alone(action, named, coordinator)


# -- tools that are no actions ----------------------------------------------------------------------------------------


def topic_of(name: str) -> Topic:
    """The topic of a framework's tool that is no action of ours: its name in lower case, with `_` for other letters."""
    lower = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name.lower())
    return Topic(lower.lstrip("_")[:_LONGEST_TOPIC] or "tool")


def undeclared(name: str, run: Callable[..., object], arguments: Mapping[str, object], does: str) -> Action[..., Any]:
    """A framework's own tool as an action that nobody has declared; `run` makes the call, with arguments by name."""
    topic = topic_of(name)

    async def called(**named: Any) -> Any:  # noqa: ANN401 - the tool's own
        return await cast("Coroutine[Any, Any, Any]", run(**named))

    def called_in_thread(**named: Any) -> Any:  # noqa: ANN401 - the tool's own
        return run(**named)

    call = cast("Any", called if inspect.iscoroutinefunction(run) else called_in_thread)
    given = [inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY) for each in arguments]
    call.__signature__ = inspect.Signature(given)
    call.__name__ = call.__qualname__ = tool_name(topic)
    call.__doc__ = does
    return Action(call, Contract(topic=topic, reversibility=Reversibility.UNDECLARED))


def _warn_of_undeclared(name: str, env: str) -> None:
    """In development, name a tool that production would refuse; once in a process."""
    topic = topic_of(name)
    if env == DEVELOPMENT and topic not in _warned:
        _warned.add(topic)
        _log.warning(
            "the tool %s is no action: nothing could take it back, and production would refuse it; declare it with "
            "register(%r, …, compensation=…, no_rollback=… or read_only=True), and give the framework amends.tool(…)",
            name,
            str(topic),
        )


async def do_foreign(
    session: Session,
    name: str,
    run: Callable[..., object],
    arguments: Mapping[str, object],
    *,
    call: str,
    does: str = "",
    waits: bool = False,
) -> Any:  # noqa: ANN401 - the tool's own
    """Do a framework's own tool as a step of a session, undeclared; `run` is its handler, which returns JSON.

    Raises ApprovalPending where people are asked first, but for `waits`.
    """
    _warn_of_undeclared(name, session.env)
    if not all(each.isidentifier() and not iskeyword(each) for each in arguments):
        raise InputError(f"{name}: the arguments of a tool have names of letters, digits and _")
    return await session.do_named(undeclared(name, run, arguments, does), arguments, call=call, waits=waits)


def _here() -> Session:
    session = current_session.get()
    if session is None:
        raise RefusedError("this tool is about a session, and no session is open here")
    return session


async def amends_status() -> str:
    """List the steps of this work so far, and how each stands."""
    told = [f"{one.step} {one.topic}: {one.status}" for one in _here().steps]
    return "\n".join(told) or "No step has been taken yet."


async def amends_checkpoint(name: str) -> str:
    """Mark this place in the work under a name, so that later steps can be taken back to it."""
    await _here().checkpoint(name)
    return f"Marked: {name}."


async def amends_undo(checkpoint: str, why: str) -> str:
    """Take back all steps since a checkpoint, newest first, saying why. What came before it stands."""
    return text_of_rollback(await _here().rollback_to(checkpoint, why))


def is_ours(function: object) -> bool:
    """Whether a tool sees to the journal itself: an action's, or one about the session."""
    return action_of(function) is not None or function in AGENT_TOOLS


AGENT_TOOLS: Final[tuple[Callable[..., Coroutine[Any, Any, str]], ...]] = (
    amends_status,
    amends_checkpoint,
    amends_undo,
)
"""Tools for an agent's list: they are no steps, but act on the session that they are called in."""
