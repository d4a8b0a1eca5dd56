"""From a file's data to a saga as it is understood: every mistake is noted with its line and the nearest right word.

Nothing is run, and nothing is looked for on the machine: whether a program is there is found out when it is called.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, cast

from amends.core.words.contracts import TOPIC_PATTERN, Retries
from amends.core.words.values import BUILT_IN, Json
from amends.runtime.declare.limits import Limits, Then
from amends.sagafile import schema
from amends.sagafile.commands import CommandReader, argument, values_of, words_of
from amends.sagafile.inputs import fits, mismatch, pattern_mistake
from amends.sagafile.model import Call, CommandLine, HttpRequest, Input, StepPlan, TreeOptions, Written
from amends.sagafile.references import check_references
from amends.sagafile.requests import RequestReader
from amends.sagafile.templates import EARLY, Template
from amends.source.marked import Listed, Mapped, MarkedEntry, Mistakes, Part, Scalar, plain, said, shown

_STEP_ID: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}", re.ASCII)
_TOPIC: Final = re.compile(TOPIC_PATTERN, re.ASCII)
_INPUT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", re.ASCII)

FORWARD: Final = (*EARLY, "key")
BACK: Final = (*EARLY, "key", "action_key", "result", "before", "done", "certain")


def read_saga(document: Part, mistakes: Mistakes) -> Written:
    """The saga of a file's data. Raises SagaFileError."""
    found = {entry.key: entry for entry in mistakes.entries(document, "a saga's file", schema.FILE)}
    for key in ("version", "saga", "steps"):
        if key not in found and isinstance(document, Mapped):
            hint = f"; begin with `version: {schema.VERSION}`" if key == "version" else ""
            mistakes.add(document.line, f"there is no {key}{hint}")
    if "version" in found:
        mistakes.choice(found["version"].value, "version", (schema.VERSION,))
    name = _named(found["saga"].value, "saga", _TOPIC, mistakes) if "saga" in found else ""
    if name.startswith(BUILT_IN):
        mistakes.add(found["saga"].line, f"the name {shown(name)} is taken: names that begin with amends. are its own")
    inputs = tuple(_inputs(found["inputs"].value, mistakes)) if "inputs" in found else ()
    shared = CommandReader(mistakes).started_with(found, FORWARD)
    reader = _Steps(name, shared, mistakes, has_tree="files" in found)
    steps = tuple(reader.read(found["steps"].value)) if "steps" in found else ()
    written = Written(
        name=name,
        does=words_of(found, mistakes),
        inputs=inputs,
        steps=steps,
        tree=_tree(found["files"].value, shared, mistakes) if "files" in found else None,
        result=values_of(found["result"].value, "result", mistakes, EARLY) if "result" in found else {},
        rollback_s=mistakes.duration(found["rollback"].value, "rollback") if "rollback" in found else None,
        attempts=_count(found, "attempts", mistakes, schema.MOST_ATTEMPTS),
        compensation_attempts=_count(found, "compensation_attempts", mistakes, schema.MOST_ATTEMPTS),
        lease_s=mistakes.duration(found["lease"].value, "lease") if "lease" in found else None,
        limits=_limits(found["limits"].value, mistakes) if "limits" in found else None,
    )
    check_references(written, mistakes, result_line=found["result"].line if "result" in found else document.line)
    mistakes.raise_any()
    return written


def _named(part: Part, what: str, pattern: re.Pattern[str], mistakes: Mistakes) -> str:
    name = mistakes.text(part, what)
    if name and not pattern.fullmatch(name):
        mistakes.add(part.line, f"{what} {shown(name)} is not a name: use a-z 0-9 _ - and begin with a letter or digit")
        return ""
    return name


def _flag(found: Mapping[str, MarkedEntry], key: str, mistakes: Mistakes) -> bool:
    if key not in found:
        return False
    part = found[key].value
    if isinstance(part, Scalar) and isinstance(part.value, bool):
        return part.value
    mistakes.wrong(part, key, "true or false")
    return False


def _count(found: Mapping[str, MarkedEntry], key: str, mistakes: Mistakes, most: int) -> int | None:
    return mistakes.integer(found[key].value, key, most) if key in found else None


def _limits(part: Part, mistakes: Mistakes) -> Limits | None:
    found = {entry.key: entry for entry in mistakes.entries(part, "limits", schema.LIMITS)}
    seconds, failures, retries = (
        _count(found, key, mistakes, schema.MOST_COUNTED) for key in ("seconds", "failures", "retries")
    )
    then = mistakes.choice(found["then"].value, "then", schema.RESPONSES) if "then" in found else ""
    if (seconds, failures, retries) == (None, None, None):
        if isinstance(part, Mapped):
            mistakes.add(part.line, "limits without a limit; write failures, retries or seconds")
        return None
    return Limits(seconds=seconds, failures=failures, retries=retries, then=cast("Then", then or "rollback"))


