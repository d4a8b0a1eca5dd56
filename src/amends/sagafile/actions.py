"""A step of a file as an action: what is journaled as its arguments, and how its commands are called.

The arguments hold the whole of what may run for a step: its command, and in `using` where and with what it runs, its
compensation, probe and before-image. So a person who approves it sees all of that, and a process that never saw the
file can take the step back.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from amends.core.words.contracts import BACK
from amends.core.words.values import Json
from amends.dataclass import dataclass
from amends.errors import (
    ChangedSince,
    CommandError,
    Fatal,
    InputError,
    NotDone,
    Retry,
    SecretUnavailableError,
    ServerError,
)
from amends.process.running import small_environment
from amends.runtime.declare.action import Action, Asked, Done, Happened, NotHappened, ProbeAnswer, key
from amends.runtime.declare.decorators import register
from amends.sagafile.exchange import exchange, kept, whole
from amends.sagafile.model import UNSEEN, Call, CommandLine, HttpRequest, StepPlan
from amends.sagafile.program import SHELL, Called, Printed, Show, ShowOf, call
from amends.sagafile.templates import OF_SECRETS, Template, bound, closed, looked_up
from amends.secrets import Secret

if TYPE_CHECKING:
    from amends.changeset import Files  # loaded by those who have trees to work on

Object = dict[str, Any]
_WORDS: Final = ("run", "shell", "http")
PARTS: Final = ("compensate", "mitigate", "probe", "before")


def arguments(step: StepPlan, *, saga: str, directory: str, known: Mapping[str, Json]) -> Object:
    """Arguments that a step is proposed with. Raises InputError where a reference leads nowhere."""
    made = _spelled(step.command, known)
    words: Object = {name: made.pop(name) for name in list(made) if name in _WORDS}
    using: Object = {**made, "directory": directory, "saga": saga}
    if step.resources:
        using["resources"] = [bound(text, known) for text in step.resources]
    for name in PARTS:
        command: Call | None = getattr(step, name)
        if command is not None:
            using[name] = _spelled(command, known)
    return {**({"files": None} if step.files else {}), **words, "using": using}


def _spelled(command: Call, known: Mapping[str, Json]) -> Object:
    secrets = {name: Secret.env(name) for name in command.secrets}
    if isinstance(command, HttpRequest):
        return {"http": kept(command, known), **({"secrets": secrets} if secrets else {})}
    made: Object = {"run": [bound(word, known) for word in command.run]} if command.run else {"shell": command.script}
    if command.env:
        made["env"] = {name: bound(text, known) for name, text in command.env.items()}
    if secrets:
        made["secrets"] = secrets
    if command.stdin:
        made["stdin"] = bound(command.stdin, known)
    if command.cwd:
        made["cwd"] = bound(command.cwd, known)
    if command.confine is not None:
        made["confine"] = command.confine
    if command.network is False:
        made["network"] = False
    return made


def verifying_environment(shared: CommandLine, *, saga: str, known: Mapping[str, Json]) -> dict[str, str]:
    """Environment of a landing's verifying command: the little that every program needs, and what all commands get."""
    about: dict[str, Json] = {"saga": saga, "key": ""}
    given = {name: closed(bound(text, known), about) for name, text in shared.env.items()}
    secrets = {name: Secret.env(name).reveal() for name in shared.secrets}
    return {**small_environment(shared.inherit), **given, **secrets, "AMENDS_SAGA": saga}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a command ended, or a request was answered: the word that its file has for it, and what is left of it."""

    says: str
    result: Object
    told: str
    is_cut: bool
    is_answer: bool = False
    wait_s: float | None = None


class StepCommands:
    """The commands and requests of one step, as functions that the runtime calls."""

    def __init__(self, step: StepPlan, show: ShowOf | None) -> None:
        self._step = step
        self._show = show

    async def perform(self, words: Object, with_it: Object, files: Files | None = None) -> Object:
        about = {"saga": str(with_it.get("saga", "")), "key": key()}
        show = self._shown(self._step.id)
        ending = await self._called(self._step.command, {**with_it, **words}, with_it, about, show, files)
        if ending.says == "failed" and self._step.retries is not None and ending.wait_s is not None:
            raise Retry(ending.told, after=ending.wait_s)
        return self._ended(ending, last=self._step.retries is None)

    async def compensate(self, done: Done) -> None:
        await self._back(done, self._step.compensate, "compensate")

    async def mitigate(self, done: Done) -> None:
        await self._back(done, self._step.mitigate, "mitigate")

    async def _back(self, done: Done, command: Call | None, name: str) -> None:
        using = cast("Object", done.args["using"])
        assert command is not None  # noqa: S101 - it is registered only where there is one
        about: dict[str, Json] = {
            "saga": done.saga,
            "key": done.key,
            "action_key": done.action_key,
            "certain": done.certain,
            "result": done.result,
            "before": done.before,
        }
        about["done"] = _document(done.args, about)
        show = self._shown(f"{self._step.id}, back")
        self._ended(await self._called(command, using[name], using, about, show, timeout_s=self._step.undo_timeout_s))

    async def probe(self, asked: Asked) -> ProbeAnswer:
        ending = await self._looked(asked, self._step.probe, "probe")
        match ending.says:
            case "happened":
                return Happened(cast("Json", ending.result))
            case "not_happened":
                return NotHappened()
            case _:
                raise CommandError(ending.told)

    async def before(self, asked: Asked) -> Object:
        ending = await self._looked(asked, self._step.before, "before")
        if ending.says != "succeeded" or ending.is_cut:
            raise CommandError(ending.told)
        return ending.result

    async def _looked(self, asked: Asked, command: Call | None, name: str) -> Ending:
        using = cast("Object", asked.args["using"])
        assert command is not None  # noqa: S101 - it is registered only where there is one
        return await self._called(command, using[name], using, {"saga": asked.saga, "key": asked.key})

    def _shown(self, who: str) -> Show | None:
        show = self._show
        return None if show is None else lambda line: show(who, line)

    async def _called(
        self,
        command: Call,
        words: Object,
        using: Object,
        about: Mapping[str, Json],
        show: Show | None = None,
        files: Files | None = None,
        *,
        timeout_s: float | None = None,
    ) -> Ending:
        """`words` are the command's own, `using` is what the step has, `about` what is known of this call."""
        if isinstance(command, HttpRequest):
            return await self._sent(command, words, about, show, timeout_s or self._step.timeout_s)
        try:
            asked = replace(self._asked(command, words, using, about), show=show, files=files)
            if files is not None:
                asked = replace(asked, cwd=Path(closed(words.get("cwd", "."), about)))
        except InputError as exc:
            raise NotDone(str(exc)) from None
        printed = await call(asked)
        told, is_cut = _told(command, printed), printed.cut
        return Ending(says=_says(command, printed), result=_result(printed), told=told, is_cut=is_cut)

    async def _sent(
        self, request: HttpRequest, words: Object, about: Mapping[str, Json], show: Show | None, timeout_s: float
    ) -> Ending:
        secrets: dict[str, Secret] = words.get("secrets", {})
        try:
            revealed: dict[str, Json] = {name: secret.reveal() for name, secret in secrets.items()}
            asked = whole(words["http"], {**about, OF_SECRETS: revealed})
        except (InputError, SecretUnavailableError) as exc:
            raise NotDone(str(exc)) from None
        answer = await exchange(asked, timeout_s=timeout_s, hidden=[*secrets.values()])
        if show is not None:
            show(f"{answer.words} was answered with {answer.status}")
        says = request.statuses.get(answer.status) or request.statuses.get(f"{answer.status // 100}xx")
        ending = Ending(
            says=says or request.otherwise,
            result=answer.result(),
            told=answer.told,
            is_cut=answer.cut,
            is_answer=True,
            wait_s=answer.wait_s,
        )
        return _found(request, ending) if request.found and ending.says == "happened" else ending

    def _asked(self, command: CommandLine, words: Object, using: Object, about: Mapping[str, Json]) -> Called:
        run = cast("list[Json] | None", words.get("run"))
        argv = [closed(word, about) for word in run] if run is not None else [SHELL, "-c", str(words["shell"])]
        secrets = {name: cast("Secret", each).reveal() for name, each in words.get("secrets", {}).items()}
        env = small_environment(command.inherit)
        env |= {name: closed(text, about) for name, text in words.get("env", {}).items()} | secrets
        env |= {"AMENDS_STEP": self._step.id, "AMENDS_SAGA": str(about["saga"]), "AMENDS_KEY": str(about["key"])}
        if "certain" in about:
            env |= {"AMENDS_ACTION_KEY": str(about["action_key"]), "AMENDS_CERTAIN": json.dumps(about["certain"])}
        return Called(
            words=argv,
            cwd=Path(str(using["directory"])) / closed(words.get("cwd", ""), about),
            env=env,
            stdin=closed(words.get("stdin", ""), about),
            hidden=[*secrets.values()],
            confine=words.get("confine"),
            network=words.get("network", True),
        )

    def _ended(self, ending: Ending, *, last: bool = False) -> Object:
        """The result of what has ended, or its error; `last`: it is not tried again, whatever it says. An answer that
        leaves it open is as good as none: it is asked for, or repeated, as where nobody saw a command's end.
        """
        match ending.says:
            case "succeeded":
                return ending.result
            case "failed" if last:
                raise Fatal(ending.told, happened=False)
            case "failed":
                raise NotDone(ending.told)
            case "changed_since":
                raise ChangedSince(ending.told)
            case "fatal":
                raise Fatal(ending.told)
            case _ if ending.is_answer:
                raise ServerError(ending.told)
            case "lost" if last:
                raise Fatal(ending.told)
            case _:
                raise CommandError(ending.told)


