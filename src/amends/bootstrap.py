"""Wiring: a journal's address and a few words make a Coordinator. The only place that knows concrete classes."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from amends.addresses import TOKEN, URL, digest_key, open_journal, shown
from amends.clock import Clock, SteadyClock, SystemClock
from amends.core.words.values import Json, SagaId
from amends.errors import InputError, PolicyNotInForceError, RefusedError
from amends.gate.policy import Policy
from amends.notify.target import Target
from amends.runtime.coordinator import coordinator as runtime
from amends.runtime.coordinator.starting import checked_definition
from amends.runtime.declare.action import Action
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.declare.limits import Limits
from amends.runtime.declare.names import login
from amends.runtime.declare.options import RUN_OPTIONS, START_OPTIONS, StartOptions
from amends.runtime.declare.registry import PROCESS, Registry
from amends.runtime.drive.policies import Policies
from amends.runtime.engine.handle import Ended
from amends.runtime.saga.tool import make_tool
from amends.runtime.settings import Settings

if TYPE_CHECKING:
    from amends.remote.coordinator import RemoteCoordinator
    from amends.telemetry.live import Telemetry


P = ParamSpec("P")
R = TypeVar("R")


class Coordinator(runtime.Coordinator):
    """Runs sagas on a journal: the object that users hold. `open` makes one."""

    @classmethod
    def open(  # noqa: PLR0913 - what can be chosen, each by name
        cls,
        journal: str = "amends.db",
        *,
        policy: str | PathLike[str] | None = None,
        env: str | None = None,
        environments: Mapping[str, Iterable[str]] | None = None,
        registry: Registry = PROCESS,
        settings: Settings | None = None,
        notify: Sequence[Target] = (),
        signals: bool = True,
        clock: Clock | None = None,
        evidence_key: str | None = None,
        journal_group: str | None = None,
        telemetry: bool = True,
    ) -> Opening:
        """Open a coordinator: `async with Coordinator.open("amends.db") as coordinator`, or await it, then close it.

        journal: a file's path, made where there is none; `postgresql://…`, which `amends journal migrate` makes;
            `:memory:` keeps nothing past this process.
        policy: the file that has to be the policy in force; a journal that holds nothing yet begins with it. Raises
            PolicyNotInForceError where another one judges: `adopt` changes that. Where none is named, what was adopted
            last judges, else the built-in one. Raises PolicyError.
        env: where it runs, as the gate is told; development, where none is given. A word that nobody declared is taken
            for production.
        environments: other words for them, beside the policy's and the built-in ones: {"production": ["eu-*"]}.
        notify: who is told of new approvals and incidents while it is open: `Webhook`s, `Command`s, `NoticeFile`s.
        signals: on SIGTERM, drain and give the leases back before the process ends as it would have.
        evidence_key: the path of the key that signs, or the key; otherwise AMENDS_EVIDENCE_KEY,
        AMENDS_EVIDENCE_KEY_FILE, AMENDS_EVIDENCE_KEY_COMMAND, or the file beside the journal, made where there is none.
        journal_group: the group whose members share the journal, by name; otherwise what the settings say, or
            AMENDS_JOURNAL_GROUP. Without one, a journal that others could read or write is refused.
        telemetry: OpenTelemetry spans and metrics, where this process has set up its SDK before; otherwise none.
        """

        async def opened() -> Coordinator:
            used, numbers = SteadyClock(clock or SystemClock()), settings or Settings()
            wanted = None if policy is None else _loaded(policy)
            group = journal_group or numbers.journal_group
            store = await open_journal(journal, used, evidence_key=evidence_key, journal_group=group)
            try:
                gate = Policies(store, used, numbers.poll_s, root=numbers.root)
                await gate.refresh()
                why = f"the journal begins with {policy}"
                if wanted is not None and not await gate.begins_with(wanted, by=login(), why=why):
                    raise _not_in_force(gate, str(policy), journal)
                seen = _telemetry(used) if telemetry else None
                made = cls(
                    journal=store,
                    gate=gate,
                    clock=used,
                    env=env,
                    environments=environments,
                    registry=registry,
                    settings=numbers,
                    notify=notify,
                    executor=None if seen is None else seen.executor(numbers.threads),
                    telemetry=seen,
                    digest_key=digest_key(journal, evidence_key, journal_group=group),
                )
                await made.__aenter__()
                if seen is not None:
                    seen.start(store)
                    made._telemetry = seen
            except BaseException:  # whatever it was, it flies on; the journal must not stay open
                await store.close()
                raise
            if signals:
                made._end_on_sigterm()
            return made

        return Opening(opened)

    @staticmethod
    def connect(
        url: str | None = None, *, token: str | None = None, registry: Registry = PROCESS, patience: float = 30.0
    ) -> Connecting:
        """Stand before a server (`amends serve`) that has the journal: `async with Coordinator.connect(url) as …`.

        The functions of sagas and actions run in this process; the server judges, has each step on record before it is
        dispatched, and says what is to be taken back.
        url: `https://…`, or `unix:///path` of its socket; otherwise AMENDS_URL.
        token: who this is; otherwise AMENDS_TOKEN. At a socket none is needed: there the login says it.
        patience: how many seconds a server that does not answer is asked again, as one that is started anew.
        """
        return Connecting(url, token, registry, patience)

    _restore_signals: Callable[[], None] | None = None
    _terminated: asyncio.Task[None] | None = None
    _telemetry: Telemetry | None = None

    def _end_on_sigterm(self) -> None:
        """Take SIGTERM only where nobody else has it, and pass it on after draining."""
        on_main = threading.current_thread() is threading.main_thread()
        if not on_main or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
            return
        loop = asyncio.get_running_loop()

        def terminate() -> None:
            self._terminated = self._terminated or asyncio.ensure_future(self.close())

        def restore() -> None:
            loop.remove_signal_handler(signal.SIGTERM)

        try:
            loop.add_signal_handler(signal.SIGTERM, terminate)
        except (NotImplementedError, RuntimeError):
            return  # this platform or loop takes no signals: SIGTERM then ends the process at once, which is safe too
        self._restore_signals = restore

    async def close(self) -> None:
        """Drain and give the leases back; then, if SIGTERM asked for it, end as the process would have."""
        await super().close()
        if self._telemetry is not None:
            await self._telemetry.stop()
        if self._restore_signals is not None:
            self._restore_signals()
            self._restore_signals = None
        if self._terminated is not None:
            signal.raise_signal(signal.SIGTERM)


def tool(action: Action[P, R], *, coordinator: Coordinator | None = None) -> Callable[P, R]:
    """A callable with the action's signature, annotations and docstring, which any agent framework takes as a tool.

    Called in a session, it is a step of that. Anywhere else it opens a session of one step, with this coordinator, or
    on the journal that `amends.run` uses where none is named. What is sync stays sync, and what is async, async.
    """
    return make_tool(action, lambda: Coordinator.open(signals=False), coordinator=coordinator)


class Opening(Awaitable[Coordinator]):
    """A coordinator about to be opened: `await` it, or enter it with `async with`."""

    def __init__(self, opened: Callable[[], Awaitable[Coordinator]]) -> None:
        self._opened = opened
        self._coordinator: Coordinator | None = None

    def __await__(self) -> Generator[Any, None, Coordinator]:
        return self._opened().__await__()

    async def __aenter__(self) -> Coordinator:
        self._coordinator = await self._opened()
        return self._coordinator

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._coordinator is not None:
            await self._coordinator.close()


class Connecting(Awaitable["RemoteCoordinator"]):
    """A coordinator about to be connected: `await` it, or enter it with `async with`."""

    def __init__(self, url: str | None, token: str | None, registry: Registry, patience: float) -> None:
        self._url, self._token = url, token
        self._registry, self._patience = registry, patience
        self._coordinator: RemoteCoordinator | None = None

    async def _connected(self) -> RemoteCoordinator:
        from amends.remote.coordinator import RemoteCoordinator
        from amends.remote.server import Server

        url = self._url or os.environ.get(URL)
        if not url:
            raise InputError("no server is named: give its url, or set AMENDS_URL")
        token = self._token or os.environ.get(TOKEN)
        return RemoteCoordinator(Server(url, token, patience_s=self._patience), self._registry)

    def __await__(self) -> Generator[Any, None, RemoteCoordinator]:
        return self._connected().__await__()

    async def __aenter__(self) -> RemoteCoordinator:
        self._coordinator = await self._connected()
        return self._coordinator

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._coordinator is not None:
            await self._coordinator.close()


def _loaded(policy: str | PathLike[str]) -> Policy:
    from amends.gate.load import load_policy

    return load_policy(policy)


def _not_in_force(gate: Policies, policy: str, journal: str) -> PolicyNotInForceError:
    judges = "the built-in one judges"
    if gate.adopted is not None:
        judges = f"{gate.digest[:12]} judges, adopted by {gate.adopted.by} ({gate.adopted.why})"
    words = ["amends", "policy", "adopt", policy, "--journal", shown(journal), "--why", "REASON"]
    return PolicyNotInForceError(
        f"{policy} is not the policy in force on {shown(journal)}: {judges}; adopt it, saying why: "
        f"{shlex.join(words)}; or leave it out, to go by the one in force"
    )


def _telemetry(clock: Clock) -> Telemetry | None:
    """Only where the process has an SDK: whoever set one up has imported it, and nobody else pays for it."""
    if "opentelemetry.sdk" not in sys.modules:
        return None
    from amends.telemetry.live import Telemetry

    return Telemetry(clock)


class RunOptions(StartOptions, total=False):
    """Options of `amends.run` beside the saga's input: those of opening a coordinator, and of starting a saga."""

    journal: str
    policy: str | PathLike[str] | None
    env: str | None
    environments: Mapping[str, Iterable[str]] | None
    registry: Registry
    settings: Settings | None
    notify: Sequence[Target]
    signals: bool
    clock: Clock | None
    evidence_key: str | None
    journal_group: str | None
    wait: bool


