"""Sagas that commands drive: follow one as it goes, and say by an exit code how it ended."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

import click

from amends.addresses import is_kept, is_server
from amends.cli import config
from amends.cli.journal import coordinator_at, opened_to_read
from amends.cli.show.hints import command, modules_for, tell_review, unconfigured
from amends.cli.show.output import Output, Part, hint
from amends.cli.show.timeline import ended_further, ended_parts, tell_further, tell_line, time_left, widths, widths_for
from amends.clock import SystemClock
from amends.core.events import Cause, declared_in
from amends.core.state.saga import Saga
from amends.core.transitions import SagaStatus
from amends.core.words.values import BUILT_IN, SagaId
from amends.errors import InputError, RefusedError, UnknownActionError, UnknownDefinitionError
from amends.evidence.story.timeline import Line, Timeline
from amends.journal.port.journal import Entry, Journal, SagaQuery
from amends.operate.fields import ended_fields, entry_fields
from amends.operate.reading import load, require_journal
from amends.text import clock_time, visible

if TYPE_CHECKING:
    import asyncio

    from amends.bootstrap import Coordinator
    from amends.runtime.coordinator.people import Approval
    from amends.runtime.declare.registry import Registry
    from amends.runtime.engine.handle import Ended

DONE: Final = 0
ROLLED_BACK: Final = 3
INCIDENT: Final = 4
DENIED: Final = 5
NOT_OVER: Final = 6
TERMINATED: Final = 143
_AT_ONCE: Final = 500
_LATE_S: Final = 2.0
_CONTEXT: Final = 200
_WIDEST_NAME: Final = 26
_GATEWAY: Final = "mcp.gateway"
_NAME_IT: Final = "name the module that declares it with --module"

T = TypeVar("T")


def exit_code(ended: Ended) -> int:
    match ended.status:
        case SagaStatus.COMPLETED:
            return DONE
        case SagaStatus.ROLLED_BACK | SagaStatus.MITIGATED:
            return DENIED if ended.cause == Cause.DENIED else ROLLED_BACK
        case SagaStatus.INCIDENT:
            return INCIDENT
        case _:
            return NOT_OVER


def finish(work: Coroutine[Any, Any, T]) -> T:
    """Run this to its end. A SIGTERM drains the coordinator and takes the work away; then the process ends by it."""
    import asyncio  # what only looks does without

    try:
        return asyncio.run(work)
    except asyncio.CancelledError:
        raise click.exceptions.Exit(TERMINATED) from None


def drive(work: Coroutine[Any, Any, T]) -> T:
    """Run this to its end as `finish` does, and export what the environment asks for. Modules are imported before: one
    that sets up OpenTelemetry itself is left to it.
    """
    _export()
    if "opentelemetry.sdk.trace" not in sys.modules:
        return finish(work)
    from amends.telemetry.exporting import started_within  # an extra

    with started_within(os.environ):
        return finish(work)


def _export() -> None:
    """Whatever is wrong with what the environment asks for is told, and stops nothing."""
    from amends.telemetry.environment import NEEDED, wanted  # only who drives sagas exports

    try:
        wants = wanted(os.environ)
    except ValueError as exc:
        hint(f"telemetry is not exported: {exc}")
        return
    if not wants:
        return
    try:
        from amends.telemetry.exporting import set_up
    except ImportError as exc:
        hint(f"{wants[0].variable} is set, and nothing is exported ({exc}): install {NEEDED}")
    else:
        set_up(wants, hint)


# -- opening ----------------------------------------------------------------------------------------------------------


def require_known(
    saga: Saga, registry: Registry | None, *, forward: bool, but: str | None = None, settles: bool = False
) -> None:
    """Refuse to take up a saga whose actions this process does not know: each would end as another incident.

    settles: it only comes to its end, and what stands well is left alone. No registry: others have the actions.
    """
    if registry is None:
        return
    lacking: dict[str, None] = {}
    begun = saga.begun
    if forward and begun is not None:
        try:
            registry.definition(begun.definition, begun.version)
        except UnknownDefinitionError:
            lacking[f"saga {begun.definition} version {begun.version}"] = None
    for step in saga.steps.values():
        is_open = step.unsettled or step.held if settles else step.owed or step.named
        if is_open and step.id != but and step.contract.may_be_called:
            try:
                registry.action(step.contract.topic, step.contract.version)
            except UnknownActionError:
                lacking[f"action {step.contract.topic} version {step.contract.version}"] = None
    if lacking:
        module = declared_in(saga.begun)
        how = f"name the module that declared it: --module {module}" if module else _NAME_IT
        raise InputError(f"saga {saga.id} needs what is not known here: {', '.join(lacking)}; {how}")


def open_incident(saga: Saga) -> str:
    """The id of a saga's newest open incident. Raises RefusedError where there is none."""
    if not saga.open_incidents:
        raise RefusedError(f"saga {saga.id} is {saga.status}: it has no open incident to retry")
    return f"{saga.id}/{saga.open_incidents[-1].number}"


