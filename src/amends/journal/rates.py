"""How many uses are too many: the arithmetic of a rate, the same for every store."""

from __future__ import annotations

import math
from collections.abc import Sequence

from amends.errors import InputError
from amends.journal.refusals import check_name


def check(key: str, most: int, per_s: float) -> int:
    """The rate's span in milliseconds. Raises InputError for what is no rate."""
    check_name(key, "a rate")
    if most < 1 or not 0 < per_s < math.inf:
        raise InputError(f"at most {most} in {per_s:g} s is no rate; both have to be more than nothing")
    return max(1, round(per_s * 1000))


def wait_ms(uses: Sequence[int], most: int, span: int, now: int) -> int:
    """How long until fewer than `most` of these uses, oldest first, are within the span; 0 where that is so now."""
    return 0 if len(uses) < most else max(1, uses[len(uses) - most] + span - now)
