"""A tool as an action: its contract made from the contracts file, its functions calls of the server's tools.

The arguments of a step are those of the tool, so that a policy can speak of them; its result is the answer as it came.
| the server…                                            | the step                                        |
|--------------------------------------------------------|-------------------------------------------------|
| answers                                                | succeeded                                       |
| answers as `failed_when` says                          | failed: nothing happened, by the contract       |
| marks an error, and the arguments do not fit the tool  | failed: nothing happened                        |
| marks another error                                    | lost: asked about by the probe, where there is one |
| could not be reached, or refuses the request as such   | failed: nothing happened                        |
| ends, or breaks the connection                         | lost                                            |
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast

from amends.core.words.contracts import BACK, Contract, Retries, Reversibility, Topic
from amends.core.words.values import Json, canonical
from amends.errors import Fatal, InputError, NotDone, ServerError
from amends.gateway.answers import MISSING, AnswerTest, ToolAnswer
from amends.gateway.model import UNSEEN_BEFORE, Contracts, ToolCall, ToolContract
from amends.gateway.references import filled, is_true
from amends.runtime.declare.action import Action, Asked, Done, Happened, NotHappened, key
from amends.runtime.values.signature import AnyNames
from amends.text import visible

Wire = dict[str, Any]
UNSEEN: Final = Retries(attempts=3)
"""A call that was answered is not made again, however it was answered; one whose end nobody saw may be."""
INPUT_REQUIRED: Final = "input_required"
LARGEST_KEPT: Final = 8 * 1024 * 1024
_LONGEST_SAID: Final = 600
_CUT_TEXT: Final = 256 * 1024
_RISKS: Final = ("destructive", "open_world")


@dataclass(slots=True)
class Incoming:
    """The call of a client that a step is made for: `answer` is what the server said, whole, for the client alone."""

    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    progress: Callable[..., Any] | None = None
    front: Any = None
    answer: Wire | None = None
    responses: Any = None
    """Answers to what the server has asked before it would act, with the state that it gave along."""
    state: str | None = None


incoming: ContextVar[Incoming | None] = ContextVar("amends_gateway_incoming", default=None)


class Servers(Protocol):
    """The servers, as an action calls them."""

    async def forward(self, topic: str, arguments: Mapping[str, Any], key: str) -> Wire:
        """The action's own tool."""
        ...

    async def ask(self, server: str, tool: str, arguments: Mapping[str, Any], key: str) -> Wire:
        """A tool by its own name, or by that of its topic."""
        ...

    def fits(self, topic: str, arguments: Mapping[str, Any]) -> bool:
        """Whether arguments are what the tool says that it takes; true where nobody can say."""
        ...

    def failed_when(self, server: str, tool: str) -> AnswerTest | None: ...


class _BeforeAnswer(ToolAnswer):
    """An answer from before the action: `found` says whether there was anything. Of what nobody saw nothing is said."""

    def __init__(self, kept: Mapping[str, Any]) -> None:
        super().__init__(cast("Wire", kept.get("answer") or {}))
        self._found = kept.get("found") is True
        self._seen = UNSEEN_BEFORE not in kept

    def named(self, name: str) -> object:
        if not self._seen:
            return MISSING
        if name == "found":
            return self._found
        return super().named(name) if self._found else MISSING