async def require_free(journal: Journal, saga: Saga, *, partly: bool = False) -> None:
    """Refuse to take a child back that its parent counts on, before anybody is asked for its modules."""
    from amends.core.decide.require import may_go_back_alone
    from amends.runtime.drive.kinship import counted_on

    counted = "" if saga.begun is None else await counted_on(journal, saga.id, saga.begun)
    if counted and saga.rollback is None and not may_go_back_alone(saga, partly=partly):
        raise RefusedError(counted)


# -- following --------------------------------------------------------------------------------------------------------


class Follower:
    """Shows one saga's entries past `after`, in order, each once, whoever wrote them."""

    def __init__(
        self,
        journal: Journal,
        saga: str,
        out: Output,
        *,
        after: int = 0,
        topics: Iterable[str] = (),
        is_page: bool = False,
    ) -> None:
        """`topics` are those that may come: the column is as wide as they need from the first line on.

        is_page: of what came before, only the first entry and a few are read, which say which step is which.
        """
        self._journal = journal
        self._saga = SagaId(saga)
        self._out = out
        self.seen = max(0, after - _CONTEXT) if is_page else 0
        self._after = after
        self.name: Part = ""
        """What each of its lines begins with."""
        self._timeline = Timeline()
        self._has_begun = False
        self._widths = widths_for(topics)

    async def catch_up(self) -> None:
        lines: list[Line] = []
        if self.seen and not self._has_begun:
            await self._begin()
        self._has_begun = True
        try:
            async for entry in self._journal.read(self._saga, after=self.seen):
                self.seen = entry.number
                line = self._timeline.line(entry)
                if entry.number > self._after:
                    self._out.record("entry", entry_fields(entry))
                    if line is not None:
                        lines.append(line)
                if len(lines) >= _AT_ONCE:
                    self._say(lines)
        finally:  # whoever stops in the middle comes again, and what was read is not read again
            self._say(lines)

    async def _begin(self) -> None:
        """Read who asked for the saga: its first entry says that."""
        first = self._journal.read(self._saga)
        with contextlib.suppress(StopAsyncIteration):
            self._timeline.line(await anext(first))

    def _say(self, lines: list[Line]) -> None:
        """The columns of lines that are shown together are as wide as the widest of them."""
        self._widths = widths(lines, self._widths)
        for line in lines:
            tell_line(self._out, line, self._widths, self.name)
        lines.clear()

    @contextlib.asynccontextmanager
    async def following(self, observe: Callable[[Callable[[Entry], None]], Callable[[], None]]) -> AsyncGenerator[None]:
        """While this lasts, what becomes durable is shown; when it ends well, everything has been."""
        async with _on_news(self.catch_up) as news:
            stop = observe(lambda _entry: news.set())
            news.set()
            try:
                yield
            finally:
                stop()
        await self.catch_up()


