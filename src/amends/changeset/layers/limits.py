"""Whether a step kept within its limits: a list of sentences, one for each that it did not keep."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence

from amends.changeset.layers.delta import Change
from amends.changeset.layers.stack import Stack, leads_out
from amends.changeset.model.model import Limits, PathKind, PathState, Totals
from amends.changeset.model.paths import DEEPEST, LONGEST_PATH, Patterns, folded, join, name, parent, spell
from amends.changeset.store.hidden import HiddenPaths
from amends.errors import LimitError, PathError

_SHOWN = 5
_START = 40


def require_shallow(folder: bytes) -> None:
    """Raise LimitError where folders lie deeper in each other than any tree needs, or deeper than a path can name."""
    left = [(folder, 0)]
    while left:
        path, level = left.pop()
        if level > DEEPEST or len(path) > LONGEST_PATH:
            raise too_deep(path[len(folder) + 1 :])
        try:
            with os.scandir(path) as inside:
                folders = [each.path for each in inside if each.is_dir(follow_symlinks=False)]
        except PermissionError:  # whoever seals it will say so
            continue
        left += [(each, level + 1) for each in folders]


def too_deep(path: bytes) -> LimitError:
    said = f"{spell(path[:_START])}... lies more than {DEEPEST} folders deep, or its path is too long; make fewer"
    return LimitError(f"the step cannot be sealed: {said}", broken=(said,))


def kinds_broken(
    changes: Sequence[Change], view: Stack, limits: Limits, hidden: HiddenPaths, *, is_case_blind: bool = False
) -> Iterator[str]:
    """Kinds that no step may leave behind, whatever its numbers: files of amends, devices, others' powers, ways out."""
    denied = Patterns(limits.denied, is_case_blind=is_case_blind)
    for change in changes:
        if (ours := hidden.why_not(change.path, is_folder=_is_folder(change.after))) is not None:
            yield ours
        if change.is_ephemeral:
            continue
        path, after = spell(change.path), change.after
        if (pattern := denied.covering(change.path)) is not None:
            yield f"{path} is changed, and {pattern} is denied"
        if after is None:
            continue
        if after.kind is PathKind.OTHER:
            yield f"{path} is a pipe, a socket or a device; only files, folders and links can land"
        elif broken := power_broken(change.path, change.before, after, view):
            yield broken
        elif after.kind is PathKind.LINK and not limits.links_out and _is_way_out(change.path, after.target, view):
            yield f"{path} is a link to {spell(after.target)}, out of the tree"


def power_broken(
    path: bytes, before: PathState | None, after: PathState | None, view: Stack | None = None
) -> str | None:
    """Of setuid, setgid and sticky bits: none is new, and none stands over new content. None: it is well.

    A folder has its setgid bit from the one that it was made in, as anywhere; `view` knows that one.
    """
    if after is None or after.kind not in {PathKind.FILE, PathKind.FOLDER}:
        return None
    given = _special(after) & ~_special(before)
    if after.kind is PathKind.FOLDER and view is not None:
        above = view.find(parent(path))
        given &= ~(0 if above is None else above.mode & stat.S_ISGID)
    if given and (after.kind is PathKind.FILE or view is not None):
        return f"{spell(path)} is setuid, setgid or sticky (mode {after.mode:o}); chmod it"
    if after.kind is PathKind.FILE and _special(after) and (before is None or before.digest != after.digest):
        return (
            f"{spell(path)} is setuid, setgid or sticky (mode {after.mode:o}), and its content is changed; "
            f"chmod it to {after.mode & 0o777:o}, and have a person give it back what it needs once it has landed"
        )
    return None


def _is_folder(state: PathState | None) -> bool:
    return state is not None and state.kind is PathKind.FOLDER


def _special(state: PathState | None) -> int:
    return 0 if state is None else state.mode & (stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX)


def _is_way_out(path: bytes, target: bytes, view: Stack) -> bool:
    """By its own words, or by those of another link on its way."""
    if leads_out(path, target, view.root):
        return True
    try:
        view.resolve(path)
    except PathError:
        return True
    except OSError:  # it leads nowhere but round and round
        return False
    return False


def collisions(changes: Sequence[Change], view: Stack) -> Iterator[str]:
    """New names that are one name where case or the composition of letters does not count."""
    folders = {parent(change.path) for change in changes if change.after is not None and change.before is None}
    for folder in sorted(folders):
        found = view.find(folder)
        if found is None or not found.is_folder:
            continue
        names = list(view.names(found))
        counted = Counter(map(folded, names))
        alike = [each for each in names if counted[folded(each)] > 1]
        new = {name(change.path) for change in changes if parent(change.path) == folder and change.before is None}
        if new.intersection(alike):
            yield f"names that differ by case or composition alone: {', '.join(spell(join(folder, n)) for n in alike)}"


def numbers_broken(totals: Totals, limits: Limits) -> Iterator[str]:
    """The whole changeset's numbers, with the layer that is about to be sealed."""
    if limits.files is not None and totals.files > limits.files:
        yield f"{totals.files} files are changed, and {limits.files} may be"
    lines = totals.added_lines + totals.removed_lines
    if limits.lines is not None and lines > limits.lines:
        yield f"{lines} lines are changed, and {limits.lines} may be"
    if limits.bytes is not None and totals.bytes > limits.bytes:
        yield f"{totals.bytes} bytes are written, and {limits.bytes} may be"


def said(broken: Sequence[str]) -> str:
    more = f"; and {len(broken) - _SHOWN} more" if len(broken) > _SHOWN else ""
    return "; ".join(broken[:_SHOWN]) + more
