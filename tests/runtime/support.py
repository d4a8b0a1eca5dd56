"""What the runtime's tests share: a small world to act on, and a clock that does not make anyone wait."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from amends import Action, Asked, Coordinator, Done, Happened, NotHappened, Registry, Settings, register
from amends.gate.load import BuiltinGate
from amends.journal.memory import Memory, MemoryJournal
from amends.journal.port.journal import Entry
from amends.testing.clock import ManualClock


class QuickClock(ManualClock):
    """Whoever sleeps moves the time himself."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)
        self.advance(max(0.0, seconds))


@dataclass
class World:
    """Everything that happened out there, in order."""

    seen: list[str] = field(default_factory=list[str])
    keys: list[str] = field(default_factory=list[str])

    def note(self, what: str) -> None:
        self.seen.append(what)

    def action(self, name: str, *fails: BaseException | None, result: Any = None, **contract: Any) -> Action[..., Any]:
        """An action `name` that notes each call, raising what is given for the first ones, with a compensation."""
        pending = list(fails)
        undo_fails = list(contract.pop("undo", ()))
        probe = contract.pop("probe", None)

        async def act(n: int = 0) -> Any:
            from amends import key

            self.note(f"{name}({n})" if n else name)
            self.keys.append(key())
            failure = pending.pop(0) if pending else None
            if failure is not None:
                raise failure
            return result

        async def undo(done: Done) -> None:
            self.note(f"un{name}" if done.certain else f"un{name}?")
            self.keys.append(done.key)
            failure = undo_fails.pop(0) if undo_fails else None
            if failure is not None:
                raise failure

        async def ask(asked: Asked) -> Happened | NotHappened:
            self.note(f"ask {name}")
            answer: BaseException | Happened | NotHappened = probe.pop(0)
            if isinstance(answer, BaseException):
                raise answer
            return answer

        declared = "no_rollback" in contract or contract.get("read_only") or contract.pop("undeclared", False)
        return register(
            f"test.{name}",
            act,
            compensation=None if declared else undo,
            probe=None if probe is None else ask,
            **contract,
        )


def coordinator(
    memory: Memory | None = None,
    *,
    env: str = "development",
    settings: Settings | None = None,
    clock: ManualClock | None = None,
    registry: Registry | None = None,
) -> Coordinator:
    used = clock or QuickClock()
    journal = MemoryJournal(used, memory)
    made = settings or Settings(lease_s=1_000_000, settle_s=1)
    return Coordinator(
        journal=journal, gate=BuiltinGate(), clock=used, env=env, settings=made, registry=registry or Registry()
    )


def names(entries: tuple[Entry, ...]) -> list[str]:
    return [entry.name.partition("/")[0] for entry in entries]
