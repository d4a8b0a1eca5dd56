"""Done is not complete: the assertions of `verify=`, which have to hold before a saga counts as complete.

Each is a read-only step after the definition's last: judged, journaled before it is asked and after it was answered,
and answered from the journal when a process was killed in between. What differs from other steps is how it fails: an
assertion that does not hold, raises, or gives no answer in time has failed, and is not tried again by itself.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias, cast

from amends.core.words.contracts import FORWARD, Contract, Reversibility
from amends.dataclass import dataclass
from amends.errors import DeclarationError
from amends.runtime.declare.action import Action, checked_topic
from amends.runtime.declare.parts import RESULT
from amends.runtime.values.signature import Typed

PREFIX: Final = "amends.verify."
DEFAULT_S: Final = 30.0
OnFailed: TypeAlias = Literal["rollback", "call"]
_NO_TOPIC: Final = re.compile(r"[^a-z0-9_.-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Check:
    """One assertion: `check(function)` makes it. `action` is the read-only step that asks it."""

    name: str
    action: Action[..., Any]
    on_failed: OnFailed

    def args(self, named: Mapping[str, object], result: object) -> dict[str, object]:
        """Arguments that it asks for: the saga's result, and parts of its input, by name."""
        found = {**named, RESULT: result}
        return {name: found[name] for name in self.action.parts.signature.names if name in found}

    def lacks(self, saga: str, names: Iterable[str]) -> str:
        """Required parameters that the input does not have, in words; nothing where all is there."""
        lacking = sorted(set(self.action.parts.signature.required) - {*names, RESULT})
        if not lacking:
            return ""
        return (
            f"saga {saga}, assertion {self.name} asks for {', '.join(lacking)}, which is not in the input; "
            f"it may ask for {RESULT} and for {', '.join(sorted(names)) or 'nothing else'}"
        )


def check(
    assertion: Callable[..., object],
    *,
    timeout: float = DEFAULT_S,
    on_failed: OnFailed = "rollback",
    name: str | None = None,
) -> Check:
    """An assertion for `verify=`: a function, or a read-only action, that says whether the work is as it should be.

    It gets the saga's `result` and any part of the input by parameter name. It holds when it returns True or nothing;
    it fails when it returns False, raises, or takes longer than `timeout` seconds.
    on_failed: "rollback" takes the saga back; "call" stops it with an incident, for a person.
    """
    if not callable(assertion):
        raise DeclarationError(f"{assertion!r} is not an assertion: verify= takes functions and read-only actions")
    called = name or _name(assertion)
    if cast("str", on_failed) not in {"rollback", "call"}:
        raise DeclarationError(f"assertion {called}: on_failed={on_failed!r} must be 'rollback' or 'call'")
    if not timeout > 0:
        raise DeclarationError(f"assertion {called}: timeout={timeout} must be more than 0 seconds")
    return Check(called, _asking(assertion, called, float(timeout)), on_failed)


def checks(saga: str, verify: Sequence[Check | Callable[..., object]]) -> tuple[Check, ...]:
    """The assertions of a definition, as they were given."""
    found = tuple(one if isinstance(one, Check) else check(one) for one in verify)
    names = [one.name for one in found]
    for one in names:
        if names.count(one) > 1:
            raise DeclarationError(f"saga {saga} has two assertions called {one}; give one of them check(…, name=…)")
    return found


def _name(function: object) -> str:
    if isinstance(function, Action):
        return str(function.contract.topic)
    name = getattr(function, "__name__", type(function).__name__)
    if name == "<lambda>":
        raise DeclarationError("an assertion without a name cannot go on record; use check(…, name='paid-in-full')")
    return str(name)


def _asking(assertion: Callable[..., object], name: str, timeout_s: float) -> Action[..., Any]:
    if isinstance(assertion, Action):
        declared = cast("Action[..., Any]", assertion)
        if declared.contract.side_effect:
            raise DeclarationError(
                f"{declared.topic} changes something, and an assertion only looks: declare it read_only=True"
            )
        contract, function = replace(declared.contract, timeout_s=timeout_s), declared.parts.function
    else:
        topic = checked_topic(PREFIX + _NO_TOPIC.sub("-", name.lower()).strip("-"))
        contract = Contract(
            topic=topic,
            side_effect=False,
            reversibility=Reversibility.REVERSIBLE,
            timeout_s=timeout_s,
            retries=FORWARD,  # of which only an attempt that died with its process uses more than one
        )
        function = assertion
    made = Action(function, contract)
    made.parts.is_async = inspect.iscoroutinefunction(function)
    made.parts.is_assertion = True
    made.parts.typed, made.parts.check = (
        Typed(f"assertion {name}", function),
        None,
    )  # the work is done: what it says of itself counts
    return made
