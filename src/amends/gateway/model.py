"""A contracts file as it is understood: servers, and for each tool, or each glob of tools, what is said of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from itertools import pairwise
from typing import Any, Final, Literal, TypeAlias

from amends.core.words.globs import glob, is_glob
from amends.core.words.values import Json, canonical
from amends.dataclass import dataclass
from amends.errors import ContractsError
from amends.gateway.answers import AnswerTest, TextPattern
from amends.gateway.references import Template

VERSION: Final = "v1"
WAYS: Final = ("compensate", "no_rollback", "read_only")
"""Clauses of which a tool has one: how it is taken back, why it cannot be, or that there is nothing to take back."""
Mode: TypeAlias = Literal["observe", "enforce"]
ApprovalsBy: TypeAlias = Literal["in_client", "elsewhere"]
OnIdle: TypeAlias = Literal["call", "rollback", "keep"]
Check: TypeAlias = "Template | AnswerTest"
_DIGITS: Final = 8
UNSEEN_BEFORE: Final = "unseen"
"""Stands in a before-image that could not be captured, with the reason, where the call passed all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call of a tool: of a compensation, a probe, a before-image.

    `when` and `unless` say on what it depends; `done_when`, which answer says that what it was to do is so already.
    """

    server: str
    tool: str
    args: Template
    line: int
    when: Template = None
    unless: Template = None
    done_when: AnswerTest | None = None

    @property
    def words(self) -> str:
        return f"{self.server}.{self.tool}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeCall:
    """A question, the value or the test that says whether it happened, and what the action would have answered."""

    ask: ToolCall
    happened: Check
    result: Template = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeCall:
    """The look that is taken before; `missing_when`: the answer that says that there is nothing yet."""

    ask: ToolCall
    missing_when: AnswerTest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TryOut:
    """A drill of one tool: the calls that make it possible, and arguments to try it with."""

    args: Template
    given: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Clauses:
    """One entry under `tools`. `says` has the clauses that it names, as they are written."""

    key: str
    topic: str
    line: int
    says: Mapping[str, Json]
    compensate: tuple[ToolCall, ...] = ()
    probe: ProbeCall | None = None
    before: BeforeCall | None = None
    reread: ToolCall | None = None
    no_rollback: str | None = None
    mitigate: tuple[ToolCall, ...] = ()
    read_only: bool = False
    idempotent: bool = False
    failed_when: AnswerTest | None = None
    risk: tuple[str, ...] = ()
    timeout_s: float | None = None
    definition: str = ""
    try_with: TryOut | None = None

    @property
    def is_glob(self) -> bool:
        return is_glob(self.topic)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlan:
    """A server: a command to start, or an address. Credentials are names: of variables, or of a file."""

    name: str
    line: int
    command: tuple[str, ...] = ()
    url: str = ""
    cwd: str = ""
    trusted: bool = False
    env: tuple[str, ...] = ()
    env_file: str = ""
    headers: Mapping[str, tuple[Literal["env", "file"], str]] = field(
        default_factory=dict[str, tuple[Literal["env", "file"], str]]
    )
    whole_env: bool = False
    """It is given all of this process's environment: somebody's client started it for that."""
    scratch: tuple[str, ...] = ()
    """The command that starts an instance for drills, in a directory of its own."""
    readers: tuple[ToolCall, ...] = ()
    """Calls that tell how the server's world looks: a drill compares their answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContract:
    """All that the file says of one tool: of each clause, what the most exact entry that has it says."""

    topic: str
    entries: tuple[Clauses, ...]
    compensate: tuple[ToolCall, ...] = ()
    probe: ProbeCall | None = None
    before: BeforeCall | None = None
    reread: ToolCall | None = None
    no_rollback: str | None = None
    mitigate: tuple[ToolCall, ...] = ()
    read_only: bool = False
    idempotent: bool = False
    failed_when: AnswerTest | None = None
    risk: tuple[str, ...] = ()
    timeout_s: float | None = None
    definition: str = ""
    try_with: TryOut | None = None
    version: int = 1

    @property
    def is_declared(self) -> bool:
        """Whether anything is said of how it is taken back."""
        return bool(self.compensate) or self.no_rollback is not None or self.read_only

    def calls(self) -> Iterator[tuple[str, ToolCall]]:
        """Every call that it may make, with the clause that it is of."""
        yield from (("compensate", one) for one in self.compensate)
        yield from (("mitigate", one) for one in self.mitigate)
        if self.probe is not None:
            yield "probe", self.probe.ask
        if self.before is not None:
            yield "before", self.before.ask
        if self.reread is not None:
            yield "reread", self.reread


@dataclass(frozen=True, slots=True, kw_only=True)
class Contracts:
    """A contracts file, read."""

    file: str
    text: str
    servers: Mapping[str, ServerPlan]
    clauses: tuple[Clauses, ...]
    patterns: Mapping[str, TextPattern]
    written_patterns: Mapping[str, Json]
    mode: Mode = "enforce"
    approvals: ApprovalsBy = "elsewhere"
    idle_s: float = 3600.0
    on_idle: OnIdle = "call"

    def of(self, topic: str) -> ToolContract:
        """The clauses that speak of a tool. Raises ContractsError where two globs say it equally well."""
        found = sorted((one for one in self.clauses if _matches(one)(topic)), key=_exactness, reverse=True)
        for one, other in pairwise(found):
            if _exactness(one) == _exactness(other) and _is_about(one, other):
                first, second = sorted((one, other), key=lambda each: each.line)
                what = f"{second.key} and {first.key} (line {first.line}) both speak of {topic}, equally exactly"
                raise ContractsError([f"{self.file}:{second.line}: {what}; name {topic} itself"])
        said: dict[str, Any] = {}
        says: dict[str, Json] = {}
        has_way = False
        for one in found:
            for name, written in one.says.items():
                if name in says or (name in WAYS and has_way):
                    continue
                said[_FIELDS.get(name, name)] = getattr(one, _FIELDS.get(name, name))
                says[name] = written
            has_way = has_way or any(name in WAYS for name in one.says)
        return ToolContract(
            topic=topic,
            entries=tuple(found),
            version=_version({"says": says, "patterns": dict(self.written_patterns)}) if says else 1,
            **said,
        )


_FIELDS: Final = {"timeout": "timeout_s", "try": "try_with"}


def _exactness(one: Clauses) -> tuple[bool, int]:
    return not one.is_glob, len(one.topic)


def _is_about(first: Clauses, second: Clauses) -> bool:
    """Whether two entries say something of the same clause."""
    ways = [any(name in WAYS for name in one.says) for one in (first, second)]
    return all(ways) or bool(set(first.says) & set(second.says))


def _matches(one: Clauses) -> Callable[[str], bool]:
    return glob(one.topic)


def _version(says: Json) -> int:
    """The version of what is said: another contract is another version, and a saga keeps the one that it began with."""
    return int(hashlib.sha256(canonical(says).encode()).hexdigest()[:_DIGITS], 16) or 1


def without_contracts(servers: Iterable[ServerPlan], *, mode: Mode = "enforce") -> Contracts:
    """Contracts of nothing but servers, where nobody has written a file."""
    return Contracts(
        file="",
        text="",
        servers={one.name: one for one in servers},
        clauses=(),
        patterns={},
        written_patterns={},
        mode=mode,
    )
