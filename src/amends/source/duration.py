"""Spans of time as people write them: `30s`, `15m`, `1h`, `2d`."""

from __future__ import annotations

import re
from typing import Final

DAY_S: Final = 86_400.0
_LONGEST_S: Final = 366 * DAY_S
_DURATION: Final = re.compile(r"([1-9][0-9]{0,8})([smhd])")
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": DAY_S}


def duration_s(text: str) -> float | None:
    """The seconds of `30s`, `15m`, `1h` or `2d`; None where it is not one, or is longer than a year."""
    found = _DURATION.fullmatch(text)
    seconds = int(found[1]) * _UNITS[found[2]] if found else 0.0
    return seconds if 0 < seconds <= _LONGEST_S else None
