"""Sagas as they go, one line each: which steps went forward, which went back, and what is done just now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from amends.cli.show.hints import modules_for
from amends.cli.show.output import Output
from amends.cli.show.timeline import driven_by, stands_part
from amends.clock import SystemClock
from amends.core.state.saga import Saga, Step, evolve, unstarted
from amends.core.transitions import SagaStatus, StepStatus
from amends.core.words.values import SagaId
from amends.errors import unknown_saga
from amends.journal.port.journal import Journal, LeaseHolder, SagaQuery, SagaRow
from amends.operate.fields import driven, driver_fields, entry_fields, is_left
from amends.text import clock_time, visible

LOOK_S: Final = 0.4
MOST: Final = 50
MOST_STEPS: Final = 24
LONGEST_ID: Final = 20
_GOING: Final = (SagaStatus.RUNNING, SagaStatus.WAITING, SagaStatus.ROLLING_BACK, SagaStatus.PAUSED)
_S = StepStatus
_MARKS: Final[dict[StepStatus, tuple[str, str]]] = {
    _S.PROPOSED: ("·", "dim"),
    _S.AWAITING: ("⧗", "yellow"),
    _S.READY: ("·", "dim"),
    _S.DENIED: ("⊘", "red"),
    _S.RUNNING: ("▶", "bold cyan"),
    _S.SUCCEEDED: ("■", "green"),
    _S.FAILED: ("✗", "red"),
    _S.UNKNOWN: ("?", "yellow"),
    _S.COMPENSATING: ("◀", "bold magenta"),
    _S.RECOMPENSATING: ("◀", "bold magenta"),
    _S.UNCOMPENSATED: ("!", "bold red"),
    _S.COMPENSATED: ("□", "magenta"),
    _S.MITIGATING: ("◁", "bold magenta"),
    _S.UNMITIGATED: ("!", "bold red"),
    _S.MITIGATED: ("◪", "magenta"),
    _S.SETTLED: ("▣", "dim"),
}
_WORDS: Final = {
    "■": "done",
    "▶": "running",
    "◀": "being taken back",
    "□": "taken back",
    "◁": "being mitigated",
    "◪": "stands, mitigated",
    "?": "lost",
    "✗": "failed",
    "⊘": "denied",
    "⧗": "waits for people",
    "!": "needs a person",
    "▣": "settled by hand",
}
_BACK: Final = frozenset({_S.COMPENSATING, _S.RECOMPENSATING, _S.UNCOMPENSATED, _S.MITIGATING, _S.UNMITIGATED})


@dataclass
class WatchedSaga:
    """One saga, as far as it has been read."""

    row: SagaRow
    state: Saga
    driver: LeaseHolder | None = None
    fresh: bool = field(default=True)

    @property
    def is_over(self) -> bool:
        return self.row.status.ended or self.row.status is SagaStatus.INCIDENT


class Watch:
    """Reads what is new of the sagas that are watched: those named, or whatever is going."""

    def __init__(self, journal: Journal, sagas: Iterable[str], out: Output) -> None:
        self._journal = journal
        self._named = tuple(map(SagaId, sagas))
        self._out = out
        self.seen: dict[SagaId, WatchedSaga] = {}

    @property
    def is_over(self) -> bool:
        """Whether all that were named have ended, or need a person."""
        return bool(self._named) and all(each.is_over for each in self.seen.values())

    async def look(self) -> None:
        for row, driver in await driven(self._journal, await self._rows()):
            known = self.seen.get(row.id)
            is_same = known is not None and _who(known.driver) == _who(driver)
            if known is not None and known.row == row:
                known.driver, known.fresh = driver, not is_same
                if not is_same:
                    self._tell_driver(row, driver)
                continue
            state = unstarted(row.id) if known is None else known.state
            async for entry in self._journal.read(row.id, after=state.head):
                state = evolve(state, entry.event)
                self._out.record("entry", entry_fields(entry))
            self.seen[row.id] = WatchedSaga(row, state, driver)
            if not is_same:
                self._tell_driver(row, driver)

    def _tell_driver(self, row: SagaRow, driver: LeaseHolder | None) -> None:
        told = driver_fields(row, driver)
        if told is not None:
            self._out.record("driver", {"saga": row.id, "status": row.status, **told})

    async def _rows(self) -> list[SagaRow]:
        names = self._named or [each.row.id for each in self.seen.values() if not each.is_over]
        rows = {row.id: row for name in names if (row := await self._journal.saga(name)) is not None}
        missing = [name for name in self._named if name not in rows]
        if missing:
            raise unknown_saga(missing[0])
        if not self._named:
            page = await self._journal.sagas(SagaQuery(statuses=_GOING, limit=MOST))
            rows |= {row.id: row for row in page.rows}
        return list(rows.values())

    # -- for a person -------------------------------------------------------------------------------------------------

    def drawn(self, width: int) -> RenderableType:
        newest = sorted(self.seen.values(), key=lambda each: each.row.started_at, reverse=True)[:MOST]
        if not newest:
            return Text("nothing is going; Ctrl-C ends this", style="dim")
        table = Table.grid(padding=(0, 2), expand=False)
        rows: list[tuple[Text, Text, Text, Text]] = []
        for each in newest:
            name = Text.assemble((_short_id(visible(each.row.id)), "bold"), " ", visible(each.row.definition))
            name.truncate(max(10, width // 3), overflow="ellipsis")
            rows.append((name, Text.assemble(stands_part(each.row, each.driver)), bar(each.state), _doing(each)))
        for place in range(3):  # only what is done now gives way where it is narrow
            table.add_column(no_wrap=True, min_width=max(row[place].cell_len for row in rows))
        table.add_column(overflow="fold")
        for row in rows:
            table.add_row(*row)
        return Group(table, Text(legend(each.state for each in newest), style="dim"))

    def lines(self) -> list[Text]:
        """Changes since the last look, a line each, where there is no terminal to draw on."""
        return [
            Text.assemble(
                f"{visible(each.row.id)}  ",
                stands_part(each.row, each.driver),
                "  ",
                bar(each.state),
                "  ",
                _doing(each),
            )
            for each in self.seen.values()
            if each.fresh
        ]


def _who(driver: LeaseHolder | None) -> tuple[str, bool] | None:
    """The driver, without the time, which each renewal moves."""
    return None if driver is None else (driver.worker, driver.is_gone)


def _doing(each: WatchedSaga) -> Text:
    """Work that is done just now, and by whom; where nobody does it, what to do."""
    if is_left(each.row, each.driver):
        resume = " ".join(("amends resume", *modules_for(each.state.begun)))
        return Text.assemble(now(each.state), (f"  go on with: {resume}", "red"))
    if each.is_over or each.driver is None or each.driver.is_gone:
        return now(each.state)
    return Text.assemble(now(each.state), (f"  {driven_by(each.driver)}", "dim"))


def _short_id(name: str) -> str:
    """A name that somebody chose, or the end of a long one: that is where those of the same hour differ."""
    return name if len(name) <= LONGEST_ID else f"…{name[-10:]}"


def legend(sagas: Iterable[Saga]) -> str:
    """Meanings of the marks that are to be seen."""
    seen = {_MARKS[step.status][0] for saga in sagas for step in saga.steps.values()}
    return "  ".join(f"{mark} {word}" for mark, word in _WORDS.items() if mark in seen)


def bar(saga: Saga) -> Text:
    """The steps in order, a mark each, and how many of them stand."""
    steps = list(saga.steps.values())
    drawn = Text("…" if len(steps) > MOST_STEPS else "", style="dim")
    for step in steps[-MOST_STEPS:]:
        mark, style = _MARKS[step.status]
        drawn.append(mark, style=style)
    standing = sum(step.status is _S.SUCCEEDED for step in steps)
    return drawn.append(f" {standing}/{len(steps)}", style="dim")


def now(saga: Saga) -> Text:
    """Work that is done just now, or what it has come to."""
    live: list[Step] = [saga.steps[step] for step in saga.live]
    if live:
        step = live[-1]
        way, style = ("back", "magenta") if step.status in _BACK else ("forward", "cyan")
        return Text.assemble((f"{way} ", style), visible(str(step.contract.topic)))
    throttle = next((step.throttle for step in saga.steps.values() if step.throttle is not None), None)
    if throttle is not None and not saga.open_incidents:
        until = clock_time(throttle.until, SystemClock().now())
        return Text(visible(f"waits until {until} for {throttle.words}"), style="yellow")
    if saga.open_incidents:
        return Text(visible(saga.open_incidents[-1].why, 200), style="red")
    if saga.rollback is not None:
        return Text(visible(saga.rollback.why, 200), style="dim")
    return Text("")


async def watch_sagas(journal: Journal, sagas: tuple[str, ...], out: Output, *, once: bool) -> None:
    """Show what is going until all of it is over, or for ever where nothing was named."""
    watched, clock = Watch(journal, sagas, out), SystemClock()
    await watched.look()
    if out.as_json or not out.console.is_terminal:
        while True:
            for line in watched.lines():
                out.say_text(line)
            if once or watched.is_over or out.is_gone:
                return
            await clock.sleep(LOOK_S)
            await watched.look()
    console = out.console
    with Live(watched.drawn(console.width), console=console, auto_refresh=False) as live:
        while not (once or watched.is_over):
            await clock.sleep(LOOK_S)
            await watched.look()
            live.update(watched.drawn(console.width), refresh=True)
