"""What every driver of one worker shares. Does nothing itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from amends.clock import Clock
from amends.core.outcomes import Lost, Succeeded
from amends.core.values import SagaId, StepId
from amends.core.verdict import Rate
from amends.gate.protocol import Gate
from amends.runtime.drills import Drills
from amends.runtime.executor import Executor
from amends.runtime.pauses import Pauses
from amends.runtime.policies import Policies
from amends.runtime.registry import Registry
from amends.runtime.settings import Settings
from amends.runtime.turns import Turns


class Admit(Protocol):
    async def __call__(self, *rates: Rate) -> tuple[int, ...]: ...


EndedLate = Callable[[SagaId, StepId, int, Succeeded | Lost], None]


class Surroundings:
    def __init__(  # noqa: PLR0913 - they are many, each by name
        self,
        *,
        clock: Clock,
        gate: Gate,
        registry: Registry,
        settings: Settings,
        executor: Executor,
        admit: Admit,
        late: EndedLate,
        drills: Drills,
        pauses: Pauses,
        turns: Turns,
        lease_in_time: Callable[[], bool],
    ) -> None:
        self.clock = clock
        self.gate = gate
        self.policies = gate if isinstance(gate, Policies) else None
        self.registry = registry
        self.settings = settings
        self.executor = executor
        self.admit = admit
        self.late = late
        self.drills = drills
        self.pauses = pauses
        self.turns = turns
        self.lease_in_time = lease_in_time
        self.lapses = 0
        """How often this worker was late to renew: others may have taken its sagas over since, alive as it is now."""
        self.undeclared: set[str] | None = None
        """The undeclared actions that were warned of, where nobody said in which environment this runs."""
        self.threads: dict[tuple[SagaId, StepId], asyncio.Event] = {}
        """Those that were given up and still run, whoever drives their saga now."""