class ToolParts:
    """The functions of one tool's action."""

    def __init__(self, contracts: Contracts, contract: ToolContract, servers: Servers) -> None:
        self._contract = contract
        self._patterns = contracts.patterns
        self._is_judging = contracts.mode == "enforce"
        self._servers = servers

    async def perform(self, arguments: Mapping[str, Any]) -> Wire:
        contract, servers = self._contract, self._servers
        wire = await servers.forward(contract.topic, arguments, key())
        if (asker := incoming.get()) is not None:
            asker.answer = wire
        if wire.get("resultType") == INPUT_REQUIRED:
            raise Fatal("the server asks for more before it acts", happened=False)
        answer = ToolAnswer(wire)
        if contract.failed_when is not None and contract.failed_when.holds(answer):
            raise Fatal(said(answer), happened=False)
        if answer.is_error and (contract.read_only or not servers.fits(contract.topic, arguments)):
            raise Fatal(said(answer), happened=False)
        if answer.is_error:
            raise Fatal(said(answer), happened=await self._has_happened(arguments))
        return keepable(wire)

    async def _has_happened(self, arguments: Mapping[str, Any]) -> bool | None:
        """Whether a call that ended with an error has done something all the same; None where nobody can say."""
        if self._contract.probe is None:
            return None
        try:
            return None if await self._found_out(arguments, key()) is not None else False
        except (Fatal, ServerError):
            return None

    async def before(self, asked: Asked) -> Wire:
        try:
            return await self._look(asked)
        except (Fatal, ServerError) as exc:
            if self._is_judging:
                raise
            return {UNSEEN_BEFORE: visible(str(exc), _LONGEST_SAID)}  # it has to pass; a person takes it back

    async def _look(self, asked: Asked) -> Wire:
        look = self._contract.before
        assert look is not None  # noqa: S101 - it is declared only where there is one
        answer = await self._seen(look.ask, {"args": asked.args}, asked.key)
        if look.missing_when is not None and look.missing_when.holds(answer):
            return {"found": False}
        self._require_well(look.ask, answer)
        return {"found": True, "answer": keepable(answer.wire)}

    async def probe(self, asked: Asked) -> Happened | NotHappened:
        found = await self._found_out(asked.args, asked.key)
        return NotHappened() if found is None else Happened(found)

    async def _found_out(self, args: Mapping[str, Any], key: str) -> Wire | None:
        """The answer that the action would have given; None where it did not happen. Raises where nobody can say."""
        probe = self._contract.probe
        assert probe is not None  # noqa: S101 - as above
        answer = await self._asked(probe.ask, {"args": args}, key)
        known = {"args": args, "answer": answer}
        if isinstance(probe.happened, AnswerTest):
            has_happened = probe.happened.holds(answer)
        else:
            self._require_well(probe.ask, answer)
            has_happened = is_true(filled(probe.happened, known, self._patterns))
        if not has_happened:
            return None
        if probe.result is None:
            return keepable(answer.wire)
        value = filled(probe.result, known, self._patterns)
        return {"content": [{"type": "text", "text": json.dumps(value)}], "structuredContent": value}

    async def reread(self, done: Done) -> Json:
        ask = self._contract.reread
        assert ask is not None  # noqa: S101 - as above
        answer = await self._seen(ask, {"args": done.args, "result": ToolAnswer(_wire(done.result))}, done.key)
        return answer.whole if not answer.is_error else {"error": answer.text}

    async def compensate(self, done: Done) -> None:
        await self._back(done, self._contract.compensate)

    async def mitigate(self, done: Done) -> None:
        await self._back(done, self._contract.mitigate)

    async def _back(self, done: Done, calls: tuple[ToolCall, ...]) -> None:
        known: dict[str, object] = {"args": done.args}
        if done.certain:
            known["result"] = ToolAnswer(_wire(done.result))
        elif self._contract.probe is not None:
            found = await self._found_out(done.args, done.key)
            if found is None:
                return
            known["result"] = ToolAnswer(found)
        if self._contract.before is not None and done.before is not None:
            known["before"] = _BeforeAnswer(_wire(done.before))
        for number, call in enumerate(calls):
            if self._is_due(call, known):
                answer = await self._asked(call, known, f"{done.key}-{number}")
                if call.done_when is None or not call.done_when.holds(answer):
                    self._require_well(call, answer)

    def _is_due(self, call: ToolCall, known: Mapping[str, object]) -> bool:
        try:
            when = call.when is None or is_true(filled(call.when, known, self._patterns))
            return when and (call.unless is None or not is_true(filled(call.unless, known, self._patterns)))
        except InputError as exc:
            raise Fatal(f"{call.words}: {exc}", happened=False) from None

    async def _seen(self, call: ToolCall, known: Mapping[str, object], key: str) -> ToolAnswer:
        """The answer to a look at the world, which changes nothing: where its server broke off it is asked again."""
        try:
            return await self._asked(call, known, key)
        except ServerError:
            return await self._asked(call, known, key)

    async def _asked(self, call: ToolCall, known: Mapping[str, object], key: str) -> ToolAnswer:
        try:
            arguments = filled(call.args, known, self._patterns)
        except InputError as exc:
            raise Fatal(f"{call.words} was not called: {exc}", happened=False) from None
        try:
            return ToolAnswer(await self._servers.ask(call.server, call.tool, cast("Wire", arguments), key))
        except NotDone as exc:
            raise ServerError(str(exc)) from None

    def _require_well(self, call: ToolCall, answer: ToolAnswer) -> None:
        failed = self._servers.failed_when(call.server, call.tool)
        if answer.is_error or (failed is not None and failed.holds(answer)):
            raise ServerError(f"{call.words} answered: {said(answer)}")


