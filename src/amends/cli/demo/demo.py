"""`amends demo`: a saga fails and makes amends; a process is killed in the middle of one, and another goes on."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
from pathlib import Path
from typing import Final, cast

import click

from amends.bootstrap import Coordinator
from amends.cli.demo import trip
from amends.cli.demo.trip import TripWorld
from amends.cli.journal import opened_to_read
from amends.cli.options import common
from amends.cli.session import Follower, followed, tell_ended
from amends.cli.show.output import Output
from amends.errors import InputError
from amends.runtime.engine.handle import Ended

FIRST: Final = "trip-1"
SECOND: Final = "trip-2"
LEFTOVERS: Final = 1


@click.command()
@click.option(
    "--pace", type=click.FloatRange(0, 5), default=0.35, show_default=True, help="Seconds that each call takes."
)
@click.option("--keep", metavar="DIR", help="Keep the journal and the world in this new directory.")
@click.option("--console", is_flag=True, help="Show the console instead, with an approval and an incident to decide.")
@common
def demo(*, pace: float, keep: str | None, console: bool, as_json: bool) -> int:
    """See a saga fail and make amends, and survive a kill -9.

    A trip is booked (flight, hotel, car), and then the card is declined. Everything is real: the journal is SQLite, the
    process that is killed is killed, and the world is a file that is shown at the end. With --console a server shows
    such sagas on pages, until Ctrl-C.
    """
    out = Output(as_json=as_json)
    with contextlib.ExitStack() as stack:
        if keep is None:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="amends-demo-")))
        else:
            place = Path(keep)
            try:
                place.mkdir(parents=True)
            except OSError as exc:
                raise InputError(f"--keep {keep}: {exc.strerror}; name a directory that can be made") from None
        if console:
            from amends.cli.demo.console import show_console

            return asyncio.run(show_console(out, place))
        return asyncio.run(_Show(out, place, pace).whole())


class _Show:
    def __init__(self, out: Output, place: Path, pace_s: float) -> None:
        self._out = out
        self._journal = str(place / "amends.db")
        self._world = place / "world.txt"
        self._pace_s = pace_s
        self._acts = 0

    async def whole(self) -> int:
        world = trip.TripWorld(self._world, pace_s=self._pace_s)
        trip.act_upon(world)
        self._out.say(("A trip is booked: a flight, a hotel, a car, then the card is charged.", "bold"))
        self._out.say("Each line below was on disk, in the journal, before the next thing was done.")
        await self._card_is_declined()
        seen = await self._kill_in_the_middle()
        await self._another_goes_on(seen)
        return self._show_world(world)

    def _act(self, title: str, *lines: str) -> None:
        self._acts += 1
        self._out.record("act", {"number": self._acts, "title": title})
        self._open(f"Act {self._acts}: {title}", *lines)

    def _open(self, title: str, *lines: str) -> None:
        self._out.say()
        self._out.title(title)
        for line in lines:
            self._out.say(line)
        self._out.say()

    async def _card_is_declined(self) -> None:
        self._act(
            "the card is declined",
            "The bank says no, for good. What was booked is taken back, newest first.",
        )
        async with Coordinator.open(self._journal) as coordinator:
            handle = await coordinator.start(trip.book_trip, **trip.TRIP, id=FIRST)
            ended = await followed(coordinator, handle.id, handle, self._out)
        self._out.say()
        tell_ended(self._out, ended)

    async def _kill_in_the_middle(self) -> int:
        """Let a child book the second trip, and kill it where it stands still; how many entries it left behind."""
        self._act(
            "kill -9 in the middle",
            "Another process books the next trip. It is killed when the hotel has the booking",
            "and the journal does not know it yet.",
        )
        words = [self._journal, str(self._world), SECOND, str(self._pace_s)]
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", trip.__name__, *words, stdout=asyncio.subprocess.PIPE
        )
        try:
            async with opened_to_read(self._journal) as opened:
                follower = Follower(opened, SECOND, self._out)
                async for word in cast("asyncio.StreamReader", child.stdout):
                    await follower.catch_up()
                    if word.decode().strip() == trip.STANDS_STILL:
                        break
        finally:
            if child.returncode is None:
                child.kill()
            code = await child.wait()
        self._out.record("killed", {"pid": child.pid, "exit_code": code})
        self._out.say()
        self._out.say((f"kill -9 {child.pid}", "bold red"), f"  the process is gone, with exit code {code}")
        self._out.say("the world says:   ", " ".join(trip.TripWorld(self._world).facts()[-1][1:3]), " is booked")
        self._out.say("the journal says: hotel.book was begun, and nothing else")
        return follower.seen

    async def _another_goes_on(self, seen: int) -> None:
        self._act(
            "another process goes on",
            "Nobody knows how the hotel's attempt ended, so the hotel is asked.",
            "Then the trip goes on, until the card is declined again.",
        )

        async with Coordinator.open(self._journal) as coordinator:

            async def resumed() -> Ended:
                (ended,) = await coordinator.resume()
                return ended

            ended = await followed(coordinator, SECOND, resumed(), self._out, after=seen)
        self._out.say()
        tell_ended(self._out, ended)

    def _show_world(self, world: TripWorld) -> int:
        """The file as it is, and what is left when each amends is set against its booking."""
        facts = world.facts()
        left: dict[str, int] = {fact.kind: 0 for fact in facts}
        self._open("The world", "This is the file that the flight company, the hotel and the car rental wrote.")
        for fact in facts:
            self._out.record("world", fact._asdict())
            left[fact.kind] += 1 if fact.sign == "+" else -1
            style = "cyan" if fact.sign == "+" else "magenta"
            word = "booked" if fact.sign == "+" else "taken back"
            self._out.say((f"{fact.sign} {fact.kind:<8}{fact.number:<5}{word:<12}", style), (fact.what, "dim"))
        self._out.record("left", left)
        self._out.say()
        self._out.say("left in the world: ", (", ".join(f"{kind} {number}" for kind, number in left.items()), "bold"))
        if any(left.values()) or len(set(facts)) != len(facts):
            self._out.say(("something was not taken back", "bold red"))
            return LEFTOVERS
        self._out.say(("Two trips failed, one with a dead process; each booking was taken back, once.", "green"))
        return 0
