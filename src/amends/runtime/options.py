"""What a definition asks of the runtime beside its body: keywords of `@saga` and `SagaDefinition`, in one place.

A new keyword is one line in `OptionNames`, for the checkers, and one in `Options`, whose default changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TypedDict

from amends.dataclass import dataclass
from amends.runtime.assertions import Check
from amends.runtime.limits import Limits


class OptionNames(TypedDict, total=False):
    """The keywords, as a caller may write them."""

    verify: Sequence[Check | Callable[..., object]]
    files: Sequence[str | os.PathLike[str]]
    lands: str | None
    resources: Sequence[str]
    limits: Limits | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The same, whole.

    verify: what has to hold before a saga counts as complete; see `check`.
    files: the trees that it works on, as with `s.files`. lands: land them at its end, with this message.
    resources: what a saga keeps to itself from its first step to its end, as templates over its input.
    limits: what a saga may use up, and what happens then.
    """

    verify: Sequence[Check | Callable[..., object]] = ()
    files: Sequence[str | os.PathLike[str]] = ()
    lands: str | None = None
    resources: Sequence[str] = ()
    limits: Limits | None = None
