"""A saga's file as a definition. Its version is its text: a saga goes on with the file as it was when it began.

The text is journaled with the saga's input, so that whoever takes the saga up needs neither the file nor its name.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, cast

from amends.core.events import SagaStarted
from amends.core.transitions import SagaStatus
from amends.core.words.values import LARGEST_VALUE, Json, SagaId
from amends.errors import DeclarationError, InputError, SagaFileError
from amends.journal.port.journal import Journal, SagaQuery
from amends.runtime.declare.action import Action
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.declare.graph import Graph
from amends.runtime.declare.outline import Later, Outlined, turns_of
from amends.runtime.declare.registry import PROCESS, Registry
from amends.runtime.declare.steps import Step
from amends.runtime.files.verifying import verifying_in
from amends.runtime.saga.work import Work
from amends.runtime.values.schema import tool_schema
from amends.sagafile.actions import PARTS, arguments, make_action, verifying_environment
from amends.sagafile.exchange import EXTRA, outlined
from amends.sagafile.inputs import checked_inputs, inputs_schema
from amends.sagafile.model import StepPlan, Written
from amends.sagafile.program import ShowOf
from amends.sagafile.read import read_saga
from amends.sagafile.templates import bound
from amends.source.marked import Mistakes
from amends.source.strict_yaml import decoded, read_document, read_file

FILE: Final = "saga_file"
_DIGITS: Final = 8
_OPEN: Final = (SagaStatus.RUNNING, SagaStatus.WAITING, SagaStatus.ROLLING_BACK, SagaStatus.INCIDENT)
_PAGE: Final = 200


class FileSaga(SagaDefinition):
    """A saga whose steps are commands. Its input is what the file asks for, by name."""

    def __init__(self, written: Written, *, file: str, text: str, directory: str, show: ShowOf | None = None) -> None:
        version = version_of(text)
        self.written = written
        self.text = text
        self._file: dict[str, Json] = {"directory": directory, "name": file, "text": text}
        _refuse_collision(written.name, version, text)
        self.actions = {step.id: make_action(step, version=version, show=show) for step in written.steps}
        super().__init__(
            written.name,
            function=self._perform,
            version=version,
            limits=written.limits,
            rollback_s=written.rollback_s,
            attempts=written.attempts,
            compensation_attempts=written.compensation_attempts,
            lease_s=written.lease_s,
        )
        self.module = ""  # the journal has the file itself

    def bind(
        self, args: tuple[object, ...], kwargs: Mapping[str, object], most: int = LARGEST_VALUE
    ) -> dict[str, object]:
        if args and (len(args) > 1 or kwargs):
            raise InputError(f"saga {self.name} takes its inputs by name, or one object of them")
        return self.bind_document(args[0] if args else dict(kwargs))

    def schema(self) -> dict[str, Any]:
        return tool_schema(self.name, self.written.does, inputs_schema(self.written.inputs))

    @property
    def takes_object(self) -> bool:
        return True

    @property
    def input_names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.written.inputs)

    def bind_document(self, document: object) -> dict[str, object]:
        checked = checked_inputs(self.name, self.written.inputs, document)
        if self.written.has_requests and find_spec("httpx2") is None:
            raise InputError(f"saga {self.name} cannot begin: {EXTRA}")
        missing = [name for name in self.written.secrets if name not in os.environ]
        if missing:
            raise InputError(f"saga {self.name} needs the secret {missing[0]}, and the environment has none; set it")
        return {"input": checked, FILE: dict(self._file)}

    @property
    def lands(self) -> bool:
        tree = self.written.tree
        return tree is not None and bool(tree.land)

    def outline(self, named: Mapping[str, Any]) -> tuple[Outlined, ...]:
        """The steps before it lands; what earlier ones print, and the saga's id, are known later."""
        known: dict[str, Json] = {"input": cast("Json", named["input"]), "saga": {"id": "{{saga.id}}"}}
        directory = str(self._file["directory"])
        graph = _graph(self.written, self.actions)
        turns, found = turns_of(graph.needs), list[Outlined]()
        for step in sorted(self.written.steps, key=lambda one: turns[_label(one.id)]):
            args = arguments(step, saga="{{saga.id}}", directory=directory, known=known)
            later = cast("dict[str, object]", _later(_requests_outlined(args)))
            after = tuple(one.removeprefix("#") for one in graph.needs[_label(step.id)])
            turn = turns[_label(step.id)]
            found.append(Outlined(label=step.id, action=self.actions[step.id], args=later, turn=turn, after=after))
        return tuple(found)

    async def _perform(self, s: Work, *, input: dict[str, Json], saga_file: dict[str, Json]) -> dict[str, Json] | None:
        directory = str(saga_file["directory"])
        results: dict[str, Json] = {}
        known: dict[str, Json] = {"input": input, "steps": results, "saga": {"id": s.id}}
        plans = {_label(step.id): step for step in self.written.steps}

        def named(step: StepPlan) -> dict[str, object]:
            return {**arguments(step, saga=s.id, directory=directory, known=known)}

        def known_by(step: Step, done: Mapping[str, Any]) -> dict[str, object]:
            results.update({plans[label].id: result for label, result in done.items()})
            return named(plans[step.label])

        tree = self.written.tree
        if tree is not None:
            s.files(Path(directory) / str(bound(tree.root, known)))
        if self.written.is_graph:
            done = await s.do_steps(_graph(self.written, self.actions), known_by)
            results.update({plans[label].id: result for label, result in done.items()})
        else:
            for step in self.written.steps:
                results[step.id] = await s.do_named(self.actions[step.id], named(step))
        if tree is not None and tree.land:
            verify = [str(bound(word, known)) for word in tree.verify]
            on_conflict: Literal["ask", "raise"] = "ask" if tree.asks else "raise"
            verifying_in.set(verifying_environment(tree.shared, saga=s.id, known=known) if verify else None)
            await s.land(message=str(bound(tree.land, known)), verify=verify, on_conflict=on_conflict)
        given: dict[str, Json] = {name: bound(text, known) for name, text in self.written.result.items()}
        return given or None


