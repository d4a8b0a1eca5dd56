"""The part of `s` that is about files: which trees the saga works on, and when its work lands in them."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from amends.errors import InputError, StepError
from amends.runtime.declare.action import Action

if TYPE_CHECKING:
    from amends.changeset import Limits
    from amends.runtime.files.given import SagaFiles
    from amends.runtime.files.layers import Layers

FILES: Final = "files"


class OnFiles:
    """File operations of `Work`; `_layers` is given to it by whoever drives the saga."""

    _layers: Callable[[], Layers]

    def do_named(self, action: Action[..., Any], named: Mapping[str, object]) -> Coroutine[Any, Any, Any]:
        raise NotImplementedError

    async def wait_for(self, name: str) -> Any:  # noqa: ANN401 - any JSON value
        raise NotImplementedError

    def files(
        self,
        *roots: str | os.PathLike[str],
        isolation: Literal["write", "strict"] = "write",
        reads: Iterable[str] = (),
        provider: str = "auto",
        limits: Limits | None = None,
        ephemeral: Iterable[str] | None = None,
        confine: bool | None = None,
        network: bool = True,
        state: str | os.PathLike[str] | None = None,
    ) -> SagaFiles:
        """Work on these trees: each step whose action takes `files: Files` gets a layer of its own over them.

        What such a step did goes with its layer when it is taken back. Nothing is in the trees before `s.land`.
        The commands that they run are confined where this machine can; `confine=True`: or they do not run;
        `confine=False`: they are not, and that is on record. `network=False`: they have none.
        """
        from amends.changeset import EPHEMERAL
        from amends.runtime.files.given import files_of

        files = files_of(
            roots,
            isolation=isolation,
            reads=reads,
            provider=provider,
            limits=limits,
            ephemeral=EPHEMERAL if ephemeral is None else ephemeral,
            confine=confine,
            network=network,
            state=state,
        )
        return self._layers().know(files)

    async def land(
        self,
        files: SagaFiles | None = None,
        message: str = "",
        *,
        verify: Sequence[str] = (),
        verify_s: float | None = None,
        wait_s: float | None = None,
        on_conflict: Literal["raise", "return", "ask"] = "raise",
    ) -> dict[str, Any]:
        """Bring the saga's files into their trees, all of it or nothing. A step: judged, approved, taken back.

        `verify` is a command that runs over the result first, and has to end with 0. A conflict with what others
        changed makes the step fail, or, with `on_conflict="return"`, is the answer: `landed` is false then, and
        `report` says where. With "ask" the saga waits until people have resolved each conflict, by
        `amends changeset resolve` or `coordinator.resolve`, and lands then.
        """
        if on_conflict not in {"raise", "return", "ask"}:
            raise InputError(f"on_conflict={on_conflict!r}: say raise, return or ask")
        files = self._whole(files, "land")
        given = self._layers().inherited(files)
        if given is not None:
            how = "a branch of them is worked on" if given.is_branch else "are shared"
            raise InputError(f"these files are the parent's, and {how}: they land with it; let the parent land them")
        return await land_whole(
            self, files, message, verify=verify, verify_s=verify_s, wait_s=wait_s, on_conflict=on_conflict
        )

    async def mark_conflicts(self, files: SagaFiles | None = None) -> list[dict[str, Any]]:
        """Have both sides of each conflict with the tree of now in the view, with marks, for the steps that follow.

        A step. Gives the conflicts; where there are none, an empty list. Nothing lands until each is resolved.
        """
        from amends.runtime.files.resolving import mark

        found = await self.do_named(mark, {FILES: self._whole(files, "mark")})
        return cast("list[dict[str, Any]]", found)

    async def resolve(
        self, path: str, take: Literal["ours", "theirs", "merged"], files: SagaFiles | None = None
    ) -> dict[str, Any]:
        """Resolve a conflict of a landing: take ours, theirs, or what the view shows by now. A step.

        Gives the paths that are `left`. Raises StepError for a path that is not in conflict, or has marks in it.
        """
        from amends.runtime.files.resolving import resolve

        named = {FILES: self._whole(files, "resolve"), "path": path, "take": take}
        return cast("dict[str, Any]", await self.do_named(resolve, named))

    def _whole(self, files: SagaFiles | None, verb: str) -> SagaFiles:
        """The files that are meant, where the saga has no others."""
        known = self._layers().known
        if files is None and len(known) == 1:
            return known[0]
        if files is None:
            raise InputError(f"{verb} what? Pass what s.files(root) gave" if known else "call s.files(root) first")
        return files

    def _with_files(self, action: Action[..., Any], named: Mapping[str, object]) -> Mapping[str, object]:
        """The arguments with a changeset's name in the place of its files."""
        from amends.runtime.files.given import with_files

        layers = self._layers()
        takes = bool(action.parts.on_files)
        return with_files(action.topic, takes=takes, named=named, known=layers.known, place=layers.place)


def with_room_for_files(
    action: Action[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Files may be left out: they are the saga's own then."""
    place = action.parts.signature.names.index(FILES)
    if FILES in kwargs or (place < len(args) and getattr(args[place], "is_of_saga", False)):
        return args, kwargs
    if place > len(args):
        return args, {FILES: None, **kwargs}
    return (*args[:place], None, *args[place:]), kwargs


async def land_whole(
    s: OnFiles,
    files: SagaFiles,
    message: str,
    *,
    verify: Sequence[str],
    verify_s: float | None,
    wait_s: float | None,
    on_conflict: Literal["raise", "return", "ask"],
) -> dict[str, Any]:
    """Look at what would land, and land that, as two steps. Whose files they are is not asked here."""
    from amends.runtime.files.landing import land, review

    asked = {"message": message, "verify": list(verify), "verify_s": verify_s, "wait_s": wait_s}
    while True:
        looked = await s.do_named(review, {FILES: files})
        ended = await s.do_named(land, {FILES: files, **asked, "on_conflict": on_conflict, **looked})
        if ended["landed"]:
            files.landings += 1
        if ended["landed"] or on_conflict != "ask":
            return cast("dict[str, Any]", ended)
        await _resolved_by_people(s, files, ended["report"]["changeset"])


async def _resolved_by_people(s: OnFiles, files: SagaFiles, changeset: str) -> None:
    """Wait until people have resolved each conflict."""
    from amends.runtime.files.resolving import resolve, signal_of

    left: Any = True
    while left:
        asked = await s.wait_for(signal_of(changeset))
        said = cast("dict[str, Any]", asked) if isinstance(asked, dict) else {}
        named = {name: str(said.get(name) or "") for name in ("path", "take", "draft")}
        try:
            ended = await s.do_named(resolve, {"files": files, **named})
        except StepError:
            continue  # it is on record why; somebody decides again
        left = ended["left"]
