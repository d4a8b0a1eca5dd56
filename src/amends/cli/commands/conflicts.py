"""Conflicts of a changeset at the command line: what is said of them, and how a person's decision is carried out."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from typing import Literal, NamedTuple, cast

from amends.bootstrap import Coordinator
from amends.changeset import Conflict, Life, conflicts_of, list_changesets, write_drafts
from amends.changeset.model.paths import spell, unspell
from amends.changeset.resolve import no_conflict, place_in_trees
from amends.cli import config
from amends.cli.session import Stands, drive, exit_code, standing, tell_ended
from amends.cli.show.hints import command
from amends.cli.show.output import Output
from amends.errors import ChangesetError, RefusedError
from amends.journal.port.journal import SagaRow
from amends.runtime.drive.logbook import load
from amends.runtime.files.by_hand import waits_for_people
from amends.runtime.files.resolving import decision, signal_of
from amends.text import visible


def conflicts_seen(root: str, changeset_id: str, state: str | None) -> tuple[Conflict, ...]:
    """Conflicts of a changeset; none where that cannot be seen: a tree of several is gone, a layer is damaged."""
    try:
        return conflicts_of(root, changeset_id, state=state)
    except (ChangesetError, OSError):
        return ()


def say_conflicts(out: Output, changeset_id: str, conflicts: Sequence[Conflict], root: str, state: str | None) -> None:
    """Say what is in conflict, where a person finds both sides, and how it is resolved."""
    drafts = dict(write_drafts(root, changeset_id, state=state)) if conflicts else {}
    for each in conflicts:
        path = spell(each.path)
        out.say(("conflict    ", "yellow"), f"{visible(path)}: {each.clash}")
        if path in drafts:
            out.say("            ", f"edit {visible(drafts[path])}")
    if conflicts:
        first = visible(shlex.quote(spell(conflicts[0].path)))
        out.say(f"resolve each: amends changeset resolve {first} --ours | --theirs | --merged")


class Resolution(NamedTuple):
    """A decision about a conflict, and whose."""

    changeset: str
    path: str
    take: str
    draft: str
    by: str


def tell_saga(out: Output, said: Resolution, owner: SagaRow, journal: str) -> bool:
    """Tell the saga that waits for it; False: it does not."""

    async def whole() -> bool:
        async with Coordinator.open(journal, settings=config.settings()) as coordinator:
            if not waits_for_people(owner, await load(coordinator.journal, owner.id), said.changeset):
                return False
            payload = decision(said.path, said.take, said.draft)
            await coordinator.signal(owner.id, signal_of(said.changeset), payload, by=said.by)
            return True

    if not asyncio.run(whole()):
        return False
    out.record("told", {"changeset": said.changeset, "path": said.path, "take": said.take, "saga": owner.id})
    out.say(f"told saga {visible(owner.id)}: {visible(said.path)}, {said.take}")
    out.say(f"  where nobody drives it: {visible(command(journal, 'resume'))}")
    return True


def in_conflict(path: str, root: str, state: str | None) -> str:
    """The changeset in which a path is in conflict. Raises PathError for none, and RefusedError for several."""
    met: dict[str, list[bytes]] = {}
    ids: list[str] = []
    for each in list_changesets(root, state=state):
        if each.life in {Life.ACTIVE, Life.REVIEW}:
            _, at = place_in_trees([unspell(one) for one in each.roots], path)
            met[each.id] = [one.path for one in conflicts_of(root, each.id, state=state)]
            ids += [each.id] if at in met[each.id] else []
    if not ids:
        raise no_conflict(unspell(path), sorted({one for found in met.values() for one in found}))
    if len(ids) > 1:
        raise RefusedError(
            f"{path} is in conflict in {len(ids)} changesets: name one with --changeset: {', '.join(ids)}"
        )
    return ids[0]


def say_resolved(out: Output, changeset_id: str, path: str, take: str, root: str, state: str | None) -> int:
    left = [spell(each.path) for each in conflicts_seen(root, changeset_id, state)]
    out.record("resolved", {"changeset": changeset_id, "path": path, "take": take, "left": left})
    out.say(f"resolved: {visible(path)}, {take}")
    out.say(
        f"  left in conflict: {', '.join(map(visible, left))}" if left else f"  amends changeset land {changeset_id}"
    )
    return 0


def resolve_in_its_name(out: Output, said: Resolution, *, root: str, state: str | None, journal: str) -> int:
    """By a saga of its own: 0 once it is done, else what it ended with."""

    async def whole() -> Stands:
        async with Coordinator.open(journal, settings=config.settings()) as coordinator:
            take = cast("Literal['ours', 'theirs', 'merged']", said.take)
            handle = await coordinator.resolve(
                root, said.changeset, said.path, take, by=said.by, draft=said.draft, state=state
            )
            return await standing(coordinator, await handle.halt())

    with out.kept_clean():
        ended, waits_for = drive(whole())
    if ended.result is not None:
        return 0
    tell_ended(out, ended, waits_for, journal=journal)
    return exit_code(ended)
