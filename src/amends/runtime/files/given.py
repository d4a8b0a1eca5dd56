"""The value of `s.files`: the trees that its steps work on, by name. Holds nothing open.

A saga's function passes it on to actions; each such step gets a layer of its own in its place. What the journal has of
it is which changeset of which trees it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

from amends.changeset import EPHEMERAL, Files, Isolation, Limits, Terms
from amends.core.words.values import Json
from amends.dataclass import dataclass
from amends.errors import ChangesetLifeError, DeclarationError, InputError

MARK: Final = "$files"
PARAMETER: Final = "files"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesetPlace:
    """Which changeset a step works in, as its arguments say it."""

    changeset: str
    roots: tuple[str, ...]
    state: str | None = None
    fork: bool = False
    """Of a call: its child works on a branch of it."""

    def data(self) -> dict[str, Json]:
        said: dict[str, Json] = {MARK: self.changeset, "roots": list(self.roots)}
        said |= {} if self.state is None else {"state": self.state}
        return {**said, "fork": True} if self.fork else said


def place_in(args: Json) -> ChangesetPlace | None:
    """The changeset that a step's arguments name; None for a step that has none."""
    named = args.get(PARAMETER) if isinstance(args, dict) else None
    if not isinstance(named, dict) or not isinstance(named.get(MARK), str):
        return None
    roots, state = named.get("roots"), named.get("state")
    return ChangesetPlace(
        changeset=str(named[MARK]),
        roots=tuple(map(str, roots)) if isinstance(roots, list) else (),
        state=state if isinstance(state, str) else None,
        fork=named.get("fork") is True,
    )


class SagaFiles(Files):
    """The trees of a saga. Pass it to actions that take `files: Files`; nothing is read or written through it here."""

    is_of_saga = True

    def __init__(self, roots: tuple[str, ...], terms: Terms, state: str | None) -> None:
        self.terms = terms
        self.trees = roots
        self.state = state
        self.landings = 0
        """How often it has landed: what comes after is another changeset."""

    def _require_open(self) -> None:
        raise ChangesetLifeError("a saga's files are worked on in its steps: pass them to an action that takes files")


def files_of(
    roots: Iterable[str | os.PathLike[str]],
    *,
    isolation: str = "write",
    provider: str = "auto",
    reads: Iterable[str] = (),
    limits: Limits | None = None,
    ephemeral: Iterable[str] = EPHEMERAL,
    confine: bool | None = None,
    network: bool = True,
    state: str | os.PathLike[str] | None = None,
) -> SagaFiles:
    if isolation not in set(Isolation):
        raise DeclarationError(f"isolation={isolation!r} is neither {' nor '.join(Isolation)}")
    real = tuple(os.path.realpath(root) for root in roots)
    if not real:
        raise DeclarationError("s.files needs a tree: name a folder")
    terms = Terms(
        provider=provider,
        isolation=Isolation(isolation),
        reads=tuple(reads),
        limits=limits or Limits(),
        ephemeral=tuple(ephemeral),
        confine=confine,
        network=network,
    )
    return SagaFiles(real, terms, None if state is None else os.path.realpath(state))


def with_files(
    topic: str,
    *,
    takes: bool,
    named: Mapping[str, object],
    known: list[SagaFiles],
    place: Callable[[SagaFiles], ChangesetPlace],
) -> Mapping[str, object]:
    """The arguments as they can be stored. Files that are left out are the saga's own."""
    given = named.get(PARAMETER)
    if not takes:
        stray = next((name for name, value in named.items() if isinstance(value, SagaFiles)), None)
        if stray is not None:
            raise DeclarationError(
                f"{topic} is given a saga's files as {stray}, and does not say that it takes them: declare the "
                "parameter `files: amends.changeset.Files`"
            )
        return named
    if given is None and len(known) == 1:
        given = known[0]
    if not isinstance(given, SagaFiles):
        what = f"the saga has {len(known)}: pass one of them" if known else "call s.files(root) first"
        raise InputError(f"{topic} works on files; {what}")
    return {**named, PARAMETER: place(given).data()}


def arguments(args: Mapping[str, Any], files: object) -> dict[str, Any]:
    """Arguments that the action is called with: its layer in the place of its changeset's name."""
    return {**cast("dict[str, Any]", args), PARAMETER: files}
