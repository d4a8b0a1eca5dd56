"""The part of the port that keeps rates, and how many uses are too many: the arithmetic, the same for every store."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from amends.core.words.verdict import Rate
from amends.errors import InputError
from amends.journal.port.refusals import check_name


class Rates(Protocol):
    """How often something may be done, counted for all programs on the journal."""

    async def admit(self, *rates: Rate) -> tuple[int, ...]:
        """Count a use in each of these rates, for all programs on this journal: 0 for each, where every one of them
        has had fewer than `most` in `per_s` seconds.

        Else nothing is counted in any of them: of each, in how many milliseconds it may be worth asking again.
        """
        ...


def span_of(rate: Rate) -> int:
    """The rate's span in milliseconds. Raises InputError for what is no rate."""
    check_name(rate.key, "a rate")
    if rate.most < 1 or not 0 < rate.per_s < math.inf:
        raise InputError(f"at most {rate.most} in {rate.per_s:g} s is no rate; both have to be more than nothing")
    return max(1, round(rate.per_s * 1000))


def wait_ms(uses: Sequence[int], most: int, span: int, now: int) -> int:
    """How long until fewer than `most` of these uses, oldest first, are within the span; 0 where that is so now."""
    return 0 if len(uses) < most else max(1, uses[len(uses) - most] + span - now)
