"""Options of a definition beside its body: keywords of `@saga` and `SagaDefinition`, in one place.

A new keyword is one line in `OptionNames`, for the checkers, and one in `Options`, whose default changes nothing.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, Literal, TypeAlias, TypedDict, get_args

from amends.dataclass import dataclass
from amends.errors import DeclarationError, InputError
from amends.runtime.declare.checks import Check
from amends.runtime.declare.limits import Limits
from amends.source.marked import nearest

ChildFiles: TypeAlias = Literal["own", "share", "branch"]
"""Which files a child works on: its own, its parent's, or a branch of these."""
OnCrash: TypeAlias = Literal["resume", "rollback"]
"""What becomes of a saga whose process was killed."""
ON_CRASH: Final[tuple[str, ...]] = get_args(OnCrash)
MOST_ATTEMPTS: Final = 1_000_000


class OptionNames(TypedDict, total=False):
    """The keywords, as a caller may write them."""

    verify: Sequence[Check | Callable[..., object]]
    files: Sequence[str | os.PathLike[str]]
    lands: str | None
    resources: Sequence[str]
    limits: Limits | None
    rollback_s: float | None
    attempts: int | None
    compensation_attempts: int | None
    lease_s: float | None
    options: Literal["beside", "apart"]
    on_crash: OnCrash


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Keywords of a definition, whole.

    verify: what has to hold before a saga counts as complete; see `check`.
    files: the trees that it works on, as with `s.files`. lands: land them at its end, with this message.
    resources: what a saga keeps to itself from its first step to its end, as templates over its input.
    limits: what a saga may use up, and what happens then.
    rollback_s: the window of its rollbacks. attempts, compensation_attempts: how often one step, or one compensation,
    is tried at most, whatever its action says. Where one is None, the settings say it.
    lease_s: the lease of a process that is there for this saga alone: `amends run`, and `amends.run` without settings.
    options: how whoever runs it gives the options, such as its id: "beside" its input, by keyword; "apart" from it, in
    `options=`, where a parameter of its own is called as one of them.
    on_crash: "rollback" takes it back where its process was killed in the middle of an attempt, or where the function,
    called again, asks for something else; with "resume" it is gone on with.
    """

    verify: Sequence[Check | Callable[..., object]] = ()
    files: Sequence[str | os.PathLike[str]] = ()
    lands: str | None = None
    resources: Sequence[str] = ()
    limits: Limits | None = None
    rollback_s: float | None = None
    attempts: int | None = None
    compensation_attempts: int | None = None
    lease_s: float | None = None
    options: Literal["beside", "apart"] = "beside"
    on_crash: OnCrash = "resume"

    def require_bounds(self, whose: str) -> None:
        """Raises DeclarationError for a bound that nothing could keep to."""
        for name in ("rollback_s", "lease_s"):
            positive(whose, name, getattr(self, name))
        for name in ("attempts", "compensation_attempts"):
            times(whose, name, getattr(self, name))
        if self.on_crash not in ON_CRASH:
            raise DeclarationError(f"{whose}: on_crash={self.on_crash!r} has to be {' or '.join(map(repr, ON_CRASH))}")


def positive(whose: str, name: str, seconds: object) -> None:
    """Raises DeclarationError for what is no time in seconds."""
    if seconds is None:
        return
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise DeclarationError(f"{whose}: {name}={seconds!r} is not a number of seconds; write one, such as 30")
    if not 0 < seconds < math.inf:
        raise DeclarationError(f"{whose}: {name}={seconds} has to be more than 0, and not for ever; write 30 or 900")


def times(whose: str, name: str, most: object) -> None:
    """Raises DeclarationError for what is no number of attempts."""
    if most is None:
        return
    if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= MOST_ATTEMPTS:
        raise DeclarationError(f"{whose}: {name}={most!r} has to be a whole number from 1 to {MOST_ATTEMPTS}")


# -- options of whoever runs a saga, beside the saga's own input -------------------------------------------------------


class StartOptions(TypedDict, total=False):
    """Options of `coordinator.run` and `coordinator.start` beside the saga's input."""

    id: str | None
    actor: str | None
    labels: Mapping[str, str] | None
    limits: Limits | None


class CallOptions(TypedDict, total=False):
    """Options of `s.call` and `child` beside the saga's input; `restarts` is of `s.call` alone."""

    actor: str | None
    restarts: int
    files: ChildFiles
    timeout: float | timedelta | None


START_OPTIONS: Final = ("id", "actor", "labels", "limits")
RUN_OPTIONS: Final = (
    "journal",
    "policy",
    "env",
    "environments",
    "registry",
    "settings",
    "notify",
    "signals",
    "clock",
    "evidence_key",
    "journal_group",
    "wait",
    *START_OPTIONS,
)
APART: Final = "options"


def require_names(saga: str, names: Collection[str], declared: str) -> None:
    """Raises DeclarationError for a parameter that is called as an option of whoever runs the saga."""
    if declared not in {"beside", "apart"}:
        raise DeclarationError(f"saga {saga}: options={declared!r} must be 'beside' or 'apart'")
    if APART in names:
        raise DeclarationError(
            f"saga {saga}: no parameter can be called {APART}, by which options are given; rename it"
        )
    taken = [name for name in names if name in RUN_OPTIONS]
    if taken and declared == "beside":
        raise DeclarationError(
            f"saga {saga}: its parameter {taken[0]} is called as an option of amends.run; rename it, or, to have both, "
            f'declare @saga({saga!r}, options="apart"): then {taken[0]}= is the saga\'s own, and the option is '
            f"given as options={{{taken[0]!r}: …}}"
        )


def parted(
    saga: str,
    own: Collection[str],
    declared: str,
    known: Collection[str],
    keywords: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options among the keywords of a call, with those that are given apart; and the keywords of the saga's own.

    Raises InputError for an option that there is not, that is given twice, or that could be meant for the saga.
    """
    options: Mapping[str, Any] | None = keywords.get(APART)
    asked = dict(options or {})
    for name in asked:
        if name not in known:
            right = nearest(name, known)
            raise InputError(
                f"options has no {name!r}; " + (f"did you mean {right}?" if right else f"it takes {', '.join(known)}")
            )
    given: dict[str, Any] = {}
    for name, value in keywords.items():
        if name == APART:
            continue
        if name not in known or (name in own and (declared == "apart" or options is not None)):
            given[name] = value
        elif name in own:
            raise InputError(
                f"saga {saga} takes {name}, which is also an option here; give the option, or none, in options={{…}}: "
                f"then {name}= is the saga's own"
            )
        elif name in asked:
            raise InputError(f"the option {name} is given twice: beside the input, and in options=")
        else:
            asked[name] = value
    return asked, given
