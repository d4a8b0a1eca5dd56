"""Which provider works here: each is tried on the real tree and the real state directory, and says why not.

A try costs some milliseconds, so a good answer is kept in the state directory until the machine boots anew. A bad one
is asked for again: somebody may have mended it.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from amends.changeset.disk import whiteouts
from amends.changeset.disk.disk import Disk
from amends.changeset.disk.read import content_at
from amends.changeset.layers.writing import shares_blocks
from amends.changeset.model import codec
from amends.changeset.model.paths import beneath, spell
from amends.changeset.store.home import Home, write_record
from amends.changeset.views.confining import Alone
from amends.changeset.views.overlay import ApiView, OverlayView
from amends.changeset.views.protocol import Budget, View, ViewGround
from amends.changeset.views.workspace import CopyView
from amends.clock import Clock
from amends.dataclass import dataclass
from amends.errors import ChangesetDamagedError, ViewError
from amends.process.running import Launch, run_to_end

PROVIDERS: Final = ("overlay", "clone", "copy", "api")
_PATIENCE_S: Final = 20.0
_FORM: Final = 2
_TOUCH: Final = "open('.amends-probe', 'w').close()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Whether a provider works for these trees, and why, or what stands in the way."""

    provider: str
    usable: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    namespaces: str
    """Empty: this machine lets us make them; else why not."""
    overlay: str
    confinement: str
    """Empty: a command can be confined; else why not."""


_known: Final[dict[tuple[int, int], Probed]] = {}
"""What this process has tried, by the file systems that a home and its tree are on."""


def doctor(homes: Sequence[Home], *, clock: Clock, disk: Disk, budget: Budget | None) -> tuple[Answer, ...]:
    """Every provider's answer, the best first."""
    return tuple(_answer(provider, homes, clock, disk, budget) for provider in PROVIDERS)


def choose(asked: str, ground: ViewGround) -> tuple[View, tuple[Answer, ...]]:
    """The view that was asked for, or with `auto` the best that works, and the answers that led to it.

    Raises ViewError where what was asked for does not work.
    """
    if asked not in {"auto", *PROVIDERS}:
        raise ViewError(f"there is no provider {asked!r}; there are {', '.join(PROVIDERS)} and auto")
    answers: list[Answer] = []
    for provider in PROVIDERS if asked == "auto" else (asked,):
        answers.append(_answer(provider, ground.homes, ground.clock, ground.disk, ground.budget))
        if answers[-1].usable:
            return make_view(provider, ground), tuple(answers)
    raise ViewError(f"the provider {asked} does not work here: {answers[-1].why}")


def _answer(provider: str, homes: Sequence[Home], clock: Clock, disk: Disk, budget: Budget | None) -> Answer:
    if provider == "overlay":
        probed = [_probed(home, clock, disk) for home in homes]
        trouble = next((each.overlay for each in probed if each.overlay), "") or _nested(homes)
        return Answer(provider="overlay", usable=not trouble, why=trouble or "overlayfs mounts over the tree")
    if provider == "clone":
        return _clone(homes)
    if provider == "copy":
        return _copy(homes, budget)
    return Answer(provider="api", usable=True, why="always there; tools cannot run in it")


def make_view(provider: str, ground: ViewGround) -> View:
    """A provider's view, whether or not it works."""
    if provider == "api":
        return ApiView(ground)
    probed = [_probed(home, ground.clock, ground.disk) for home in ground.homes]
    trouble = next((each.confinement for each in probed if each.confinement), "")
    is_free = ground.namespaces and not any(each.namespaces for each in probed)
    if not is_free:
        trouble = trouble or "without namespaces nothing can be"
    ground = replace(ground, namespaces=is_free, unconfinable=trouble)
    return OverlayView(ground) if provider == "overlay" else CopyView(ground, provider)


def confinement_trouble(clock: Clock) -> str:
    """Why commands cannot be confined on this machine; nothing where they can."""
    if sys.platform != "linux":
        return "there are no namespaces on this system"
    asked = Launch(command=[sys.executable, "-I", "-S", "-c", "pass"], cwd=b"/", confine=True)
    try:
        ran = Alone(asked, clock).wait(_PATIENCE_S)
    except ViewError as exc:
        return str(exc)
    return "" if ran.ok else f"a confined command ended with {ran.returncode}: {ran.stderr.strip()[-200:]}"


def _probed(home: Home, clock: Clock, disk: Disk) -> Probed:
    kinds = (os.stat(home.path).st_dev, os.stat(home.root).st_dev)
    if kinds not in _known:
        _known[kinds] = _remembered(home, clock, disk)
    return _known[kinds]


