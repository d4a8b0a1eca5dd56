"""Keys of calls, by which sagas are found: which entries have one, and how many entries are gone through at a time."""

from __future__ import annotations

from typing import Final

KEYED: Final = ("action.dispatched/1", "attempt.started/1", "compensation.started/1", "mitigation.started/1")
"""The entries that say the key of a call that is about to be made."""
CHUNK: Final = 5_000
"""So many entries are gone through in one transaction: others wait no longer than for a large append."""
