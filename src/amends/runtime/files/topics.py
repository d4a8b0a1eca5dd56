"""Topics of the built-in actions on changesets, and names of the definitions by which a person acts on them.

They are on record, and known to every engine: nothing of changesets is imported for them.
"""

from __future__ import annotations

from typing import Final

LAND: Final = "amends.changeset.land"
REVIEW: Final = "amends.changeset.review"
MARK: Final = "amends.changeset.mark"
RESOLVE: Final = "amends.changeset.resolve"
MERGE: Final = "amends.changeset.merge"
UNMERGE: Final = "amends.changeset.unmerge"
RECOVERY: Final = "amends.recovery"
BY_HAND_VERSION: Final = 1
BY_HAND: Final = frozenset({LAND, RESOLVE})
"""Definitions by which a person lands, or resolves conflicts of, a changeset that a saga has left."""