def _remembered(home: Home, clock: Clock, disk: Disk) -> Probed:
    key = f"{_FORM} {_boot()} {os.geteuid()} {sys.executable}"
    with contextlib.suppress(OSError, ChangesetDamagedError):
        said = codec.loads(content_at(home.within(b"probe.json")), "probe.json")
        if said.get("key") == key:
            return Probed(namespaces="", overlay=codec.text(said["overlay"]), confinement="")
    found = _tried(home, clock, disk)
    if found.namespaces or found.overlay or found.confinement:
        return found
    with contextlib.suppress(OSError):
        fields: codec.Fields = {"key": key, "overlay": found.overlay}
        write_record(disk, home.path, b"probe.json", fields)
    return found


def _boot() -> str:
    try:
        return content_at(b"/proc/sys/kernel/random/boot_id").decode().strip()
    except OSError:
        return ""


def _tried(home: Home, clock: Clock, disk: Disk) -> Probed:
    if sys.platform != "linux":
        none = "there are no namespaces on this system"
        return Probed(namespaces=none, overlay="overlayfs is a part of Linux", confinement=none)
    layer = home.within(b"probe.%d" % os.getpid())
    disk.remove_all(layer)
    for each in (b"", b"/0", b"/room"):
        os.mkdir(layer + each, 0o700)
    try:
        plain = Launch(command=[sys.executable, "-I", "-S", "-c", "pass"], cwd=b"/", confine=False)
        confined = _refusal(replace(plain, confine=True, room=layer + b"/room"), clock)
        free = _refusal(plain, clock) if confined else ""
        if free:
            return Probed(namespaces=free, overlay=free, confinement=free)
        return Probed(namespaces="", overlay=_overlay_trouble(home, layer, clock, disk), confinement=confined)
    finally:
        disk.remove_all(layer)


def _refusal(asked: Launch, clock: Clock) -> str:
    try:
        ran = run_to_end(asked, clock, _PATIENCE_S)
    except ViewError as exc:
        return str(exc)
    return "" if ran.ok else f"a command in namespaces ended with {ran.returncode}: {ran.stderr.strip()[-200:]}"


def _overlay_trouble(home: Home, layer: bytes, clock: Clock, disk: Disk) -> str:
    whiteouts.make_whiteout(layer + b"/room/gone")
    if not stat.S_ISCHR(os.lstat(layer + b"/room/gone").st_mode):
        return "whiteouts cannot be made in the state directory"
    os.unlink(layer + b"/room/gone")
    ground = ViewGround(
        homes=(home,), folder=layer, lowers=lambda _: (), layers=lambda: (), disk=disk, clock=clock, budget=None
    )
    command = [sys.executable, "-I", "-S", "-c", _TOUCH]
    try:
        ran = OverlayView(ground).start(layer, Launch(command=command, cwd=home.root, confine=False)).wait(_PATIENCE_S)
    except ViewError as exc:
        return str(exc)
    if not ran.ok:
        return f"a file could not be made in the view: {ran.stderr.strip()[-200:]}"
    return "" if os.path.exists(layer + b"/0/.amends-probe") else "what was written in the view did not reach the layer"


def _nested(homes: Sequence[Home]) -> str:
    """A file system mounted inside the tree would not show in an overlay of it."""
    try:
        mounts = content_at(b"/proc/self/mountinfo").split(b"\n")[:-1]
    except OSError:
        return ""
    for line in mounts:
        place = line.split(b" ")[4].decode("unicode_escape").encode("latin-1")
        for home in homes:
            inside = beneath(place, home.root)
            if inside:
                return f"{spell(inside)} in {spell(home.root)} is a file system of its own, and would look empty"
    return ""


def _clone(homes: Sequence[Home]) -> Answer:
    apart = next((home for home in homes if not home.can_move_into()), None)
    if apart is not None:
        why = f"{spell(apart.path)} is not on the file system of {spell(apart.root)}"
        return Answer(provider="clone", usable=False, why=why)
    blind = next((home for home in homes if not shares_blocks(home.path)), None)
    why = "files share their blocks" if blind is None else "files cannot share their blocks on this file system"
    return Answer(provider="clone", usable=blind is None, why=why)


def _files(root: bytes) -> Iterator[os.stat_result]:
    """Of all files of a tree, however deep; what cannot be looked at is left out."""
    left = [root]
    while left:
        with contextlib.suppress(OSError), os.scandir(left.pop()) as inside:
            for each in inside:
                if each.is_dir(follow_symlinks=False):
                    left.append(each.path)
                else:
                    yield each.stat(follow_symlinks=False)


def _copy(homes: Sequence[Home], budget: Budget | None) -> Answer:
    if budget is None:
        return Answer(provider="copy", usable=True, why="no budget is set")
    files = size = 0
    for home in homes:
        for about in _files(home.root):
            files, size = files + 1, size + about.st_size
            if files > budget.files or size > budget.bytes:
                why = f"the tree is larger than the budget of {budget.files} files and {budget.bytes >> 20} MiB"
                return Answer(provider="copy", usable=False, why=why)
    return Answer(provider="copy", usable=True, why=f"{files} files, {size >> 20} MiB: within the budget")
