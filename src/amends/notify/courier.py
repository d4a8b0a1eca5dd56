"""A courier tells one target, notice by notice, in the order of the log.

How far it has come is a cursor in the journal, which moves when a notice is delivered, and not before. So a notice is
delivered at least once, whatever dies, and a later one never before an earlier one. A target that is down holds up its
own notices and nobody else's: each target has its own courier.

Several processes may have a courier for the same target: four workers of one web server, say. They take turns by a mark
in the cursor's note: whoever has something to tell first writes its name there, its process, and until when, with a
compare-and-set.
That keeps two from telling the same thing as long as nobody oversleeps. Who does (its time was up, another took over)
finds when it wants to move the cursor that it has moved; then at most the one notice that it was telling was told
twice, under the same id. The mark also says when a failed notice is tried again, so that ten processes together try as
often as one, and a restart does not begin anew.

| what happens                             | what follows                                                             |
|------------------------------------------|--------------------------------------------------------------------------|
| the target fails, is slow, is not there  | tried again, first after a second, later each quarter of an hour         |
| it fails until the notice is too old     | given up: an error is logged, `status` counts it, the next one is tried  |
| SIGKILL before the cursor has moved      | told again, same id, at once: the mark names a process that is gone      |
| SIGKILL after it has moved               | nothing: the next notice is next                                         |
| two processes                            | one tells; the other looks again when the first is done, or its mark out |
| the journal cannot be written            | it may be told again later: what was told and what was kept differ by one |
| the clock is set back                    | a mark too far ahead counts as run out; a try is at most an hour late    |

A tree head is no entry of the log: after the log's notices the newest one that was signed is told, where it is another
one than last time, and at most every `heads_every_s`. Which one that was is kept with the cursor, so each is told at
least once or passed over for a newer one.

A target that is new is first told what waits for people now, and then everything. A notice that is older than
`give_up_s` is tried at least once all the same: it may be old because nothing ran that could have told it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from enum import Enum
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from amends.clock import Clock
from amends.errors import AmendsError, JournalStoppedError
from amends.evidence.sign.note import HEAD
from amends.journal.port.journal import Cursor, Journal
from amends.journal.port.leases import own_identity
from amends.logs import logger
from amends.notify.notice import Notice, head_notice, notice_of, wire_names
from amends.notify.progress import FOLDER, MARGIN_S, PACE, Progress, open_now, pending, progress_of
from amends.notify.target import Delivered, Delivery, Target, Undelivered, heads_every_s
from amends.secrets import told

_log = logger("amends.notices")
_CONTENDED_S: Final = 0.2
_MANY: Final = 1000  # entries that concern nobody; past so many the cursor is moved over them

Told: TypeAlias = Callable[[Target, Notice, Delivery], None]


class Left(Enum):
    """The work that is left after a round."""

    NOTHING = "nothing"
    UNTOLD = "a notice could not be delivered"
    HELD = "another process is at it"


class Rest(NamedTuple):
    """How a round ended, and how long until it is worth looking again."""

    left: Left
    wait_s: float


class Courier:
    def __init__(
        self,
        journal: Journal,
        target: Target,
        clock: Clock,
        *,
        poll_s: float,
        told: Told | None = None,
        look: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`look` is awaited before each round: it may put on record what nobody else does."""
        self.target = target
        self.names = wire_names(target.types)
        self._has_heads = HEAD in target.types
        self._journal = journal
        self._clock = clock
        self._poll_s = poll_s
        self._told = told
        self._look_first = look
        self._me, self._us = clock.new_id(), own_identity()
        self._lease_s = target.timeout_s + 2 * MARGIN_S
        self._clear_to = -1
        self._cursor = Cursor(f"{FOLDER}{target.name}")
        self._progress = Progress(position=0, target=target.shown, types=tuple(target.types), began=0)
        self._news = asyncio.Event()
        self._closing = False
        self._running: asyncio.Task[None] | None = None
        self._troubles = 0

    # -- living -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._running = asyncio.ensure_future(self._run())

    def wake(self) -> None:
        self._news.set()

    async def close(self, within_s: float) -> None:
        """Tell what has come by now, once, as far as that takes no longer than so."""
        self._closing = True
        self.wake()
        if self._running is not None:
            await asyncio.wait({self._running}, timeout=within_s)
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def _run(self) -> None:
        try:
            is_last = False
            while not is_last:
                is_last = self._closing
                wait_s = await self._safe_round()
                if not is_last:
                    await self._pause(wait_s)
        except JournalStoppedError as exc:
            _log.error("%s is not told of anything any more: %s", self.target.shown, exc)
        finally:
            await self._let_go()

    async def _safe_round(self) -> float:
        """A round, whatever comes of it; how long to wait."""
        try:
            if self._look_first is not None:
                await self._look_first()
            rest = await self.round()
        except JournalStoppedError:
            raise
        except AmendsError as exc:
            _log.warning("%s cannot be told of anything just now: %s", self.target.shown, exc)
        except Exception:  # noqa: BLE001 - a fault in telling one must not end the telling for good
            _log.exception("telling %s failed", self.target.shown)
        else:
            self._troubles = 0
            return rest.wait_s
        self._troubles += 1
        return PACE.delay_s(self._troubles, self._clock.jitter())

    async def _pause(self, wait_s: float) -> None:
        """Until the time is up, or something new is to be told."""
        waits = {asyncio.ensure_future(self._clock.sleep(wait_s)), asyncio.ensure_future(self._news.wait())}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()
        self._news.clear()

    # -- telling ------------------------------------------------------------------------------------------------------

    async def once(self) -> bool:
        """Tell what is pending, each notice with one try, whenever the next one is due. Whether nothing is left."""
        patience_s = self._lease_s
        while (rest := await self.round(hurried=True)).left is Left.HELD and patience_s > 0:
            wait_s = max(rest.wait_s, _CONTENDED_S)
            patience_s -= wait_s
            await self._clock.sleep(wait_s)
        await self._let_go()
        return rest.left is Left.NOTHING

    async def round(self, *, hurried: bool = False) -> Rest:
        """Tell what is pending, as far as the target goes along; `hurried` does not wait for the next try's time."""
        size = (await self._journal.tree()).size
        if size == self._clear_to and not self._has_heads:
            return Rest(Left.NOTHING, self._poll_s)
        if not await self._look(size):
            return Rest(Left.HELD, _CONTENDED_S)
        now = self._clock.now()
        held_s = self._progress.held_s(self._me, now, self._us)
        rests_s = 0.0 if hurried else self._progress.rests_s(now)
        if rests_s or held_s:
            return Rest(Left.HELD, min(held_s, self._poll_s)) if held_s else Rest(Left.UNTOLD, rests_s)
        if size != self._clear_to and self.names:
            async with contextlib.aclosing(pending(self._journal, self._progress)) as untold:
                async for logged in untold:
                    onward = partial(Progress.passed, position=logged.position)
                    rest = await self._tell(partial(notice_of, self._journal, logged), onward)
                    if rest is not None:
                        return rest
        rest = await self._tell_head(hurried=hurried) if self._has_heads else None
        if rest is not None:
            return rest
        await self._settle(size)
        self._clear_to = size
        return Rest(Left.NOTHING, self._poll_s)

    async def _tell_head(self, *, hurried: bool) -> Rest | None:
        """The newest tree head that was signed, where it is another one than last time, and not too soon after that."""
        newest, now = await self._journal.tree_head(), self._clock.now()
        if newest is None or newest.size == self._progress.head:
            return None
        since_s = (now - self._progress.head_at) / 1000
        if not hurried and 0 <= since_s < heads_every_s(self.target):
            return None

        async def notice() -> Notice:
            return head_notice(newest)

        return await self._tell(notice, partial(Progress.headed, size=newest.size, now=now))

    async def _tell(self, make: Callable[[], Awaitable[Notice]], onward: Callable[[Progress], Progress]) -> Rest | None:
        """One notice; `onward` goes past it, told or given up. None where the next one can follow."""
        if not await self._hold():
            return Rest(Left.HELD, _CONTENDED_S)
        notice = await make()
        delivery = await self._try(notice)
        if self._told is not None:
            self._told(self.target, notice, delivery)
        now, until = self._clock.now(), self._until()
        if isinstance(delivery, Delivered):
            _log.info("%s was told %s: %s %s", self.target.shown, notice.id, notice.type, notice.about)
            saved = await self._save(onward(self._progress).told(now).held(self._me, until, self._us))
        elif now - notice.at >= self.target.give_up_s * 1000:
            saved = await self._save(self._given_up(notice, onward, delivery.why).held(self._me, until, self._us))
        else:
            tries = self._progress.tries + 1
            wait_s = max(PACE.delay_s(tries, self._clock.jitter()), delivery.after_s)
            _log.warning(
                "%s could not be told %s (%s %s), try %d: %s; again in %.0f s",
                *(self.target.shown, notice.id, notice.type, notice.about, tries, delivery.why, wait_s),
            )
            await self._save(self._progress.failed(delivery.why, now, wait_s).let_go())
            return Rest(Left.UNTOLD, wait_s)
        return None if saved else Rest(Left.HELD, _CONTENDED_S)

    async def _try(self, notice: Notice) -> Delivery:
        try:
            return await self.target.deliver(notice, self._clock.now())
        except Exception as exc:  # noqa: BLE001 - whatever a target raises, it has not been told
            _log.exception("telling %s of %s failed", self.target.shown, notice.id)
            return Undelivered(told(exc))

    def _given_up(self, notice: Notice, onward: Callable[[Progress], Progress], why: str) -> Progress:
        what = f"{notice.type} {notice.about} ({notice.id})"
        tries = self._progress.tries + 1
        _log.error("%s is given up after %d tries: %s was never told; last: %s", what, tries, self.target.shown, why)
        return onward(self._progress).gave_up(f"{what}: {why}")

    # -- what the journal keeps ---------------------------------------------------------------------------------------

    async def _look(self, size: int) -> bool:
        """Learn how far the target has come; enrol one that is new. Whether that is certain."""
        found = [one for one in await self._journal.cursors(self._cursor.name) if one.name == self._cursor.name]
        shown, types = self.target.shown, tuple(self.target.types)
        if found:
            self._cursor = found[0]
            kept = progress_of(self._cursor)
            if (kept.target, kept.types) == (shown, types):
                self._progress = kept
                return True
            return await self._save(kept.of(shown, types))
        self._cursor = Cursor(self._cursor.name)
        position = 0 if await open_now(self._journal) else size
        return await self._save(Progress(position=position, target=shown, types=types, began=size))

    async def _hold(self) -> bool:
        """Have the mark for long enough for a try. Whether nobody else has come in between."""
        now, needed_s = self._clock.now(), self.target.timeout_s + MARGIN_S
        if self._progress.holder == self._me and self._progress.held_until - now >= needed_s * 1000:
            return True
        return await self._save(self._progress.held(self._me, self._until(), self._us))

    def _until(self) -> int:
        return self._clock.now() + round(self._lease_s * 1000)

    async def _settle(self, size: int) -> None:
        """All that the journal had at that size is told: move over what concerns nobody, and let others."""
        progress = self._progress
        if progress.position < progress.began or size - progress.position > _MANY:
            progress = progress.passed(max(size, progress.position))
        if progress.holder == self._me:
            progress = progress.let_go()
        if progress != self._progress:
            await self._save(progress)

    async def _let_go(self) -> None:
        if self._progress.holder == self._me:
            with contextlib.suppress(AmendsError):  # then the mark runs out by itself
                await self._save(self._progress.let_go())

    async def _save(self, progress: Progress) -> bool:
        kept = progress.cursor(self.target.name)
        moved = await self._journal.move_cursor(kept.name, kept.position, note=kept.note, since=self._cursor)
        if moved:
            self._cursor, self._progress = kept, progress
        return moved
