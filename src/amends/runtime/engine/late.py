"""Ends of attempts that come late: after they were given up, or when who asked for the call has gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from amends.clock import Clock
from amends.core import commands as c
from amends.core.transitions import StepStatus
from amends.core.words.outcomes import Outcome, Succeeded
from amends.core.words.values import SagaId, StepId
from amends.dataclass import dataclass
from amends.errors import JournalBusyError, JournalFullError, JournalStoppedError, UnknownError
from amends.journal.port.journal import Journal
from amends.logs import logger

if TYPE_CHECKING:
    from amends.runtime.engine.local import LocalEngine


_AGAIN_S: Final = 5.0
_BETWEEN_S: Final = 0.1
_log = logger("amends.engine")


async def enrolled(engine: LocalEngine, saga: SagaId, command: c.EnrolLate, clock: Clock) -> bool:
    """Have a late end recorded; whether it could be. What the journal has no room for now is told again."""
    while True:
        try:
            await engine.request(saga, command)
        except (JournalFullError, JournalBusyError) as exc:
            _log.warning("saga %s: step %s ended late, which cannot be written yet: %s", saga, command.step, exc)
            await clock.sleep(_AGAIN_S)
        except JournalStoppedError as exc:
            _log.warning("saga %s: step %s ended late, which cannot be written any more: %s", saga, command.step, exc)
            return False
        else:
            return True


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnd:
    """How one attempt of a step ended, as whoever made the call tells it."""

    saga: SagaId
    step: StepId
    attempt: int
    outcome: Outcome


async def put_on_record(engine: LocalEngine, journal: Journal, clock: Clock, end: AttemptEnd, wait_s: float) -> None:
    """Put the end of an attempt on record whose driver has gone, or gave it up.

    Where it was found lost meanwhile, a success still is; any other end says nothing more than that.
    `wait_s`: how long to wait until the journal says that the driver has gone. Raises UnknownError where it does not by
    then, as the attempt may be under way in another process, and for an attempt that is not on record.
    """
    since = clock.elapsed()
    while not await _is_put_on_record(engine, journal, end):
        if clock.elapsed() - since >= wait_s:
            raise UnknownError(
                f"attempt {end.attempt} of step {end.step} of saga {end.saga} is under way in another process, as far "
                "as the journal says; report it there, or it is lost"
            )
        await clock.sleep(_BETWEEN_S)


async def _is_put_on_record(engine: LocalEngine, journal: Journal, end: AttemptEnd) -> bool:
    saga = end.saga
    async with engine.claims.of(saga):
        if not await _is_in_flight(engine, end):
            await _enrol(engine, end)  # by nobody's leave: whoever drives it goes on
            return True
        leases = () if engine.running(saga) is not None else await journal.claim(engine.worker, saga=saga)
        try:
            if leases and await _is_in_flight(engine, end):  # nobody drives it, and this is how that ended
                await engine.request(saga, c.RecordOutcome(step=end.step, outcome=end.outcome))
            elif leases:
                await _enrol(engine, end)
            return bool(leases)
        finally:
            for lease in leases:
                await journal.release(lease)


async def _is_in_flight(engine: LocalEngine, end: AttemptEnd) -> bool:
    step = (await engine.state(end.saga)).steps.get(end.step)
    if step is None or step.attempts < end.attempt:
        raise UnknownError(f"saga {end.saga} has no attempt {end.attempt} of step {end.step} on record")
    return step.status is StepStatus.RUNNING and step.attempts == end.attempt


async def _enrol(engine: LocalEngine, end: AttemptEnd) -> None:
    if isinstance(end.outcome, Succeeded):
        await engine.request(end.saga, c.EnrolLate(step=end.step, attempt=end.attempt, outcome=end.outcome))
