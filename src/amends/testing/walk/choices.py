"""The chances of a walk through legal histories: choices, contracts, how calls end, what the world does."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from amends.core import commands as c
from amends.core.events import Event
from amends.core.state.saga import Saga, Step
from amends.core.words.contracts import Contract, OnIncident, Retries, Reversibility, Topic
from amends.core.words.outcomes import Failed, Lost, Outcome, Succeeded
from amends.core.words.values import StepId
from amends.core.words.verdict import Decision, Need, Verdict
from amends.dataclass import dataclass

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

_T = TypeVar("_T")
_LENGTH: Final = 240
OUTCOMES: Final[Sequence[Outcome]] = (
    *[Succeeded()] * 8,
    Lost(error="no answer", timed_out=True),
    Failed(error="not now"),
    Lost(error="the line went dead"),
    Failed(error="not now", after_s=5),
    Lost(error="never", fatal=True),
    Failed(error="never", fatal=True),
    Failed(error="not for now", final=True),
)
UNDO_OUTCOMES: Final[Sequence[Outcome]] = (
    *[Succeeded()] * 4,
    Failed(error="not now"),
    Lost(error="no answer", timed_out=True),
    Lost(error="the line went dead"),
    Failed(error="not now", after_s=3600),
    Failed(error="somebody changed it", changed_since=True),
    Failed(error="never", fatal=True),
)

CALM: Final = ((12, 40, 1), (4, 40, 1), (12, 12, 1), (30, 150, 1), (3, 40, 6))
WINDOWS_S: Final = (900.0, 900.0, 900.0, 3.0, 0.0)
ALLOW: Final = Verdict(decision=Decision.ALLOW, rule="allow", policy="p")
DENY: Final = Verdict(decision=Decision.DENY, rule="deny", policy="p", why="not today")
ASK: Final = Verdict(
    decision=Decision.REQUIRE_HUMAN,
    rule="ask",
    policy="p",
    needs=(Need(rule="ask"), Need(rule="two", approvals=2, approvers=("person:*",))),
    expires_s=60.0,
)


@dataclass(frozen=True, slots=True)
class AcceptedCommand:
    """A command that was accepted: the saga before and after it, and the facts between."""

    before: Saga
    command: c.Command
    events: tuple[Event, ...]
    after: Saga


class Tape:
    """Choices that repeat themselves from run to run; at its end, always the first and simplest option."""

    def __init__(self, choices: bytes) -> None:
        self._choices = choices
        self._at = 0

    @classmethod
    def seeded(cls, seed: int, length: int = _LENGTH) -> Tape:
        return cls(hashlib.shake_256(seed.to_bytes(16)).digest(length))

    def fork(self) -> Tape:
        """Another tape, made from what is left of this one, in another order."""
        left = self._choices[self._at :]
        return Tape(left[::-1]) if any(left) else Tape(b"")

    def __repr__(self) -> str:
        return f"Tape(bytes.fromhex({self._choices.rstrip(bytes(1)).hex()!r}))"

    def pick(self, options: Sequence[_T]) -> _T:
        if self._at >= len(self._choices):
            return options[0]
        self._at += 1
        return options[self._choices[self._at - 1] % len(options)]

    def once_in(self, times: int) -> bool:
        return self.pick(range(times)) == times - 1


def tapes(length: int = _LENGTH) -> SearchStrategy[Tape]:
    """Tapes for Hypothesis, which shrinks them towards the simplest history."""
    from hypothesis import strategies as st

    return st.binary(min_size=length, max_size=length).map(Tape)


@dataclass(slots=True)
class Truth:
    """The world's knowledge of one step. `standing` is the ledger: how many of its effects are there now."""

    idempotent: bool
    standing: int = 0
    effects: int = 0
    done: frozenset[str] = frozenset()
    undone: frozenset[str] = frozenset()
    mitigated: frozenset[str] = frozenset()
    hanging: tuple[int, ...] = ()
    landed: tuple[int, ...] = ()

    def take_effect(self, key: str) -> None:
        if not (self.idempotent and key in self.done):
            self.standing += 1
            self.effects += 1
            self.done |= {key}

    def take_back(self, key: str) -> None:
        if key not in self.undone:
            self.standing = 0
            self.undone |= {key}

    def mitigate(self, key: str) -> None:
        """Something is done about it; it stands as before."""
        self.mitigated |= {key}


def any_contract(tape: Tape, step: StepId) -> Contract:
    side_effect = not tape.once_in(8)
    kinds = [Reversibility.COMPENSATABLE, *Reversibility] if side_effect else [Reversibility.REVERSIBLE]
    reversibility = tape.pick(kinds)
    return Contract(
        topic=Topic(f"t{step}"),
        side_effect=side_effect,
        reversibility=reversibility,
        no_rollback="it is so" if reversibility is Reversibility.IRREVERSIBLE else None,
        idempotent=tape.pick([False, True]),
        atomic=tape.pick([False, True]),
        probe=tape.pick([False, True]),
        before=tape.once_in(6),
        retries=Retries(attempts=tape.pick([3, 2, 1])),
        undo_retries=Retries(attempts=tape.pick([2, 1])),
        on_incident=tape.pick([*OnIncident]),
        hold=reversibility is Reversibility.IRREVERSIBLE and tape.once_in(2),
        mitigation=reversibility is Reversibility.IRREVERSIBLE and not tape.once_in(3),
    )


def ways_into_queue(step: Step, now: int) -> list[c.Command]:
    """Another saga holds what a step needs: it waits, or may not."""
    wait = c.AwaitLock(step=step.id, resources=("r",), holder="another", until=now + 60_000)
    return [wait, wait, wait, c.RefuseLock(step=step.id, error="too many wait", deadlock=True)]


def throttled(step: Step, now: int) -> c.Command:
    """A rule's rate lets nothing more pass for a minute."""
    return c.ThrottleStep(step=step.id, rule="slowly", policy="p", most=1, per_s=60.0, until=now + 60_000)


def ends_of_queue(step: Step) -> list[c.Command]:
    """Its turn comes, or its time is up; meanwhile its approval may have become void."""
    ends: list[c.Command] = [*[c.TakeLock(step.id)] * 3, c.RefuseLock(step.id, "too long")]
    is_asked = step.approval is not None and step.approval.unsettled
    return [*ends, c.VoidApproval(step.id, "another policy")] if is_asked else ends
