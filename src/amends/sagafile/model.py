"""A saga's file as it was understood: plain data, without anything that runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Final, TypeAlias

from amends.core.words.contracts import Retries
from amends.core.words.values import Json
from amends.dataclass import dataclass
from amends.runtime.declare.limits import Limits
from amends.sagafile.templates import OF_SECRETS, Reference, Template, references

UNSEEN: Final = Retries(attempts=3)
"""Where its author asks for no retries: a command that ended is not tried again, however it ended. One whose end nobody
saw, because of a kill or a timeout, is, if it may be repeated at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """An input of a saga. `type` is one of the words of the format."""

    name: str
    type: str
    does: str = ""
    has_default: bool = False
    default: Json = None
    choices: tuple[Json, ...] = ()
    pattern: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """A program and its arguments, or a text for a shell; and what it is started with."""

    run: tuple[Template, ...] = ()
    script: str = ""
    """A text for a shell, in place of `run`."""
    env: Mapping[str, Template] = field(default_factory=dict[str, Template])
    inherit: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    stdin: Template = ()
    cwd: Template = ()
    confine: bool | None = None
    """None: as its kind of step is by default."""
    network: bool | None = None
    exit_codes: Mapping[int, str] = field(default_factory=dict[int, str])
    otherwise: str = "lost"
    """What an exit code that is not named says."""
    does: str = ""
    line: int = 1

    def references(self) -> Iterator[Reference]:
        for text in (*self.run, *self.env.values(), self.stdin, self.cwd):
            yield from references(text)


JsonTemplate: TypeAlias = "Template | list[JsonTemplate] | dict[str, JsonTemplate] | bool | int | float | None"
"""A value of JSON whose texts have references; such a text is a tuple of pieces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request to a server, and what its answer says. At most one of `body`, `form` and `document` is there."""

    method: str
    url: Template
    headers: Mapping[str, Template] = field(default_factory=dict[str, Template])
    body: Template | None = None
    form: Mapping[str, Template] | None = None
    document: tuple[JsonTemplate] | None = None
    """The value that is sent as JSON, alone in a tuple: it may be null."""
    found: tuple[str, ...] = ()
    """A probe's: the place in the answer that holds what was looked for."""
    statuses: Mapping[int | str, str] = field(default_factory=dict[int | str, str])
    """By a status, or by a class of them such as 2xx."""
    otherwise: str = "lost"
    does: str = ""
    line: int = 1

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of the secrets that it refers to."""
        return tuple(
            dict.fromkeys(each.path[1] for each in self.references() if each.root == OF_SECRETS and each.path[1:])
        )

    def references(self) -> Iterator[Reference]:
        for text in (self.url, *self.headers.values(), self.body or (), *(self.form or {}).values()):
            yield from references(text)
        for part in self.document or ():
            yield from _references_inside(part)


def _references_inside(part: JsonTemplate) -> Iterator[Reference]:
    if isinstance(part, tuple):
        yield from references(part)
    elif isinstance(part, (list, dict)):
        for item in part.values() if isinstance(part, dict) else part:
            yield from _references_inside(item)


Call: TypeAlias = CommandLine | HttpRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """One step, and what it promises."""

    id: str
    topic: str
    command: Call
    does: str = ""
    compensate: Call | None = None
    mitigate: Call | None = None
    probe: Call | None = None
    before: Call | None = None
    after: tuple[str, ...] | None = None
    resources: tuple[Template, ...] = ()
    """What it needs for itself until its saga has ended."""
    files: bool = False
    """It works in the saga's changeset, in a layer of its own."""
    read_only: bool = False
    no_rollback: str | None = None
    idempotent: bool = False
    risk: tuple[str, ...] = ()
    timeout_s: float = 300.0
    retries: Retries | None = None
    undo_timeout_s: float = 30.0
    undo_retries: Retries | None = None
    on_incident: str = "stop"
    line: int = 1

    @property
    def commands(self) -> tuple[Call, ...]:
        named = (self.command, self.before, self.probe, self.compensate, self.mitigate)
        return tuple(each for each in named if each is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeOptions:
    """The tree that steps may work on, and how their work comes into it; without `land` it stays in its changeset."""

    root: Template
    land: Template = ()
    verify: tuple[Template, ...] = ()
    asks: bool = False
    """Whether people resolve what is in conflict; else the saga goes back."""
    shared: CommandLine = field(default_factory=CommandLine)
    """What every command of the file is started with, and so is the one that verifies."""
    line: int = 1


Result: TypeAlias = Mapping[str, Template]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A whole file."""

    name: str
    does: str
    inputs: tuple[Input, ...]
    steps: tuple[StepPlan, ...]
    result: Result
    tree: TreeOptions | None = None
    rollback_s: float | None = None
    attempts: int | None = None
    compensation_attempts: int | None = None
    lease_s: float | None = None
    limits: Limits | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of all secrets that a step may need, in order."""
        given = [] if self.tree is None or not self.tree.verify else [self.tree.shared]
        commands = (*given, *(command for step in self.steps for command in step.commands))
        names = (name for command in commands for name in command.secrets)
        return tuple(dict.fromkeys(names))

    @property
    def has_requests(self) -> bool:
        return any(isinstance(command, HttpRequest) for step in self.steps for command in step.commands)

    @property
    def is_graph(self) -> bool:
        return any(step.after is not None for step in self.steps)
