"""A state directory that somebody has planted: landings under way, records and logs that lead elsewhere."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from amends.changeset import Changeset
from amends.changeset.disk.disk import spot
from amends.changeset.disk.read import state_at
from amends.changeset.model import codec
from amends.changeset.model.landing_plan import Act, Do, Plan, TreePlan, plan_fields

EVIL: Final = "evil"
LOOT: Final = "ssh-ed25519 AAAA evil\n"
Fields = dict[str, Any]


class Victim:
    """A tree with its state directory, and a home elsewhere that is to stay as it is."""

    def __init__(self, place: Path) -> None:
        self.tree = place / "tree"
        self.home = place / "home"
        self.state = place / ".tree.changesets"
        for folder in (self.tree / "in", self.home / ".ssh"):
            folder.mkdir(parents=True)
        (self.tree / "in/authorized_keys").write_text("mine\n")
        (self.home / ".ssh/authorized_keys").write_text("mine\n")
        os.utime(self.home / ".ssh/authorized_keys", ns=(10**18, 10**18))
        os.utime(self.tree / "in/authorized_keys", ns=(10**18, 10**18))

    def is_untouched(self) -> bool:
        found = sorted(path.relative_to(self.home).as_posix() for path in self.home.rglob("*"))
        return found == [".ssh", ".ssh/authorized_keys"] and self.keys == "mine\n"

    @property
    def keys(self) -> str:
        return (self.home / ".ssh/authorized_keys").read_text()

    def have_state(self) -> None:
        Changeset.open(self.tree).close()

    def plant(self, change: Callable[[Fields], None], *, path: str = "in/authorized_keys", do: Do = Do.SWAP) -> Path:
        """A landing that is decided and not done, as the change makes it."""
        folder = self.state / "landings" / EVIL
        for part in ("staged", "undo"):
            (folder / part).mkdir(parents=True)
        staged = folder / "staged/0"
        staged.write_text(LOOT)
        new = state_at(spot(os.fsencode(staged)))
        old = state_at(spot(os.fsencode(self.home / ".ssh/authorized_keys"))) if do is not Do.PUT else None
        act = Act(number=0, do=do, path=os.fsencode(path), old=old, new=None if do is Do.TAKE else new)
        tree = TreePlan(
            root=os.fsencode(self.tree),
            home=os.fsencode(self.state),
            room=os.fsencode(folder),
            sequence=1,
            acts=(act,),
            times=((b"", 1),),
        )
        fields = plan_fields(Plan(id=EVIL, changeset="c", name="n", at=0, trees=(tree,)))
        change(fields)
        (folder / "plan.json").write_bytes(codec.dumps(fields))
        (folder / "log.json").write_bytes(codec.dumps({"sequence": 1, "landing": EVIL, "paths": []}))
        return folder


def rewrite(path: Path, change: Callable[[Fields], None]) -> None:
    """Change a record, with a digest that fits."""
    fields: Fields = json.loads(path.read_bytes())["body"]
    change(fields)
    path.write_bytes(codec.dumps(fields))