@overload
def run(definition: SagaDefinition[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Ended[R]: ...


@overload
def run(
    definition: SagaDefinition[..., R],
    /,
    *args: object,
    journal: str = "amends.db",
    policy: str | PathLike[str] | None = None,
    env: str | None = None,
    environments: Mapping[str, Iterable[str]] | None = None,
    registry: Registry = PROCESS,
    settings: Settings | None = None,
    notify: Sequence[Target] = (),
    signals: bool = True,
    clock: Clock | None = None,
    evidence_key: str | None = None,
    journal_group: str | None = None,
    wait: bool = False,
    id: str | None = None,
    actor: str | None = None,
    labels: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    **kwargs: object,
) -> Ended[R]: ...


@overload
def run(definition: SagaDefinition[..., R], /, *args: object, options: RunOptions, **kwargs: object) -> Ended[R]: ...


def run(definition: Any, /, *args: object, **kwargs: object) -> Ended[Any]:
    """Run a saga from code that has no event loop of its own, until it has ended, or waits.

    It opens a coordinator for this one call, with what `Coordinator.open` takes. With an `id` it can be called again
    after a kill, or once people have answered: the same saga goes on where the journal stands.
    wait: go on waiting for the people who are asked, and for signals, however long they take.
    options: all of these as one object, where the saga itself takes a parameter of such a name.
    """
    asked, own = checked_definition(definition).parted(RUN_OPTIONS, args, kwargs)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass  # there is none, as there should be
    else:
        raise RefusedError("amends.run is for code without an event loop; here, await coordinator.run(…) instead")

    lease_s = definition.options.lease_s
    if asked.get("settings") is None and lease_s is not None:
        asked["settings"] = Settings(lease_s=lease_s)
    named, waits = definition.bind(args, own), asked.pop("wait", False)
    start = {name: asked.pop(name) for name in START_OPTIONS if name in asked}

    async def whole() -> Ended[Any]:
        async with Coordinator.open(**asked) as coordinator:
            handle = await coordinator.start_bound(definition, named, **start)
            ended = await (handle if waits else handle.halt())
            record = await ended.evidence()

        async def kept(_: SagaId) -> dict[str, Json]:
            return record

        return replace(ended, source=kept)

    return asyncio.run(whole())
