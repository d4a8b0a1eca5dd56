"""Contracts: what an action promises, as data that outlives the code that declared it."""

from __future__ import annotations

import hashlib
from dataclasses import field, fields
from enum import StrEnum
from typing import Final, Literal, NewType, cast

from amends.core.words.values import Json, SagaId, StepId
from amends.dataclass import dataclass

Topic = NewType("Topic", str)
TOPIC_PATTERN: Final = r"[a-z0-9][a-z0-9_.-]{0,127}"
"""How a topic, or the name of a definition in a file, may be written."""
Phase = Literal["do", "undo", "mitigate"]


class Reversibility(StrEnum):
    """Whether, and how, an action can be taken back."""

    REVERSIBLE = "reversible"
    COMPENSATABLE = "compensatable"
    IRREVERSIBLE = "irreversible"
    UNDECLARED = "undeclared"


class OnIncident(StrEnum):
    """The course of a rollback when this action's compensation cannot be made to work."""

    STOP = "stop"
    GO_ON = "go_on"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often, and how far apart: `first_s` doubling to `cap_s`, less a random part of up to half."""

    attempts: int = 50
    first_s: float = 1.0
    cap_s: float = 30.0

    def delay_s(self, attempt: int, jitter: float) -> float:
        """How long to wait after attempt number `attempt`; jitter is between 0 and 1."""
        whole = min(self.cap_s, self.first_s * 2.0 ** min(attempt - 1, 32))
        return whole * (1 - jitter / 2)


FORWARD: Final = Retries()
BACK: Final = Retries(attempts=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """One version of one topic's promises. Journaled with the first step that uses it."""

    topic: Topic
    version: int = 1
    side_effect: bool = True
    reversibility: Reversibility = Reversibility.UNDECLARED
    no_rollback: str | None = None
    idempotent: bool = False
    atomic: bool = False
    probe: bool = False
    before: bool = False
    reread: bool = False
    """Whether its compensation looks first if what it left is still so."""
    resources: tuple[str, ...] = ()
    """What it needs for itself until its saga has ended: templates over its arguments, as `account:{account}`."""
    lock_wait_s: float | None = None
    """How long it waits for them; None: as long as the coordinator says."""
    risk: tuple[str, ...] = ()
    timeout_s: float | None = 300.0
    retries: Retries = field(default=FORWARD)
    undo_timeout_s: float = 30.0
    undo_retries: Retries = field(default=BACK)
    on_incident: OnIncident = OnIncident.STOP
    hold: bool = False
    """It is released only after the work has finished and everything that could fail has passed."""
    does: str = ""
    """What the action does, in its author's words; a person who approves it is shown them."""
    undoes: str = ""
    """What the compensation does, or the mitigation, likewise."""
    tool: str = ""
    """The digest of the tool behind it: name, parameters, description. Another tool is not what was approved."""
    mitigation: bool = False
    """Of an irreversible action: whether something is declared that is done about it when a person takes it back."""

    @property
    def compensation_declared(self) -> bool:
        """Whether anything is declared for the way back; of an irreversible action that is its mitigation."""
        return self.rollback_supported or self.mitigation

    @property
    def may_be_called(self) -> bool:
        """Whether code of it may be called about a step that was tried: else only a person could do anything."""
        return self.reversibility is not Reversibility.UNDECLARED or self.probe or self.repeatable

    @property
    def rollback_supported(self) -> bool:
        """Whether its effect can be taken back, exactly or in meaning."""
        return self.reversibility in {Reversibility.REVERSIBLE, Reversibility.COMPENSATABLE} and self.side_effect

    @property
    def goes_on(self) -> bool:
        """Whether a rollback goes on without this action when an incident names it; never past what may be a pivot."""
        return self.on_incident is OnIncident.GO_ON and self.reversibility is not Reversibility.IRREVERSIBLE

    @property
    def repeatable(self) -> bool:
        """Whether a lost attempt may simply be made again, with the same key."""
        return self.idempotent or not self.side_effect


def described(contract: Contract) -> dict[str, Json]:
    """All of a contract as JSON, as a person is shown it and as an approval binds it.

    A mitigation is named where there is one: what people approved before there were any binds them still.
    """
    names = (each.name for each in fields(contract))
    return {name: _plain(getattr(contract, name)) for name in names if name != _MITIGATION or contract.mitigation}


def _plain(value: object) -> Json:
    if isinstance(value, Retries):
        return {"attempts": value.attempts, "first_s": value.first_s, "cap_s": value.cap_s}
    if isinstance(value, tuple):
        return [str(item) for item in cast("tuple[object, ...]", value)]
    return str(value) if isinstance(value, StrEnum) else cast("Json", value)


_MITIGATION: Final = "mitigation"


def key_of(saga: SagaId, step: StepId, topic: Topic, phase: Phase, turn: int = 0) -> str:
    """The idempotency key: the same for every attempt, process and machine.

    `turn` counts the times that a step was taken back and then landed late after all: taking it back again is another
    effect, which a provider that remembers keys must not mistake for the first.
    """
    parts = f"{saga}\x1f{step}\x1f{topic}\x1f{phase}\x1f{turn}" if turn else f"{saga}\x1f{step}\x1f{topic}\x1f{phase}"
    return hashlib.sha256(parts.encode()).hexdigest()[:32]