def _found(request: HttpRequest, ending: Ending) -> Ending:
    """A probe's answer, by what stands at the place that it names: that is its body then, or it did not happen."""
    if ending.is_cut:
        return replace(ending, says="no_answer")
    about: dict[str, Json] = {"answer": ending.result}
    try:
        looked_up(("answer", "json"), about)
    except InputError as exc:
        return replace(ending, says="no_answer", told=f"{ending.told}; {exc}")
    value: Json = None
    with contextlib.suppress(InputError):
        value = looked_up(("answer", "json", *request.found), about)
    if value in (None, [], {}, ""):
        return replace(ending, says="not_happened")
    return replace(ending, result={**ending.result, "body": json.dumps(value, ensure_ascii=False)})


def _says(command: CommandLine, printed: Printed) -> str:
    """The outcome that an exit code stands for; a command that a signal ended tells nothing."""
    return "lost" if printed.code < 0 else command.exit_codes.get(printed.code, command.otherwise)


def _result(printed: Printed) -> Object:
    made: Object = {"exit": printed.code, "stdout": printed.stdout.rstrip("\n")}
    if printed.stderr.strip():
        made["stderr"] = printed.stderr.rstrip("\n")
    return {**made, "cut": True} if printed.cut else made


def _told(command: CommandLine, printed: Printed) -> str:
    first = command.run[0] if command.run else ()
    name = "".join(map(str, first)) if command.run else "the shell"
    how = f"was ended by signal {-printed.code}" if printed.code < 0 else f"ended with exit code {printed.code}"
    cut = ", and printed more than is kept" if printed.cut and printed.code == 0 else ""
    return f"{name} {how}{cut}{': ' if printed.last_words else ''}{printed.last_words}"


