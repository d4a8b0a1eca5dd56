"""Which part of the tests a run plays: what `make test` samples, the rest that `make test-all` plays, or all of it.

A test that is marked `rest` is left to `make test-all`. Nothing is skipped: what belongs to the other part is not
collected, and both parts together are all that there is, nothing of it twice (tests/test_parts.py).
"""

import os
import zlib
from collections.abc import Iterable
from typing import Any, Final

import pytest

PARTS: Final = ("sample", "rest", "all")
PART: Final = os.environ.get("AMENDS_TESTS", "sample")
"""`make test`: sample; `make test-all`: rest; `make soak` and `make coverage`: all."""

rest = pytest.mark.rest


def number_of(*name: str) -> int:
    """A number that depends on a name and nothing else: the same on every machine and in every run."""
    return zlib.crc32("/".join(name).encode())


def only_sampled(*name: str, each: int) -> tuple[pytest.MarkDecorator, ...]:
    """The marks of a case: none for one in so many, which `make test` plays; the others are left to the rest."""
    return () if number_of(*name) % each == 0 else (rest,)


def sampled(cases: Iterable[Any], *, each: int) -> list[Any]:
    """Cases for `parametrize`: the first and then one in so many for `make test`, the others for the rest.

    A tuple is the values of several parameters.
    """

    def left_to_the_rest(case: Any) -> Any:
        values: Iterable[Any] = case if _is_several(case) else (case,)
        return pytest.param(*values, marks=rest)

    return [case if number % each == 0 else left_to_the_rest(case) for number, case in enumerate(cases)]


def _is_several(case: object) -> bool:
    return isinstance(case, tuple)


def is_played(*, in_rest: bool, part: str = PART) -> bool:
    """Whether this run plays what belongs to the rest, or does not."""
    return part == "all" or in_rest == (part == "rest")
