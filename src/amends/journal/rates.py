"""How many uses are too many: the arithmetic of a rate, the same for every store."""

from __future__ import annotations

import math
from collections.abc import Sequence

from amends.core.verdict import Rate
from amends.errors import InputError
from amends.journal.refusals import check_name


def span_of(rate: Rate) -> int:
    """The rate's span in milliseconds. Raises InputError for what is no rate."""
    check_name(rate.key, "a rate")
    if rate.most < 1 or not 0 < rate.per_s < math.inf:
        raise InputError(f"at most {rate.most} in {rate.per_s:g} s is no rate; both have to be more than nothing")
    return max(1, round(rate.per_s * 1000))


def wait_ms(uses: Sequence[int], most: int, span: int, now: int) -> int:
    """How long until fewer than `most` of these uses, oldest first, are within the span; 0 where that is so now."""
    return 0 if len(uses) < most else max(1, uses[len(uses) - most] + span - now)
