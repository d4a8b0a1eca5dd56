"""How a command in a view is kept in: whether it is, what it sees of our environment, and what is masked from it.

    confine=None      it is confined where this machine can; where not, it runs all the same, and the record says why
    confine=True      it is confined, or does not run
    confine=False     it runs as whoever starts it would, and that is on record

What cannot be confined still has the small environment and no capabilities, unless it was asked for that it has.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace

from amends import private
from amends.changeset.model.paths import beneath
from amends.changeset.store.hidden import state_directories
from amends.changeset.store.home import common_state
from amends.changeset.views.protocol import ViewGround
from amends.clock import Clock
from amends.errors import ViewError
from amends.process.running import Launch, Ran, Running, small_environment


def kept_in(asked: Launch, ground: ViewGround) -> Launch:
    """A launch completed by all that follows from whether it is confined. Raises ViewError where that cannot be."""
    trouble = ground.unconfinable
    if asked.confine and trouble:
        raise ViewError(f"confine=True is asked for, and cannot be had here: {trouble}")
    if not asked.network and not ground.namespaces:
        raise ViewError(f"network=False is asked for, and cannot be had here: {trouble or 'there are no namespaces'}")
    if asked.confine is False:
        return replace(asked, env=None if asked.env is None else _whole(asked.env, asked), powerless=False)
    env = asked.env if not asked.inherits else small_environment() | dict(asked.env or {})
    if trouble:
        return replace(asked, confine=False, env=env, powerless=True, why_not=trouble)
    room = ground.homes[0].path
    scratch = os.fsdecode(room + b"/tmp")
    env = {"XDG_CACHE_HOME": f"{scratch}/cache", **(env or {}), "TMPDIR": scratch}
    masks = tuple(sorted(_masks(ground, room)))
    return replace(asked, confine=True, env=env, room=room, masks=masks)


class Alone(Running):
    """A command that works on no files, in namespaces of its own."""

    def __init__(self, asked: Launch, clock: Clock) -> None:
        self._room = os.fsencode(tempfile.mkdtemp(prefix="amends-"))
        try:
            super().__init__(self._kept_in(asked) if asked.confine else asked, clock)
        except BaseException:  # whatever it was, it flies on; the folder must not stay
            os.rmdir(self._room)
            raise

    def _kept_in(self, asked: Launch) -> Launch:
        scratch = os.fsdecode(self._room + b"/tmp")
        env = {"XDG_CACHE_HOME": f"{scratch}/cache", **(asked.env or {}), "TMPDIR": scratch}
        masks = {*private.claimed(), *_common(), *state_directories(asked.cwd)}
        masks |= set(state_directories(os.path.dirname(asked.cwd)))
        return replace(asked, env=env, room=self._room, masks=tuple(sorted(masks)))

    def wait(self, timeout_s: float | None = None) -> Ran:
        try:
            return super().wait(timeout_s)
        finally:
            os.rmdir(self._room)  # what was in it is gone with the command's namespaces


def _whole(env: Mapping[str, str], asked: Launch) -> Mapping[str, str]:
    return {**os.environ, **env} if asked.inherits else env


def _masks(ground: ViewGround, room: bytes) -> Iterator[bytes]:
    """Journals and keys that this process has claimed, and the state of changesets, but for what the room hides."""
    for path in {*private.claimed(), *_states(ground)}:
        if beneath(path, room) is None and beneath(room, path) is None:
            yield path


def _states(ground: ViewGround) -> Iterator[bytes]:
    for home in ground.homes:
        yield home.path
        yield from state_directories(os.path.dirname(home.root))
        yield from state_directories(home.root)
    yield from _common()


def _common() -> list[bytes]:
    try:
        return [os.path.join(common_state(), name) for name in os.listdir(common_state())]
    except OSError:
        return []
