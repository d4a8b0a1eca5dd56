"""Landing as steps: what would land is looked at and goes on record; that, and nothing else, is judged and landed.

`amends.changeset.review` is read-only: its result is the diff with its digest and sizes. `amends.changeset.land` gets
them as arguments, so the gate can ask for them, a person sees the diff, and their approval binds it. It lands only if
the changeset still is what was looked at. Its compensation is the inverse, by the same rules: what others changed since
is merged, or it is an incident and nothing is overwritten.

A landing is repeated safely: it has the step's key for its id, whoever opens the changeset after a kill brings a
landing to one of its two ends, and a changeset that has landed says so.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, Literal, TypeAlias, cast

from amends.changeset import Changeset, Conflicted, Landed, Life, Terms, landing_of, take_back as open_inverse
from amends.core.words.values import Json
from amends.errors import ChangedSince, Fatal
from amends.process.running import small_environment
from amends.runtime.declare.action import Action, Done, key
from amends.runtime.declare.decorators import action
from amends.runtime.files.given import ChangesetPlace
from amends.runtime.files.resolving import mark, resolve
from amends.runtime.files.topics import LAND, REVIEW
from amends.runtime.files.verifying import at_hand, verifying_in
from amends.secrets import scrub

LONGEST_DIFF: Final = 256 * 1024
"""Characters of a diff that go on record; its digest is of all of it."""
LONGEST_WORDS: Final = 2000
"""Characters of what a command said that did not verify it: the last ones."""
MOST_PATHS: Final = 1000
OnConflict: TypeAlias = Literal["raise", "return", "ask"]


@action(REVIEW, read_only=True)
def review(files: Any) -> dict[str, Json]:  # noqa: ANN401 - given the whole changeset, and no layer
    """Look at what would land."""
    changeset = cast("Changeset", files)
    looked = changeset.overview()
    diff = untold(looked.diff)
    steps = changeset.steps()
    paths = changeset.paths()
    by_step = sum(step.totals.added_lines + step.totals.removed_lines for step in steps)
    return {
        "digest": changeset.digest(),
        "steps": len(steps),
        "changed_files": len(paths),
        "changed_lines": max(by_step, looked.changed_lines),
        "changed_bytes": sum(step.totals.bytes for step in steps),
        "binary_files": looked.binary_files,
        "modes_changed": looked.modes_changed,
        "widest_line": looked.widest_line,
        "paths": [*untold("\0".join(paths[:MOST_PATHS])).split("\0")] if paths else [],
        "diff": _fitting(diff, changeset.id),
        "diff_digest": hashlib.sha256(diff.encode()).hexdigest(),
    }


def _fitting(diff: str, changeset: str) -> str:
    """The diff, if it fits into a record; else its first lines, how many more there are, and where to read them."""
    if len(diff) <= LONGEST_DIFF:
        return diff
    first = diff[:LONGEST_DIFF].rpartition("\n")[0] or diff[:LONGEST_DIFF]
    left = diff.count("\n", len(first) + 1)
    return f"{first}\n[... cut here: {left} more lines. `amends changeset diff {changeset}` shows all of them]\n"


def untold(text: str) -> str:
    """Words of files, or of a command over them, without the secrets that were given to those who wrote them."""
    return scrub(text, at_hand.get()).encode("utf-8", "backslashreplace").decode()


@action(LAND, idempotent=True, timeout=None, compensation_timeout=600, compensation_retries=20)
def land(
    files: Any,  # noqa: ANN401 - given the whole changeset, and no layer
    *,
    digest: str,
    verify: list[str],
    verify_s: float | None,
    wait_s: float | None,
    on_conflict: OnConflict,
    **_shown: Json,
) -> dict[str, Json]:
    """Bring a changeset into its trees, all of it or nothing."""
    changeset = cast("Changeset", files)
    if changeset.digest() != digest:
        raise Fatal("the changeset is not what was looked at any more", happened=False)
    if changeset.life is Life.LANDED:
        return _remembered(changeset)
    seen = verifying_in.get() or small_environment()
    ended = changeset.land(verify=verify or None, verify_s=verify_s, verify_env=seen, wait_s=wait_s, landing_id=key())
    if isinstance(ended, Landed):
        return _landed(ended)
    if isinstance(ended, Conflicted):
        if on_conflict != "raise":
            return {"landed": False, "landing": None, "report": cast("Json", ended.data()), "text": ended.text()}
        raise Fatal(
            f"it is in conflict with what others changed, and nothing has landed\n{ended.text()}", happened=False
        )
    ran = ended.ran
    said = untold(ran.stdout + ran.stderr).strip()[-LONGEST_WORDS:]
    raise Fatal(f"its verification ended with {ran.returncode}, and nothing has landed\n{said}", happened=False)


@land.compensation
def land_back(done: Done) -> None:
    """Land the inverse, by the same rules; what others changed since, and cannot be merged with, is an incident."""
    raise NotImplementedError(done.step)  # the runtime does it with the changeset that it holds: see take_back


for _each in (review, land):
    cast("Action[..., Any]", _each).parts.on_files = "changeset"
ACTIONS: Final = (review, land, mark, resolve)
"""What a landing may need: whoever imports this knows them all."""


def _landed(ended: Landed) -> dict[str, Json]:
    return {
        "landed": True,
        "landing": ended.id or None,
        "applied": list(ended.applied),
        "merged": list(ended.merged),
        "already": list(ended.already),
    }


def _remembered(changeset: Changeset) -> dict[str, Json]:
    """It landed, and the process ended before it could say so."""
    if changeset.landed_as is None:
        return {"landed": True, "landing": None, "applied": [], "merged": [], "already": []}
    home = changeset.homes[0]
    return _landed(landing_of(home.root, changeset.landed_as, state=home.path))


def take_back(changeset: Changeset, place: ChangesetPlace, done: Done) -> None:
    """Land the inverse of a changeset's landing, and have the changeset as it was before; what never landed is fine."""
    if changeset.landed_as is None:  # it never landed, or there was nothing to change; one that is kept has landed too
        return
    terms = Terms(provider="api")
    with open_inverse(
        *place.roots, landing=changeset.landed_as, id=f"back-{done.key}", state=place.state, terms=terms
    ) as inverse:
        if inverse.life is not Life.LANDED:
            ended = inverse.land()
            if isinstance(ended, Conflicted):
                raise ChangedSince(f"others changed what had landed, and it was left as it is\n{ended.text()}")
        changeset.take_up(inverse)
