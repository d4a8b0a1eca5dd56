"""One attempt of a step that works on files: the life of its layer, from the durable intent to the outcome."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from amends.changeset import Changeset, Files, Life, Sealed
from amends.core.state.saga import Step
from amends.core.words.contracts import Reversibility
from amends.core.words.outcomes import Failed, Lost, Outcome, Succeeded
from amends.errors import ChangesetError, Fatal, NotDone
from amends.runtime.declare.action import Action
from amends.runtime.files.errors import certain
from amends.runtime.files.given import ChangesetPlace, arguments
from amends.runtime.files.verifying import at_hand

if TYPE_CHECKING:
    from amends.runtime.files.layers import Layers


class FileAttempt:
    """One call of an action that works on files: begins its layer, and seals or drops it."""

    def __init__(
        self, layers: Layers, state: Step, action: Action[..., Any], args: dict[str, Any], place: ChangesetPlace
    ) -> None:
        self._layers = layers
        self._state = state
        self._action = action
        self._args = args
        self._place = place
        self._is_exact = state.contract.reversibility is Reversibility.REVERSIBLE
        self._files: Files | None = None
        self._changeset: Changeset | None = None
        self._sealed: Sealed | None = None

    async def __call__(self) -> object:
        """Runs the action, a plain one in a thread, and ends when that has ended, whoever has given it up."""
        action = self._action
        with certain():
            changeset = await self._layers.opened(self._place)
            if action.parts.on_files == "changeset":
                at_hand.set(await self._layers.secrets())
                self._changeset = changeset
                return await self._layers.in_thread(lambda: action.parts.function(**arguments(self._args, changeset)))
            name = f"{self._state.topic} ({self._state.id})"
            files = self._files = await self._layers.in_thread(lambda: _begun(changeset, name))
        try:
            called = arguments(self._args, files)
            result: object = await self._called(called, files)
            await self._layers.in_thread(lambda: self._seal(files))
        except BaseException:  # whatever it was, it flies on; the layer must not stay
            await self._layers.in_thread(lambda: _drop(files))
            raise
        return result

    async def _called(self, args: dict[str, Any], files: Files) -> object:
        action = self._action
        if action.parts.is_async:
            return await cast("Awaitable[object]", action.parts.signature.call(action.parts.function, args))
        settle_s = self._layers.settle_s if self._is_exact else None  # what is not only files has to be waited for
        return await self._layers.in_thread(
            lambda: action.parts.signature.call(action.parts.function, args), stop=files.stop, wait_s=settle_s
        )

    def _seal(self, files: Files) -> None:
        if not self._state.contract.side_effect:
            files.drop()
            return
        with certain(happened=not self._is_exact):
            sealed = files.seal()
        if sealed.moved and self._is_exact:
            self._sealed = None
            raise NotDone(f"somebody else changed {', '.join(sealed.moved[:5])} while the step worked on it")
        self._sealed = sealed

    def ended(self, outcome: Outcome) -> Outcome:
        """The outcome, with the layer that belongs to it. What only worked on files, and failed, did nothing."""
        works_on = self._files or self._changeset
        kept_in = "" if works_on is None else works_on.confinement
        if isinstance(outcome, Succeeded):
            layer = "" if self._sealed is None else _named(self._sealed)
            return replace(outcome, layer=layer, confinement=kept_in)
        if isinstance(outcome, Lost) and self._is_exact and self._action.parts.on_files == "layer":
            return Failed(
                error=outcome.error,
                fatal=outcome.fatal,
                final=outcome.final,
                confinement=kept_in,
                where=outcome.where,
            )
        return replace(outcome, confinement=kept_in)


def _named(sealed: Sealed) -> str:
    return f"{sealed.number}:{sealed.digest}"


def _drop(files: Files) -> None:
    try:
        files.drop()
    except ChangesetError:
        return  # it was sealed; what is not on record is dropped before the next step begins


def _begun(changeset: Changeset, name: str) -> Files:
    if changeset.life is Life.DROPPED:  # all of it was taken back, and the work goes on
        changeset.reopen()
    if changeset.life not in {Life.ACTIVE, Life.REVIEW}:
        raise Fatal(f"changeset {changeset.id} is {changeset.life}: nothing more is done in it", happened=False)
    return changeset.begin(name)