def _retries(part: Part, mistakes: Mistakes) -> Retries:
    if not isinstance(part, Mapped):
        return Retries(attempts=mistakes.integer(part, "retry", schema.MOST_ATTEMPTS))
    found = {entry.key: entry.value for entry in mistakes.entries(part, "retry", schema.RETRY_KEYS)}
    if "attempts" not in found:
        mistakes.add(
            part.line, "a retry without attempts; write retry: 3, or retry: {attempts: 3, first: 1s, cap: 30s}"
        )
        return Retries(attempts=1)
    return Retries(
        attempts=mistakes.integer(found["attempts"], "attempts", schema.MOST_ATTEMPTS),
        first_s=mistakes.duration(found["first"], "first") if "first" in found else 1.0,
        cap_s=mistakes.duration(found["cap"], "cap") if "cap" in found else 30.0,
    )


def _asks(entry: MarkedEntry, mistakes: Mistakes, *, lands: bool) -> bool:
    if not lands:
        mistakes.add(entry.line, "on_conflict without land: nothing lands that could be in conflict; add land")
    return mistakes.choice(entry.value, "on_conflict", ("raise", "ask")) == "ask"


def _tree(part: Part, shared: CommandLine, mistakes: Mistakes) -> TreeOptions | None:
    if isinstance(part, Scalar):
        return TreeOptions(root=argument(part, "files", mistakes, EARLY), line=part.line)
    found = {entry.key: entry for entry in mistakes.entries(part, "files", schema.TREE)}
    if "root" not in found:
        if isinstance(part, Mapped):
            mistakes.add(part.line, "files without root; name the tree")
        return None
    verify = mistakes.items(found["verify"].value, "verify") if "verify" in found else ()
    return TreeOptions(
        root=argument(found["root"].value, "root", mistakes, EARLY),
        land=argument(found["land"].value, "land", mistakes, EARLY) if "land" in found else (),
        verify=tuple(argument(item, "an argument", mistakes, EARLY) for item in verify),
        asks=_asks(found["on_conflict"], mistakes, lands="land" in found) if "on_conflict" in found else False,
        shared=shared,
        line=part.line,
    )


# -- inputs -----------------------------------------------------------------------------------------------------------


def _inputs(part: Part, mistakes: Mistakes) -> Iterator[Input]:
    for entry in mistakes.entries(part, "inputs"):
        if not _INPUT.fullmatch(entry.key):
            mistakes.add(entry.line, f"input {shown(entry.key)} is not a name: use letters, digits, _ and -")
        elif isinstance(entry.value, Mapped):
            yield _input(entry.key, entry.value, mistakes)
        else:
            yield Input(name=entry.key, type=mistakes.choice(entry.value, "type", schema.TYPES) or "text")


def _input(name: str, part: Mapped, mistakes: Mistakes) -> Input:
    found = {entry.key: entry for entry in mistakes.entries(part, f"input {name}", schema.INPUT)}
    kind = (mistakes.choice(found["type"].value, "type", schema.TYPES) if "type" in found else "") or "text"
    choices = (
        tuple(plain(item) for item in mistakes.items(found["choices"].value, "choices")) if "choices" in found else ()
    )
    pattern = mistakes.text(found["pattern"].value, "pattern") if "pattern" in found else ""
    if pattern:
        wrong = "pattern goes only with type text" if kind != "text" else pattern_mistake(pattern)
        if wrong:
            mistakes.add(found["pattern"].line, wrong)
            pattern = ""
    made = Input(
        name=name,
        type=kind,
        does=words_of(found, mistakes),
        has_default="default" in found,
        default=plain(found["default"].value) if "default" in found else None,
        choices=choices,
        pattern=pattern,
    )
    for choice in choices:
        if not fits(kind, choice):
            mistakes.add(found["choices"].line, f"{shown(choice)} is none: input {name} is of type {kind}")
    if made.has_default:
        _check_default(made, found["default"], mistakes)
    return made


def _check_default(made: Input, entry: MarkedEntry, mistakes: Mistakes) -> None:
    if not fits(made.type, made.default):
        mistakes.add(entry.line, f"default {said(entry.value)}: input {made.name} is of type {made.type}")
    elif made.choices and made.default not in made.choices:
        mistakes.add(entry.line, f"default {said(entry.value)} is none of the choices")
    elif made.pattern and (wrong := mismatch(made.pattern, str(made.default))):
        mistakes.add(entry.line, f"default {said(entry.value)}{wrong}")


# -- steps ------------------------------------------------------------------------------------------------------------


_BACK: Final = ("compensate", "mitigate")
_WANTS: Final = {
    "reversible": "files: true",
    "compensatable": "compensate:",
    "irreversible": "no_rollback: and the reason",
}