def _graph(written: Written, actions: Mapping[str, Action[..., Any]]) -> Graph:
    """The file's steps as those of a graph: what says nothing is after the one above it."""
    steps: dict[str, Step] = {}
    needs: dict[str, tuple[str, ...]] = {}
    above: tuple[str, ...] = ()
    for plan in written.steps:
        label = _label(plan.id)
        needs[label] = above if plan.after is None else tuple(map(_label, plan.after))
        steps[label] = Step(actions[plan.id], name=label)
        above = (label,)
    return Graph(steps, needs, is_list=False)


def _requests_outlined(args: dict[str, Any]) -> dict[str, Any]:
    """Arguments with the requests of a step, and of its parts, as an outline has them."""
    using = {name: _outlined_part(part) if name in PARTS else part for name, part in args["using"].items()}
    return {**_outlined_part(args), "using": using}


def _outlined_part(part: dict[str, Any]) -> dict[str, Any]:
    return {**part, "http": outlined(part["http"])} if "http" in part else part


def _later(value: object) -> object:
    """Arguments in which what refers to earlier steps is known later, and shown as a reference."""
    if isinstance(value, list):
        return [_later(part) for part in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    parts = cast("dict[str, object]", value)
    pieces = cast("list[object]", parts.get("join")) if isinstance(parts.get("join"), list) else None
    if pieces is None:
        return {name: _later(part) for name, part in parts.items()}
    named = [cast("dict[str, str]", piece)["of"] if isinstance(piece, dict) else "" for piece in pieces]
    text = "".join(f"{{{{{name}}}}}" if name else str(piece) for name, piece in zip(named, pieces, strict=True))
    return Later(text) if any(name.startswith("steps.") for name in named) else text


def _label(step: str) -> str:
    """A step's name in the journal: its id, unless that looks like the number of a place."""
    return f"#{step}" if step.isdigit() else step


def version_of(text: str) -> int:
    """The version of a text: the first half of a word of its digest."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:_DIGITS], 16)


def _refuse_collision(name: str, version: int, text: str) -> None:
    if f"{name}/{version}" in PROCESS.definition_names():
        known = PROCESS.definition(name, version)
        if not isinstance(known, FileSaga) or known.text != text:
            raise DeclarationError(f"saga {name} version {version} is known already, with another text; rename one")


def load_saga(path: str | PathLike[str], *, show: ShowOf | None = None) -> FileSaga:
    """Read a saga from a file. Raises SagaFileError, which says what is wrong in which lines; nothing is run."""
    name = str(path)
    text = read_file(path, Mistakes(name, SagaFileError))
    return parse_saga(text, name=name, directory=str(Path(path).absolute().parent), show=show)


def parse_saga(text: str | bytes, *, name: str, directory: str, show: ShowOf | None = None) -> FileSaga:
    """Read a saga from a text; `name` stands for the file in errors, and commands run in `directory`."""
    mistakes = Mistakes(name, SagaFileError)
    source = decoded(text, mistakes)
    written = read_saga(read_document(source, mistakes), mistakes)
    return FileSaga(written, file=name, text=source, directory=directory, show=show)


# -- what a journal remembers -----------------------------------------------------------------------------------------


async def remember(
    journal: Journal, *, registry: Registry = PROCESS, saga: str | None = None, show: ShowOf | None = None
) -> int:
    """Make known again what the unfinished sagas of a journal, or this one, were made from; how many became known."""
    found = 0
    if saga is not None:
        row = await journal.saga(SagaId(saga))
        return 0 if row is None else await _remember(journal, registry, row.id, row.definition, row.version, show)
    cursor: str | None = None
    while True:
        page = await journal.sagas(SagaQuery(statuses=_OPEN, before=cursor, limit=_PAGE))
        for row in page.rows:
            found += await _remember(journal, registry, row.id, row.definition, row.version, show)
        cursor = page.cursor
        if cursor is None:
            return found


async def _remember(
    journal: Journal, registry: Registry, saga: SagaId, definition: str, version: int, show: ShowOf | None
) -> int:
    if f"{definition}/{version}" in registry.definition_names():
        return 0
    async for entry in journal.read(saga):
        begun = entry.event
        file = begun.input.get(FILE) if isinstance(begun, SagaStarted) and isinstance(begun.input, dict) else None
        if not isinstance(file, dict):
            return 0
        text, name, directory = (str(file.get(key, "")) for key in ("text", "name", "directory"))
        made = parse_saga(text, name=name, directory=directory, show=show)
        if registry is not PROCESS:
            registry.add_definition(made)
            for action in made.actions.values():
                registry.add_action(cast("Any", action))
        return 1
    return 0
