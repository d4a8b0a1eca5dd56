"""Resolving conflicts as steps: both sides shown with marks, and one of them, or what was made of both, taken.

Both are layers like any other step's: judged, on record, and dropped when they are taken back. A saga whose landing
asks people (`on_conflict="ask"`) waits for a signal for each conflict: what the person has decided is its payload, and
who they are is on record with it. A decision that cannot be carried out is a step that failed: it waits on.
"""

from __future__ import annotations

from amends.changeset import Files
from amends.changeset.model.paths import spell
from amends.core.state.saga import Saga
from amends.core.words.values import RESOLVE as SIGNAL, Json
from amends.runtime.declare.decorators import action
from amends.runtime.files.errors import certain
from amends.runtime.files.given import place_in
from amends.runtime.files.sharing import fit
from amends.runtime.files.topics import MARK, RESOLVE


@action(MARK, idempotent=True, timeout=None)
def mark(files: Files) -> list[Json]:
    """Show both sides of each conflict in the view, with marks."""
    return [each.data() for each in files.mark_conflicts()]


@action(RESOLVE, idempotent=True, timeout=None)
def resolve(files: Files, path: str, take: str, draft: str | None = None) -> dict[str, Json]:
    """Resolve one conflict. `draft`: a person has decided, who has seen drafts, and means the one with this digest."""
    with certain():
        files.resolve(path, take, draft=draft)
    return {"path": path, "take": take, "left": [spell(each.path) for each in files.conflicts()]}


def signal_of(changeset: str) -> str:
    """The name of the signal by which people resolve the conflicts of a changeset, one by one."""
    return f"{SIGNAL}{changeset}"


def decides(changeset: str) -> str:
    """Words for what a person does by such a signal."""
    return f"resolve a conflict of changeset {changeset}"


def decided_by(name: str, saga: Saga) -> str:
    """Words for a person's decision by a signal of this name to this saga; empty where it resolves no conflict of its.

    It may be sent before a step has named the changeset: then its name says whose it will be.
    """
    changeset = name.removeprefix(SIGNAL)
    places = (place_in(step.args) for step in saga.steps.values())
    is_its = changeset.startswith(fit(saga.id)) or any(one is not None and one.changeset == changeset for one in places)
    return decides(changeset) if changeset != name and is_its else ""


def decision(path: str, take: str, draft: str) -> dict[str, Json]:
    return {"path": path, "take": take, "draft": draft}