def _document(args: Object, about: Mapping[str, Json]) -> str:
    """All that a compensation, or a mitigation, can know, as one JSON text."""
    did = {name: args.get(name) for name in _WORDS if name != "http" or name in args}
    return json.dumps({**about, **did}, ensure_ascii=False, sort_keys=True)


def make_action(step: StepPlan, *, version: int, show: ShowOf | None) -> Action[..., Any]:
    commands = StepCommands(step, show)

    async def perform(
        *, run: list[Json] | None = None, shell: str | None = None, using: Object | None = None
    ) -> Object:
        words: Object = {"run": run} if run is not None else {"shell": shell}
        return await commands.perform(words, using or {})

    async def perform_on_files(
        files: Files,
        *,
        run: list[Json] | None = None,
        shell: str | None = None,
        using: Object | None = None,
    ) -> Object:
        words: Object = {"run": run} if run is not None else {"shell": shell}
        return await commands.perform(words, using or {}, files)

    async def perform_request(*, http: Object, using: Object | None = None) -> Object:
        return await commands.perform({"http": http}, using or {})

    async def compensate(done: Done) -> None:
        await commands.compensate(done)

    async def mitigate(done: Done) -> None:
        await commands.mitigate(done)

    function: Callable[..., Any] = perform_on_files if step.files else perform
    if isinstance(step.command, HttpRequest):
        function = perform_request
    function.__doc__ = step.does or _line(step.command)
    function.__qualname__ = step.id
    compensate.__doc__ = (step.compensate.does or _line(step.compensate)) if step.compensate else None
    mitigate.__doc__ = (step.mitigate.does or _line(step.mitigate)) if step.mitigate else None
    return register(
        step.topic,
        function,
        compensation=compensate if step.compensate is not None else None,
        mitigation=mitigate if step.mitigate is not None else None,
        probe=commands.probe if step.probe is not None else None,
        before=commands.before if step.before is not None else None,
        version=version,
        read_only=step.read_only,
        no_rollback=step.no_rollback,
        idempotent=step.idempotent,
        risk=step.risk,
        resources=["{using.resources}"] if step.resources else [],
        timeout=step.timeout_s,
        retries=step.retries or UNSEEN,
        compensation_timeout=step.undo_timeout_s,
        compensation_retries=step.undo_retries or BACK,
        on_incident=step.on_incident,
    )


def _line(command: Call) -> str:
    """A command or a request as one line, references and all."""
    if isinstance(command, HttpRequest):
        return f"{command.method} {_written(command.url)}"
    if not command.run:
        return f"sh: {' '.join(command.script.split())}"
    words = [_written(word) for word in command.run]
    return " ".join(word if word and " " not in word else json.dumps(word, ensure_ascii=False) for word in words)


def _written(text: Template) -> str:
    return "".join(piece if isinstance(piece, str) else f"${{{piece}}}" for piece in text)