class _Steps:
    def __init__(self, saga: str, shared: CommandLine, mistakes: Mistakes, *, has_tree: bool) -> None:
        self._has_tree = has_tree
        self._saga = saga
        self._shared = shared
        self._mistakes = mistakes
        self._commands = CommandReader(mistakes)
        self._requests = RequestReader(mistakes)
        self._ids: dict[str, int] = {}
        self._topics: dict[str, int] = {}

    def read(self, part: Part) -> Iterator[StepPlan]:
        items = self._mistakes.items(part, "steps")
        if len(items) > schema.MOST_STEPS:
            self._mistakes.add(part.line, f"{len(items)} steps; the most is {schema.MOST_STEPS}")
        for item in items[: schema.MOST_STEPS]:
            yield self._step(item)

    def _step(self, part: Part) -> StepPlan:
        mistakes = self._mistakes
        found = {entry.key: entry for entry in mistakes.entries(part, "a step", schema.STEP)}
        name = self._once(found["id"], self._ids, _STEP_ID) if "id" in found else ""
        if "id" not in found and isinstance(part, Mapped):
            mistakes.add(part.line, "a step without id")
        where = f"step {name}" if name else "a step"
        read_only = _flag(found, "read_only", mistakes)
        is_certain = _flag(found, "atomic", mistakes) or read_only
        undo_timeout_s, undo_retries = self._of_compensation(found)
        step = StepPlan(
            id=name,
            topic=self._once(found["topic"], self._topics, _TOPIC) if "topic" in found else f"{self._saga}.{name}",
            command=self._command(found, where, part.line, is_certain=is_certain),
            does=words_of(found, mistakes),
            compensate=self._part(found, "compensate", schema.COMPENSATE, schema.ENDS, {0: "succeeded"}),
            mitigate=self._part(found, "mitigate", schema.COMPENSATE, schema.ENDS, {0: "succeeded"}),
            probe=self._part(found, "probe", schema.PROBE, schema.ANSWERS, {0: "happened", 1: "not_happened"}),
            before=self._part(found, "before", schema.BEFORE, schema.ALWAYS, {0: "succeeded"}),
            after=self._after(found["after"]) if "after" in found else None,
            resources=self._resources(found),
            files=_flag(found, "files", mistakes),
            read_only=read_only,
            no_rollback=mistakes.text(found["no_rollback"].value, "no_rollback") if "no_rollback" in found else None,
            idempotent=_flag(found, "idempotent", mistakes),
            risk=self._risk(found),
            timeout_s=mistakes.duration(found["timeout"].value, "timeout") if "timeout" in found else 300.0,
            retries=_retries(found["retry"].value, mistakes) if "retry" in found else None,
            on_incident=self._choice(found, "on_incident", ("stop", "go_on")) or "stop",
            line=part.line,
            undo_timeout_s=undo_timeout_s,
            undo_retries=undo_retries,
        )
        self._check_promises(step, found, where)
        return step

    def _command(self, found: Mapping[str, MarkedEntry], where: str, line: int, *, is_certain: bool) -> Call:
        otherwise = "failed" if is_certain else "lost"
        if self._is_request(found, where):
            kind = "certain" if is_certain else "step"
            return replace(self._requests.read(found, where, kind, FORWARD, schema.OUTCOMES), otherwise=otherwise)
        command = self._commands.read(found, where, line, FORWARD, self._shared)
        codes = self._commands.codes(found, schema.OUTCOMES, {0: "succeeded"})
        return replace(command, exit_codes=codes, otherwise=otherwise)

    def _is_request(self, found: Mapping[str, MarkedEntry], where: str) -> bool:
        """Whether it is a request and no command; what belongs to the other kind alone is noted."""
        mistakes = self._mistakes
        if "http" not in found:
            for key in ("statuses", "found"):
                if key in found:
                    mistakes.add(found[key].line, f"{where} is a command, and {key} is for http")
            return False
        for key in ("run", "shell"):
            if key in found:
                mistakes.add(found[key].line, f"{where} has both http and {key}; keep one")
        if self._shared.network is False:
            mistakes.add(found["http"].line, f"{where} has http, and the saga network: false; leave one of them out")
        return True

    def _resources(self, found: Mapping[str, MarkedEntry]) -> tuple[Template, ...]:
        if "resources" not in found:
            return ()
        items = self._mistakes.items(found["resources"].value, "resources")
        return tuple(argument(item, "a resource", self._mistakes, EARLY) for item in items)

    def _once(self, entry: MarkedEntry, lines: dict[str, int], pattern: re.Pattern[str]) -> str:
        name = _named(entry.value, entry.key, pattern, self._mistakes)
        if name in lines:
            self._mistakes.add(entry.line, f"{entry.key} {shown(name)} twice; the first is in line {lines[name]}")
        if name:
            lines.setdefault(name, entry.line)
        return name

    def _choice(self, found: Mapping[str, MarkedEntry], key: str, words: tuple[str, ...]) -> str:
        return self._mistakes.choice(found[key].value, key, words) if key in found else ""

    def _risk(self, found: Mapping[str, MarkedEntry]) -> tuple[str, ...]:
        if "risk" not in found:
            return ()
        return tuple(self._mistakes.text(item, "risk") for item in self._mistakes.items(found["risk"].value, "risk"))

    def _after(self, entry: MarkedEntry) -> tuple[str, ...]:
        mistakes = self._mistakes
        if not isinstance(entry.value, Listed):
            mistakes.wrong(entry.value, "after", "a list of steps, or [] for none")
            return ()
        names = [mistakes.text(item, "after") for item in entry.value.items]
        for name in names:
            if name and name not in list(self._ids)[:-1]:
                mistakes.unknown(
                    entry.line,
                    "step",
                    name,
                    list(self._ids)[:-1],
                    where=" in after",
                    hint="it has to stand above this one",
                )
        return tuple(dict.fromkeys(names))

    def _part(
        self,
        found: Mapping[str, MarkedEntry],
        key: str,
        keys: Mapping[str, Json],
        words: tuple[str, ...],
        codes: Mapping[int, str],
    ) -> Call | None:
        if key not in found:
            return None
        part, roots = found[key].value, BACK if key in _BACK else FORWARD
        if isinstance(part, Listed):
            inner: dict[str, MarkedEntry] = {"run": MarkedEntry(part.line, "run", part)}
        else:
            inner = {entry.key: entry for entry in self._mistakes.entries(part, key, keys)}
            if not isinstance(part, Mapped):
                return None
        otherwise = {"probe": "no_answer", "before": "failed"}.get(key, "lost")
        if self._is_request(inner, key):
            kind = "compensate" if key in _BACK else key
            return replace(self._requests.read(inner, key, kind, roots, words), otherwise=otherwise)
        command = self._commands.read(inner, key, part.line, roots, self._shared)
        return replace(command, exit_codes=self._commands.codes(inner, words, codes), otherwise=otherwise)

    def _of_compensation(self, found: Mapping[str, MarkedEntry]) -> tuple[float, Retries | None]:
        part = next((found[key].value for key in _BACK if key in found), None)
        inner = {entry.key: entry for entry in part.entries} if isinstance(part, Mapped) else {}
        timeout_s = self._mistakes.duration(inner["timeout"].value, "timeout") if "timeout" in inner else 30.0
        return timeout_s, _retries(inner["retry"].value, self._mistakes) if "retry" in inner else None

    def _check_promises(self, step: StepPlan, found: Mapping[str, MarkedEntry], where: str) -> None:
        mistakes = self._mistakes
        said_so = [key for key in ("compensate", "no_rollback") if key in found]
        said_so += ["read_only"] if step.read_only else []
        said_so += ["files"] if step.files else []
        for key in ("probe", "before") if step.files else ():
            if key in found:
                mistakes.add(found[key].line, f"{where} works on files, and needs no {key}: leave it out")
        if step.files and isinstance(step.command, HttpRequest):
            mistakes.add(found["files"].line, f"{where} works on files, and a request has none: leave files out")
        if step.probe is not None and isinstance(step.probe, HttpRequest) != isinstance(step.command, HttpRequest):
            hint = "its answer stands for the step's result, so both are commands or both are http"
            mistakes.add(found["probe"].line, f"{where} and its probe are of two kinds; {hint}")
        if step.files and not self._has_tree:
            mistakes.add(found["files"].line, f"{where} works on files, and the saga has none; add `files:` at the top")
        if len(said_so) > 1:
            mistakes.add(found[said_so[0]].line, f"{where} has {' and '.join(said_so)}; keep one of them")
        if step.before is not None and step.compensate is None and step.mitigate is None:
            mistakes.add(found["before"].line, f"{where} has a before-image and no compensate that could use it")
        if "mitigate" in found and "no_rollback" not in found:
            hint = "say why with no_rollback, or call it compensate"
            mistakes.add(
                found["mitigate"].line, f"{where} has a mitigate, which is for what cannot be taken back; {hint}"
            )
        word = self._choice(found, "reversibility", schema.WORDS)
        means = {"compensate": "compensatable", "no_rollback": "irreversible", "files": "reversible"}
        actual = next((means[key] for key in said_so if key in means), "undeclared")
        if word and word != actual and not step.read_only:
            wants = _WANTS.get(word)
            hint = f"add {wants}" if wants else f"it is {actual}"
            mistakes.add(found["reversibility"].line, f"{where} says {word}, and its keys do not; {hint}")
