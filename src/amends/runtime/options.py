"""What a definition asks of the runtime beside its body: keywords of `@saga` and `SagaDefinition`, in one place.

A new keyword is one line in `OptionNames`, for the checkers, and one in `Options`, whose default changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypedDict

from amends.core.commands import StartSaga
from amends.dataclass import dataclass
from amends.errors import DeclarationError, InputError
from amends.runtime.assertions import Check
from amends.runtime.limits import Limits
from amends.runtime.settings import Settings, positive, times
from amends.source.words import nearest

if TYPE_CHECKING:
    from amends.runtime.files.sharing import ChildFiles


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The same, whole.

    verify: what has to hold before a saga counts as complete; see `check`.
    files: the trees that it works on, as with `s.files`. lands: land them at its end, with this message.
    resources: what a saga keeps to itself from its first step to its end, as templates over its input.
    limits: what a saga may use up, and what happens then.
    rollback_s: the window of its rollbacks. attempts, compensation_attempts: how often one step, or one compensation,
    is tried at most, whatever its action says. Where one is None, the settings say it.
    lease_s: the lease of a process that is there for this saga alone: `amends run`, and `amends.run` without settings.
    options: how whoever runs it gives the options, such as its id: "beside" its input, by keyword; "apart" from it, in
    `options=`, where a parameter of its own is called as one of them.
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

    def require_bounds(self, whose: str) -> None:
        """Raises DeclarationError for a bound that nothing could keep to."""
        for name in ("rollback_s", "lease_s"):
            positive(whose, name, getattr(self, name))
        for name in ("attempts", "compensation_attempts"):
            times(whose, name, getattr(self, name))


class Bounds(NamedTuple):
    """The bounds of one saga, as whoever starts it asks for them; None: as its definition says."""

    rollback_s: float | None = None
    attempts: int | None = None
    compensation_attempts: int | None = None


_UNASKED: Final = Bounds()


def bounded(start: StartSaga, options: Options, settings: Settings, asked: Bounds | None = None) -> StartSaga:
    """A start with its saga's bounds: asked for, else the definition's, else of the settings.

    The window of the settings is not the saga's own: it is that of whoever takes the saga back.
    """
    asked = asked or _UNASKED
    attempts = (asked.attempts, options.attempts, settings.attempts)
    back = (asked.compensation_attempts, options.compensation_attempts, settings.compensation_attempts)
    return start._replace(
        rollback_s=options.rollback_s if asked.rollback_s is None else asked.rollback_s,
        attempts=next((each for each in attempts if each is not None), None),
        compensation_attempts=next((each for each in back if each is not None), None),
    )


# -- options of whoever runs a saga, beside the saga's own input -------------------------------------------------------


class StartOptions(TypedDict, total=False):
    """What `coordinator.run` and `coordinator.start` take beside the saga's input."""

    id: str | None
    actor: str | None
    labels: Mapping[str, str] | None
    limits: Limits | None


class CallOptions(TypedDict, total=False):
    """What `s.call` and `child` take beside the saga's input; `restarts` is of `s.call` alone."""

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