@contextlib.asynccontextmanager
async def _on_news(catch_up: Callable[[], Awaitable[None]]) -> AsyncGenerator[asyncio.Event]:
    """While this lasts, `catch_up` runs whenever the event is set."""
    import asyncio

    news = asyncio.Event()

    async def stay() -> None:
        while True:
            await news.wait()
            news.clear()
            await catch_up()

    staying = asyncio.ensure_future(stay())
    try:
        yield news
    finally:
        staying.cancel()
        await asyncio.gather(staying, return_exceptions=True)


async def followed(
    coordinator: Coordinator, saga: str, work: Awaitable[Ended], out: Output, *, after: int = 0
) -> Ended:
    """The end of this work on a saga, with what it makes durable shown meanwhile."""
    registry = cast("Registry | None", coordinator.registry)  # a server's coordinator has none: others have the actions
    known = () if registry is None else registry.actions()
    topics = [each.topic for each in known if not each.topic.startswith(BUILT_IN)]
    follower = Follower(coordinator.journal, saga, out, after=after, topics=topics)
    async with follower.following(coordinator.observe):
        return await work


class Followers:
    """Shows what happens to every saga that is driven here, as it happens. As long as it is only one, its lines are
    those of `amends run`; from the second one on, each line begins with whose it is.
    """

    def __init__(self, journal: Journal, out: Output) -> None:
        self._journal = journal
        self._out = out
        self._of: dict[SagaId, Follower] = {}
        self._moved: dict[SagaId, None] = {}
        self._width = 0

    def _note(self, entry: Entry) -> None:
        if entry.saga not in self._of:
            if not self._of:
                self._out.say("saga ", (visible(entry.saga), "bold"))
            self._of[entry.saga] = Follower(self._journal, entry.saga, self._out, after=entry.number - 1)
            self._width = max(self._width, min(len(visible(entry.saga)), _WIDEST_NAME))
        self._moved[entry.saga] = None

    async def _catch_up(self) -> None:
        from asyncio import CancelledError

        while self._moved:
            saga = next(iter(self._moved))
            del self._moved[saga]
            follower = self._of[saga]
            follower.name = (f"{visible(saga):<{self._width}}  ", "dim") if len(self._of) > 1 else ""
            try:
                await follower.catch_up()
            except CancelledError:
                self._moved[saga] = None
                raise

    @contextlib.asynccontextmanager
    async def following(self, observe: Callable[[Callable[[Entry], None]], Callable[[], None]]) -> AsyncGenerator[None]:
        """While this lasts, what becomes durable is shown; when it ends well, everything has been."""
        async with _on_news(self._catch_up) as news:

            def note(entry: Entry) -> None:
                self._note(entry)
                news.set()

            stop = observe(note)
            try:
                yield
            finally:
                stop()
        await self._catch_up()


async def resume_all(coordinator: Coordinator, out: Output) -> list[Ended]:
    """How the sagas end that are taken up here, with what becomes of them shown meanwhile; as JSON, only their ends."""
    if out.as_json:
        return await coordinator.resume()
    async with Followers(coordinator.journal, out).following(coordinator.observe):
        return await coordinator.resume()


async def remember(
    journal: Journal, *, saga: str | None = None, show: Callable[[str, str], None] | None = None
) -> None:
    """Make known again what unfinished sagas, or this one, were made from, of those that were run from files."""
    from amends.sagafile import remember as remember_files  # and YAML, commands, changesets: not for who only looks

    await remember_files(journal, saga=saga, show=show)
    if not await _has_tools(journal, saga):
        return
    try:
        from amends.gateway.recovery import remember_tools
    except ImportError:
        return  # the extra mcp is not there, and so nothing that came through a gateway can be called
    await remember_tools(journal, saga=saga)


async def _has_tools(journal: Journal, saga: str | None) -> bool:
    """Whether a saga, or any, came through a gateway."""
    if saga is None:
        return bool((await journal.sagas(SagaQuery(definition=_GATEWAY, limit=1))).rows)
    row = await journal.saga(SagaId(saga))
    return row is not None and row.definition == _GATEWAY


