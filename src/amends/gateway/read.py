"""From a contracts file to what it says: strict YAML, then the rules of the format, each mistake with its line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, cast

from amends.core.words.values import BUILT_IN, Json
from amends.errors import ContractsError, MistakesError
from amends.gateway.answers import AnswerTest, TextPattern
from amends.gateway.model import (
    VERSION,
    WAYS,
    ApprovalsBy,
    BeforeCall,
    Check,
    Clauses,
    Contracts,
    Mode,
    OnIdle,
    ProbeCall,
    ServerPlan,
    ToolCall,
    TryOut,
)
from amends.gateway.references import Template, template
from amends.gateway.topics import SERVER, spelled_topic
from amends.source.marked import Listed, Mapped, MarkedEntry, Mistakes, Part, Scalar, plain, shown
from amends.source.strict_yaml import decoded, read_document, read_file

FILE: Final = ("version", "servers", "tools", "patterns", "mode", "approvals", "idle", "on_idle")
SERVER_KEYS: Final = ("command", "url", "cwd", "trusted", "env", "env_file", "headers", "scratch", "readers")
TOOL_KEYS: Final = (
    "compensate",
    "probe",
    "before",
    "reread",
    "no_rollback",
    "mitigate",
    "read_only",
    "idempotent",
    "failed_when",
    "risk",
    "timeout",
    "definition",
    "try",
)
CALL_KEYS: Final = ("tool", "args", "when", "unless", "done_when")
TEST_KEYS: Final = ("text", "error")
MODES: Final = ("observe", "enforce")
APPROVALS: Final = ("in_client", "elsewhere")
ON_IDLE: Final = ("call", "rollback", "keep")
_FORWARD: Final = ("args",)
_BACK: Final = ("args", "result", "before")
_DRILLED: Final = ("scratch",)
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_HOLE: Final = re.compile(r"\{([a-z_][a-z0-9_]*)\}", re.ASCII)
_DIGEST: Final = re.compile(r"[0-9a-f]{16,64}", re.ASCII)
_TAG: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}", re.ASCII)
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,63}", re.ASCII)
_Found = Mapping[str, MarkedEntry]


def load_contracts(path: str | PathLike[str]) -> Contracts:
    """Read a contracts file. Raises ContractsError, which says what is wrong in which lines."""
    name = str(path)
    text = read_file(path, Mistakes(name, ContractsError))
    return parse_contracts(text, name=name, directory=str(Path(path).absolute().parent))


def parse_contracts(text: str | bytes, *, name: str = "contracts", directory: str = "") -> Contracts:
    """Read contracts from a text; `name` stands for the file in errors, and paths are seen from `directory`."""
    mistakes = Mistakes(name, ContractsError)
    source = decoded(text, mistakes)
    return _Reader(mistakes, directory).read(read_document(source, mistakes), source)


class _Reader:
    def __init__(self, mistakes: Mistakes, directory: str) -> None:
        self._mistakes = mistakes
        self._directory = directory
        self._servers: dict[str, ServerPlan] = {}

    def read(self, document: Part, text: str) -> Contracts:
        mistakes = self._mistakes
        found = self._entries(document, "a contracts file", FILE)
        if "version" not in found and isinstance(document, Mapped):
            mistakes.add(document.line, f"there is no version; begin with `version: {VERSION}`")
        if "version" in found:
            mistakes.choice(found["version"].value, "version", (VERSION,))
        if "servers" in found:
            for entry in mistakes.entries(found["servers"].value, "servers"):
                self._server(entry)
        patterns: dict[str, TextPattern] = {}
        if "patterns" in found:
            for entry in mistakes.entries(found["patterns"].value, "patterns"):
                patterns[entry.key] = self._pattern(entry)
        tools = found["tools"].value if "tools" in found else None
        has_tools = tools is not None and not (isinstance(tools, Scalar) and tools.value is None)
        clauses = tuple(map(self._clauses, mistakes.entries(tools, "tools"))) if tools is not None and has_tools else ()
        self._refuse_twice(clauses)
        made = Contracts(
            file=mistakes.name,
            text=text,
            servers=self._servers,
            clauses=clauses,
            patterns=patterns,
            written_patterns=cast("dict[str, Json]", plain(found["patterns"].value)) if patterns else {},
            mode=cast("Mode", self._word(found, "mode", MODES) or "enforce"),
            approvals=cast("ApprovalsBy", self._word(found, "approvals", APPROVALS) or "elsewhere"),
            idle_s=mistakes.duration(found["idle"].value, "idle") if "idle" in found else 3600.0,
            on_idle=cast("OnIdle", self._word(found, "on_idle", ON_IDLE) or "call"),
        )
        mistakes.raise_any()
        return made

    def _refuse_twice(self, clauses: tuple[Clauses, ...]) -> None:
        first: dict[str, Clauses] = {}
        for one in clauses:
            if one.topic and one.topic in first:
                before = first[one.topic]
                what = f"{shown(one.key)} is {one.topic}, of which line {before.line} ({before.key}) speaks already"
                self._mistakes.add(one.line, what)
            first.setdefault(one.topic, one)

    # -- servers ------------------------------------------------------------------------------------------------------

    def _server(self, entry: MarkedEntry) -> None:
        mistakes, name = self._mistakes, entry.key
        if not SERVER.fullmatch(name) or f"{name}." == BUILT_IN:
            mistakes.add(entry.line, f"server {shown(name)} is no name: use a-z 0-9 _ -, at most 32, and not amends")
        found = self._entries(entry.value, f"server {name}", SERVER_KEYS)
        if isinstance(entry.value, Mapped) and ("command" in found) == ("url" in found):
            mistakes.add(entry.line, f"server {name} needs one of command, to start it, and url, where it is")
        command = self._command(found["command"].value) if "command" in found else ()
        url = mistakes.text(found["url"].value, "url") if "url" in found else ""
        if url and not url.startswith(("http://", "https://")):
            mistakes.add(found["url"].line, f"url {shown(url)} has to begin with http:// or https://")
        if "@" in url.partition("://")[2].partition("/")[0]:
            mistakes.add(found["url"].line, "url has credentials in it; name them under headers instead")
        headers: dict[str, tuple[Literal["env", "file"], str]] = {}
        for header in mistakes.entries(found["headers"].value, "headers") if "headers" in found else ():
            headers[header.key] = self._credential(header)
        self._servers[name] = ServerPlan(
            name=name,
            line=entry.line,
            command=command,
            url=url,
            cwd=self._path(found, "cwd"),
            trusted=self._flag(found, "trusted"),
            env=self._variables(found["env"].value) if "env" in found else (),
            env_file=self._path(found, "env_file"),
            headers=headers,
            scratch=self._command(found["scratch"].value) if "scratch" in found else (),
            readers=tuple(self._calls(found["readers"].value, "readers", _DRILLED, name)) if "readers" in found else (),
        )

    def _command(self, part: Part) -> tuple[str, ...]:
        return tuple(self._mistakes.text(item, "a word of a command") for item in self._mistakes.items(part, "command"))

    def _variables(self, part: Part) -> tuple[str, ...]:
        names = tuple(self._mistakes.text(item, "a variable's name") for item in self._mistakes.items(part, "env"))
        for number, name in enumerate(names, start=1):
            if name and not _VARIABLE.fullmatch(name):  # and it is not shown: it may be a credential
                told = f"word {number} of env is not the name of a variable; a value never stands here"
                self._mistakes.add(part.line, told)
        return names

    def _credential(self, entry: MarkedEntry) -> tuple[Literal["env", "file"], str]:
        mistakes = self._mistakes
        is_map = isinstance(entry.value, Mapped)  # what else stands there is not shown: it may be a credential
        found = self._entries(entry.value, f"header {entry.key}", ("env", "file")) if is_map else {}
        if len(found) != 1:
            mistakes.add(
                entry.line, f"header {entry.key} is named by {{env: NAME}} or {{file: PATH}}, never written here"
            )
            return "env", ""
        if "file" in found:
            return "file", self._path(found, "file")
        name = mistakes.text(found["env"].value, "env")
        if name and not _VARIABLE.fullmatch(name):
            told = f"header {entry.key}: env is not the name of a variable; a value never stands here"
            mistakes.add(entry.line, told)
        return "env", name

    def _path(self, found: _Found, key: str) -> str:
        """A path, seen from the file's directory."""
        if key not in found:
            return ""
        text = self._mistakes.text(found[key].value, key)
        return str(Path(self._directory) / text) if text else ""

    # -- tools --------------------------------------------------------------------------------------------------------

    def _clauses(self, entry: MarkedEntry) -> Clauses:
        mistakes, key = self._mistakes, entry.key
        server, dot, tool = key.partition(".")
        if not dot or not tool:
            mistakes.add(entry.line, f"tool {shown(key)} is written server.tool, as in notes.create or notes.*")
        elif self._servers and server not in self._servers and not set("*?") & set(server):
            mistakes.unknown(entry.line, "server", server, list(self._servers), where=f" in {shown(key)}")
        found = self._entries(entry.value, f"tool {key}", TOOL_KEYS)
        self._refuse_unfit(key, found)
        said: dict[str, Any] = {}
        if "compensate" in found:
            said["compensate"] = tuple(self._calls(found["compensate"].value, "compensate", _BACK, server))
        if "mitigate" in found:
            said["mitigate"] = tuple(self._calls(found["mitigate"].value, "mitigate", _BACK, server))
        if "probe" in found:
            said["probe"] = self._probe(found["probe"].value, server)
        if "before" in found:
            said["before"] = self._before(found["before"].value, server)
        if "reread" in found:
            said["reread"] = self._call(found["reread"].value, "reread", ("args", "result"), server)
        if "failed_when" in found:
            said["failed_when"] = self._test(found["failed_when"].value, "failed_when")
        if "no_rollback" in found:
            said["no_rollback"] = mistakes.text(found["no_rollback"].value, "no_rollback")
        if "risk" in found:
            said["risk"] = self._tags(found["risk"].value)
        if "timeout" in found:
            said["timeout_s"] = mistakes.duration(found["timeout"].value, "timeout")
        if "definition" in found:
            said["definition"] = self._digest(found["definition"].value)
        if "try" in found:
            said["try_with"] = self._rehearsal(found["try"].value, server)
        return Clauses(
            key=key,
            topic=spelled_topic(key),
            line=entry.line,
            says={name: plain(one.value) for name, one in found.items()},
            read_only=self._flag(found, "read_only"),
            idempotent=self._flag(found, "idempotent"),
            **said,
        )

    def _refuse_unfit(self, key: str, found: _Found) -> None:
        """Clauses that do not go together."""
        ways = [name for name in WAYS if name in found and not (name == "read_only" and not self._flag(found, name))]
        if len(ways) > 1:
            self._mistakes.add(found[ways[1]].line, f"tool {key} says {ways[0]} and {ways[1]}; keep one of them")
        if "mitigate" in found and "no_rollback" not in found:
            self._mistakes.add(found["mitigate"].line, "mitigate is for what cannot be taken back: say no_rollback too")

    def _probe(self, part: Part, server: str) -> ProbeCall | None:
        found = self._entries(part, "probe", (*CALL_KEYS, "happened", "result"))
        ask = self._one_call(found, part, "probe", _FORWARD, server)
        if "happened" not in found:
            if isinstance(part, Mapped):
                self._mistakes.add(part.line, 'a probe without happened; say what a yes looks like: "${answer.items}"')
            return None
        happened = self._check(found["happened"].value, "happened", ("args", "answer"))
        result = template(found["result"].value, self._mistakes, ("args", "answer")) if "result" in found else None
        return None if ask is None else ProbeCall(ask=ask, happened=happened, result=result)

    def _before(self, part: Part, server: str) -> BeforeCall | None:
        found = self._entries(part, "before", (*CALL_KEYS, "missing_when"))
        ask = self._one_call(found, part, "before", _FORWARD, server)
        missing = self._test(found["missing_when"].value, "missing_when") if "missing_when" in found else None
        return None if ask is None else BeforeCall(ask=ask, missing_when=missing)

    def _rehearsal(self, part: Part, server: str) -> TryOut:
        found = self._entries(part, "try", ("args", "given"))
        args = template(found["args"].value, self._mistakes, _DRILLED) if "args" in found else {}
        given = tuple(self._calls(found["given"].value, "given", _DRILLED, server)) if "given" in found else ()
        return TryOut(args=args, given=given)

    def _calls(self, part: Part, what: str, roots: tuple[str, ...], server: str) -> list[ToolCall]:
        """One call, or a list of them."""
        parts = self._mistakes.items(part, what) if isinstance(part, Listed) else (part,)
        made = [self._call(one, what, roots, server) for one in parts]
        return [one for one in made if one is not None]

    def _call(self, part: Part, what: str, roots: tuple[str, ...], server: str) -> ToolCall | None:
        return self._one_call(self._entries(part, what, CALL_KEYS), part, what, roots, server)

    def _one_call(self, found: _Found, part: Part, what: str, roots: tuple[str, ...], server: str) -> ToolCall | None:
        mistakes = self._mistakes
        if "tool" not in found:
            if isinstance(part, Mapped):
                mistakes.add(part.line, f"{what} without tool; name it: {{tool: {server}.delete, args: {{…}}}}")
            return None
        written = mistakes.text(found["tool"].value, "tool")
        where, dot, tool = written.partition(".")
        if not dot:
            where, tool = server, written
        if written and (not tool or set("*?") & set(where)):
            mistakes.add(found["tool"].line, f"tool {shown(written)} is written server.tool, as in notes.delete")
        elif self._servers and where not in self._servers and written:
            mistakes.unknown(found["tool"].line, "server", where, list(self._servers), where=f" in {shown(written)}")
        args = found.get("args")
        if args is not None and not isinstance(args.value, Mapped):
            mistakes.wrong(args.value, "args", "a map")
        return ToolCall(
            server=where,
            tool=tool,
            args={} if args is None else template(args.value, mistakes, roots),
            line=part.line,
            when=self._template(found, "when", roots),
            unless=self._template(found, "unless", roots),
            done_when=self._test(found["done_when"].value, "done_when") if "done_when" in found else None,
        )

    def _template(self, found: _Found, key: str, roots: tuple[str, ...]) -> Template:
        return template(found[key].value, self._mistakes, roots) if key in found else None

    def _check(self, part: Part, what: str, roots: tuple[str, ...]) -> Check:
        return self._test(part, what) if isinstance(part, Mapped) else template(part, self._mistakes, roots)

    def _test(self, part: Part, what: str) -> AnswerTest:
        found = self._entries(part, what, TEST_KEYS)
        if isinstance(part, Mapped) and not found:
            self._mistakes.add(part.line, f'{what} says nothing; write {{text: "Error: *"}} or {{error: true}}')
        texts: tuple[str, ...] = ()
        if "text" in found:
            value = found["text"].value
            parts = value.items if isinstance(value, Listed) else (value,)
            texts = tuple(self._mistakes.text(one, "text") for one in parts)
        return AnswerTest(texts=texts, is_error=self._flag(found, "error") if "error" in found else None)

    # -- words --------------------------------------------------------------------------------------------------------

    def _pattern(self, entry: MarkedEntry) -> TextPattern:
        mistakes = self._mistakes
        if not _NAME.fullmatch(entry.key):
            mistakes.add(entry.line, f"pattern {shown(entry.key)} is no name: use a-z 0-9 _")
        text = mistakes.text(entry.value, f"pattern {entry.key}")
        parts = _HOLE.split(text)
        pieces, holes = tuple(parts[::2]), tuple(parts[1::2])
        if text and not holes:
            mistakes.add(entry.line, f"pattern {entry.key} has no hole; write one, as in 'Created note {{id}}'")
        elif any(not piece for piece in pieces[1:-1]):
            mistakes.add(entry.line, f"pattern {entry.key}: two holes side by side; nobody can say where one ends")
        elif len(set(holes)) < len(holes):
            mistakes.add(entry.line, f"pattern {entry.key}: two holes of one name")
        return TextPattern(pieces, holes)

    def _tags(self, part: Part) -> tuple[str, ...]:
        tags = tuple(self._mistakes.text(item, "a tag") for item in self._mistakes.items(part, "risk"))
        for tag in tags:
            if tag and not _TAG.fullmatch(tag):
                self._mistakes.add(part.line, f"risk {shown(tag)} is no tag: use a-z 0-9 _ . -")
        return tags

    def _digest(self, part: Part) -> str:
        text = self._mistakes.text(part, "definition")
        if text and not _DIGEST.fullmatch(text):
            self._mistakes.add(
                part.line, f"definition {shown(text)} is no digest; `amends mcp scan` prints the right one"
            )
        return text

    def _flag(self, found: _Found, key: str) -> bool:
        if key not in found:
            return False
        part = found[key].value
        if isinstance(part, Scalar) and isinstance(part.value, bool):
            return part.value
        self._mistakes.wrong(part, key, "true or false")
        return False

    def _word(self, found: _Found, key: str, words: tuple[str, ...]) -> str:
        return self._mistakes.choice(found[key].value, key, words) if key in found else ""

    def _entries(self, part: Part, what: str, known: tuple[str, ...]) -> dict[str, MarkedEntry]:
        return {entry.key: entry for entry in self._mistakes.entries(part, what, known)}


def is_contracts_file(path: str | PathLike[str]) -> bool:
    """Whether a YAML file is one of contracts, and not a saga's."""
    mistakes = Mistakes(str(path), ContractsError)
    try:
        document = read_document(decoded(read_file(path, mistakes), mistakes), mistakes)
    except MistakesError:
        return False
    keys = {entry.key for entry in document.entries} if isinstance(document, Mapped) else set[str]()
    return "saga" not in keys and bool(keys & {"servers", "tools"})