def _wire(value: object) -> Wire:
    return cast("Wire", value) if isinstance(value, dict) else {}


def said(answer: ToolAnswer) -> str:
    """The text of an answer, short enough for a record."""
    return visible(answer.text.strip() or "an error without words", _LONGEST_SAID)


def keepable(wire: Wire) -> Wire:
    """An answer as the journal can keep it; of one that it cannot, its text, up to a length."""
    try:
        if len(canonical(cast("Json", wire))) <= LARGEST_KEPT:
            return wire
        why = f"it is larger than {LARGEST_KEPT >> 20} MB"
    except InputError as exc:
        why = str(exc)
    spelled = json.dumps(wire.get("structuredContent"), ensure_ascii=True)
    text = spelled if wire.get("structuredContent") is not None else ToolAnswer(wire).text
    kept = text.encode("ascii", "backslashreplace").decode()[:_CUT_TEXT]
    return {"content": [{"type": "text", "text": kept}], "cut": True, "why": visible(why, _LONGEST_SAID)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A tool, as its server describes it. None of it is believed, but that it may raise the risk."""

    does: str = ""
    digest: str = ""
    annotations: Mapping[str, object] = field(default_factory=dict[str, object])


def make_tool_action(
    contracts: Contracts, contract: ToolContract, servers: Servers, described: Described, *, read_only: bool
) -> Action[..., Any]:
    """An action of a tool. `read_only`: the contract says so, or a trusted server does."""
    parts = ToolParts(contracts, contract, servers)

    async def perform(arguments: Any) -> Any:  # noqa: ANN401 - the tool's own
        return await parts.perform(arguments)

    perform.__doc__ = described.does or contract.topic
    perform.__qualname__ = f"{contract.topic}#{described.digest}"
    perform.__module__ = "amends.gateway"
    action: Action[..., Any] = Action(perform, _contract(contract, described, read_only=read_only))
    action.parts.signature = AnyNames(perform)
    if contract.compensate and not read_only:
        _declare(action.compensation, parts.compensate, contract.compensate)
    if contract.mitigate and contract.no_rollback is not None:
        _declare(action.mitigation, parts.mitigate, contract.mitigate)
    if contract.probe is not None:
        action.probe(parts.probe)
    if contract.before is not None:
        action.before(parts.before)
    if contract.reread is not None and contract.compensate:
        action.reread(parts.reread)
    return action


def _declare(
    declare: Callable[[Callable[..., Any]], object], part: Callable[[Done], Any], calls: tuple[ToolCall, ...]
) -> None:
    async def back(done: Done) -> None:
        await part(done)

    back.__doc__ = "; ".join(one.words for one in calls)
    back.__qualname__ = back.__doc__
    declare(back)


def _contract(contract: ToolContract, described: Described, *, read_only: bool) -> Contract:
    hints = described.annotations
    risks = set(contract.risk)
    if not read_only and hints.get("destructiveHint") is True:
        risks.add(_RISKS[0])
    if not read_only and hints.get("openWorldHint") is True:
        risks.add(_RISKS[1])
    reversibility = Reversibility.UNDECLARED
    if read_only:
        reversibility = Reversibility.REVERSIBLE
    elif contract.no_rollback is not None:
        reversibility = Reversibility.IRREVERSIBLE
    return Contract(
        topic=Topic(contract.topic),
        version=contract.version,
        side_effect=not read_only,
        reversibility=reversibility,
        no_rollback=None if read_only else contract.no_rollback,
        idempotent=contract.idempotent,
        risk=tuple(sorted(risks)),
        timeout_s=contract.timeout_s or 300.0,
        retries=UNSEEN,
        undo_retries=BACK,
    )