Asked: TypeAlias = "Callable[[Coordinator, Saga], Awaitable[Ended]]"


def settle(asked: Asked, saga: str, *, modules: Iterable[str], address: str, as_json: bool) -> int:
    """Have a person's request done to a saga, with the modules known that it needs; the exit code."""
    from amends.cli.modules import load_modules

    out = Output(as_json=as_json)

    async def whole() -> Stands:
        async with coordinator_at(address) as coordinator:
            if not is_server(address):
                await remember(coordinator.journal, saga=saga, show=out.show_output)
            state = await load(coordinator.journal, SagaId(saga))
            with _patient(address, state):
                ended = await followed(coordinator, saga, asked(coordinator, state), out, after=state.head)
            return await standing(coordinator, ended)

    require_journal(address)
    with out.kept_clean():
        load_modules(modules)
        ended, waits_for = drive(whole())
    tell_ended(out, ended, waits_for, journal=address, modules=modules)
    return DONE if ended.status.ended else exit_code(ended)


@contextlib.contextmanager
def _patient(address: str, saga: Saga) -> Generator[None]:
    """While this lasts longer than a moment, through a server, say what is waited for: others make the calls."""
    if not is_server(address):
        yield
        return
    import asyncio

    work = visible(command(address, "resume", *modules_for(saga.begun)))
    words = f"waiting for a process that has its actions, such as: {work}; Ctrl-C ends this command alone"
    late = asyncio.get_running_loop().call_later(_LATE_S, hint, words)
    try:
        yield
    finally:
        late.cancel()


# -- ends, and what is waited for -------------------------------------------------------------------------------------

Stands: TypeAlias = "tuple[Ended, tuple[Approval, ...]]"
"""Where a saga stands, and what people are asked if it waits for them."""


async def standing(coordinator: Coordinator, ended: Ended) -> Stands:
    if ended.status is not SagaStatus.WAITING:
        return ended, ()
    rows = await coordinator.approvals(saga=ended.id)
    return ended, tuple([await coordinator.approval(row.id) for row in rows])


def tell_ended(
    out: Output,
    ended: Ended,
    waits_for: Sequence[Approval] = (),
    *,
    journal: str = config.JOURNAL,
    modules: Iterable[str] = (),
) -> None:
    from amends.operate.fields import asking_fields
    from amends.runtime.coordinator.people import lacking

    out.say(*ended_parts(ended))
    tell_further(out, ended_further(ended))
    for incident in ended.incidents:
        out.say(f"  {visible(command(journal, 'incident', 'show', incident))}")
    for name in ended.waits_for:
        out.say(f"  waits for {visible(name)}: {visible(command(journal, 'saga', 'signal', ended.id, name))}")
    now, is_left = SystemClock().now(), is_kept(journal)
    if ended.due_at is not None:
        again = f": {visible(command(journal, 'resume', *modules))}" if is_left else ""
        out.say(f"  it may go on at {clock_time(ended.due_at, now)}{again}")
    for asked in waits_for:
        out.record("approval", asking_fields(asked))
        left = time_left(asked.expires_at, now)
        out.say(f"  {visible(asked.topic)} waits for {visible(lacking(asked))}; time left: {left}")
        for verb in ("show", "grant") if is_left else ():
            out.say(f"    {visible(command(journal, 'approval', verb, asked.id))}")
    if waits_for and is_left:
        out.say(f"  once they have answered: {visible(command(journal, 'resume', *unconfigured(modules)))}")
    elif waits_for:
        out.say("  nobody can answer any more: a journal in memory is gone with its process")
    if ended.status is SagaStatus.COMPLETED and is_left:
        finish(show_review(out, ended.id, journal))
    out.record("ended", ended_fields(ended))


async def show_review(out: Output, saga: str, journal: str) -> None:
    """Say which changesets a saga has left in review, by the journal at this address."""
    async with opened_to_read(journal) as opened:
        await tell_review(out, opened, saga, journal)
