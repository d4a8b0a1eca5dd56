"""Where does an argument come from? Looked up by value, among what stands on record: input, results, people. Pure.

A value is sourced where the same value (as canonical JSON) stands in the saga's input, in the result of an earlier
step, or in what a person sent. Where it has to come from a certain action, the results of the sagas above count too: a
child is handed what its parent's actions gave. Values that turn up everywhere by accident (nothing, true, small
numbers, very short texts) count only where they stand under the argument's own name. What matches by coincidence all
the same is not told apart: this says that a value was not made up, not why it was chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from amends.core.transitions import StepStatus
from amends.core.words.values import PERSON, Json, canonical
from amends.dataclass import dataclass

if TYPE_CHECKING:
    from amends.core.state.saga import Saga

CODE: Final = "code"
_SMALL: Final = 1000
_SHORT: Final = 3


@dataclass(frozen=True, slots=True)
class Origin:
    """`kind` is input, result, person or code; `where` says which one, for people; `topic` is a result's action."""

    kind: str
    where: str
    topic: str = ""


NOWHERE: Final = Origin(CODE, "the saga's own function")


class Sources:
    """Origins that values may have, added as it happens. The newest of the same value counts."""

    def __init__(self) -> None:
        self._by_value: dict[str, list[Origin]] = {}
        self._by_name: dict[tuple[str, str], list[Origin]] = {}

    def add_input(self, value: Json, actor: str) -> None:
        kind = "person" if actor.startswith(PERSON) else "input"
        self._add(value, kind, f"{actor}, input" if kind == "person" else "input")

    def add_result(self, value: Json, step: str, topic: str) -> None:
        self._add(value, "result", f"step {step} ({topic}) result", topic)

    def add_signal(self, value: Json, name: str, by: str) -> None:
        kind = "person" if by.startswith(PERSON) else "signal"
        self._add(value, kind, f"{by}, signal {name}")

    def _add(self, value: Json, kind: str, where: str, topic: str = "") -> None:
        for path, name, part in _parts(value):
            text = canonical(part, what="a source")
            origin = Origin(kind, where + path, topic)
            self._by_name.setdefault((text, name), []).append(origin)
            if not _is_common(part):
                self._by_value.setdefault(text, []).append(origin)

    def origin(self, name: str, value: Json, topics: tuple[str, ...] = ()) -> Origin:
        """Where this argument comes from. `topics`: only from the results of these actions."""
        text = canonical(value, what=name)
        found = [*self._by_value.get(text, ()), *self._by_name.get((text, name), ())]
        fitting: list[Origin] = [one for one in found if not topics or one.topic in topics]
        if fitting:
            return fitting[-1]
        if not _is_nested(value):
            return NOWHERE
        leaves = [(inner or name, part) for _, inner, part in _parts(value) if not _is_nested(part)]
        parts = [self.origin(inner, part, topics) for inner, part in leaves]
        if any(one.kind == CODE for one in parts):
            return NOWHERE
        where = "; ".join(dict.fromkeys(one.where for one in parts))
        return Origin(parts[0].kind, f"its parts: {where}", parts[0].topic)

    def told(self, name: str, value: Json) -> str:
        """Where a value that is refused does come from: another source than the right one, or none at all."""
        found = self.origin(name, value)
        if found.kind != CODE:
            return _came_from(found)
        text = canonical(value, what=name)
        elsewhere = [one for (same, _), origins in self._by_name.items() if same == text for one in origins]
        if elsewhere:
            return (
                f"is so common that it counts only under its own name: it stands in {elsewhere[-1].where}, and "
                f"nowhere as {name}"
            )
        return (
            "stands nowhere on record, in no input, no result and nothing that a person sent: the function made it up"
        )


def _came_from(origin: Origin) -> str:
    """A source that does not count, as it is told: which of input, result or person it is, and where in it."""
    what = {"input": "the input", "result": "the result of a step", "signal": "a signal"}.get(origin.kind, "a person")
    return f"comes from {what} ({origin.where})"


def sources_of(saga: Saga, above: Iterable[Saga] = ()) -> Sources:
    """All that stands on record by now; of the sagas above, which called this one, what their actions gave."""
    found = Sources()
    for each in above:
        for step in each.steps.values():
            if step.status is StepStatus.SUCCEEDED and step.result is not None:
                found.add_result(step.result, f"{step.id} of saga {each.id}", step.topic)
    if saga.begun is not None:
        found.add_input(saga.begun.input, saga.begun.actor)
    for step in saga.steps.values():
        if step.status is StepStatus.SUCCEEDED and step.result is not None:
            found.add_result(step.result, step.id, step.topic)
    for signal in saga.waits.signals.values() if saga.waits is not None else ():
        found.add_signal(signal.payload, signal.name, signal.by)
    return found


def unsourced(saga: Saga, args: Json, required: Mapping[str, tuple[str, ...]], above: Iterable[Saga] = ()) -> str:
    """Why a step may not begin: an argument that has to have a source has none. Empty where all have one."""
    known = sources_of(saga, above)
    for name, topics in required.items():
        value = args.get(name) if isinstance(args, dict) else None
        if known.origin(name, value, topics).kind == CODE:
            allowed = f"from the result of {' or '.join(topics)}" if topics else "from a result, the input or a person"
            return f"{name} has to come {allowed}, and this value {known.told(name, value)}"
    return ""


def _parts(value: Json, path: str = "", name: str = "") -> Iterator[tuple[str, str, Json]]:
    """A value and everything inside it, each with its path and the name it stands under."""
    yield path, name, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _parts(inner, f"{path}.{key}", key)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _parts(inner, f"{path}[{number}]", name)


def _is_nested(value: Json) -> bool:
    return isinstance(value, (dict, list)) and bool(value)


def _is_common(value: Json) -> bool:
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, (int, float)):
        return abs(value) < _SMALL
    return len(value) < _SHORT if isinstance(value, str) else not value
