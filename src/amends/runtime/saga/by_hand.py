"""Sagas by which a person lands a changeset that another saga has left, or resolves a conflict of it.

What they may do, and how each begins, is said in `files.by_hand`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from amends.changeset import Terms
from amends.runtime.declare.definition import SagaDefinition
from amends.runtime.files.given import SagaFiles
from amends.runtime.files.resolving import resolve
from amends.runtime.files.topics import BY_HAND_VERSION, LAND, RESOLVE
from amends.runtime.files.work import land_whole
from amends.runtime.saga.work import Work, saga


@saga(LAND, version=BY_HAND_VERSION)
async def land_changeset(
    s: Work,
    roots: list[str],
    state: str | None,
    message: str,
    verify: list[str],
    verify_s: float | None,
    wait_s: float | None,
) -> dict[str, Any]:
    """Land what another saga has left in its changeset."""
    files = SagaFiles(tuple(roots), Terms(), state)
    return await land_whole(s, files, message, verify=verify, verify_s=verify_s, wait_s=wait_s, on_conflict="return")


@saga(RESOLVE, version=BY_HAND_VERSION)
async def resolve_changeset(
    s: Work, roots: list[str], state: str | None, path: str, take: str, draft: str
) -> dict[str, Any]:
    """Resolve a conflict of what another saga has left in its changeset."""
    files = SagaFiles(tuple(roots), Terms(), state)
    named = {"files": files, "path": path, "take": take, "draft": draft}
    return cast("dict[str, Any]", await s.do_named(resolve, named))


DEFINITIONS: Final[Mapping[str, SagaDefinition]] = {each.name: each for each in (land_changeset, resolve_changeset)}
