"""A saga drawn in two directions: its steps go down to the line in the middle, their compensations away from it. Pure.

Each step has a lane. Above the line stand attempts, and waits between them; below it, in mirrored order, what took
each step back, joined to it. Time runs from left to right, long stretches shortened: what happened in a millisecond
and what took a day are both to be seen. A stretch in which nothing ran is a gap that says how long it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from amends.core import events as e
from amends.core.state.saga import Saga
from amends.core.words.values import StepId
from amends.dataclass import dataclass
from amends.journal.port.journal import Entry, SagaRow
from amends.text import span

MOST_LANES: Final = 60
"""So many steps are drawn at once; the page has links to those before and after."""
WIDTH: Final = 960
LABELS: Final = 230
LANE: Final = 26
BAR: Final = 16
_GAP: Final = 54
_LEAST: Final = 5.0
_LEAST_BAR: Final = 6.0
_IDLE_MS: Final = 400
_PAD: Final = 12
_BEND: Final = 6.0

_ENDED_WELL: Final = (e.AttemptSucceeded, e.ProbeFound, e.LateSuccessEnrolled)
_UNDONE: Final = (e.CompensationSucceeded, e.MitigationSucceeded)
_BACK_BEGAN: Final = (e.CompensationStarted, e.MitigationStarted)
_BACK_FAILED: Final = (e.CompensationFailed, e.CompensationLost, e.MitigationFailed, e.MitigationLost)
_ANSWERED: Final = (e.ApprovalGranted, e.ApprovalRefused, e.ApprovalExpired, e.ApprovalVoided)


@dataclass(slots=True, kw_only=True)
class DrawnStretch:
    """A stretch of time of one step. `until` is None while it lasts. kind: attempt, wait, back."""

    kind: str
    since: int
    until: int | None = None
    tone: str = "running"
    says: str = ""


@dataclass(slots=True, kw_only=True)
class StepLane:
    """Everything that one step, or one wait of the saga, did with its time."""

    step: StepId
    name: str
    is_step: bool = True
    child: str = ""
    """The saga that it called."""
    stretches: list[DrawnStretch]

    def last(self, kind: str) -> DrawnStretch | None:
        return next((one for one in reversed(self.stretches) if one.kind == kind), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    x: float
    y: float
    width: float
    kind: str
    tone: str
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnLane:
    step: StepId
    name: str
    is_step: bool
    child: str
    y: float
    bars: tuple[Bar, ...]
    back_y: float
    back: tuple[Bar, ...]
    link: str
    """The path from its last bar above the line to its first below; empty where it was not taken back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    x: float
    width: float
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    width: int
    height: float
    middle: float
    labels: int
    lanes: tuple[DrawnLane, ...]
    gaps: tuple[Gap, ...]
    first: int
    """The number of the first lane that is drawn, of `of` in all."""
    of: int

    @property
    def goes_back(self) -> bool:
        return any(lane.back for lane in self.lanes)


def drawn(
    saga: Saga, entries: Sequence[Entry], now: int, *, children: Mapping[StepId, SagaRow] | None = None, first: int = 1
) -> Drawing | None:
    """The drawing of a saga's lanes from the `first` on; None where no step began. children: by the calling step."""
    lanes = lanes_of(saga, entries)
    for lane in lanes:
        child = (children or {}).get(lane.step)
        if child is not None:
            lane.name, lane.child = child.definition, child.id
    if not lanes:
        return None
    first = max(1, min(first, len(lanes)))
    shown = lanes[first - 1 : first - 1 + MOST_LANES]
    scale = _Scale(shown, now)
    ups, downs = len(shown), [lane for lane in reversed(shown) if lane.last("back") is not None]
    middle = ups * LANE + _PAD
    places = {lane.step: middle + _PAD + number * LANE for number, lane in enumerate(downs)}
    height = middle + _PAD + len(downs) * LANE + (_PAD if downs else 0)
    drawn_lanes = tuple(
        _lane(lane, number * LANE + 4.0, places.get(lane.step, 0.0), scale) for number, lane in enumerate(shown)
    )
    return Drawing(
        width=WIDTH,
        height=height,
        middle=middle,
        labels=LABELS,
        lanes=drawn_lanes,
        gaps=scale.gaps,
        first=first,
        of=len(lanes),
    )


def _lane(lane: StepLane, y: float, back_y: float, scale: _Scale) -> DrawnLane:
    above = tuple(scale.bar(one, y) for one in lane.stretches if one.kind != "back")
    below = tuple(scale.bar(one, back_y) for one in lane.stretches if one.kind == "back")
    link = ""
    if above and below:
        done = [bar for bar in above if bar.kind == "attempt"] or list(above)
        link = _joined(done[-1].x + done[-1].width, y + BAR / 2, below[0].x + 4, back_y)
    return DrawnLane(
        step=lane.step,
        name=lane.name,
        is_step=lane.is_step,
        child=lane.child,
        y=y,
        bars=above,
        back_y=back_y,
        back=below,
        link=link,
    )


def _joined(x: float, top: float, to: float, bottom: float) -> str:
    """A line on from a bar to above what took it back, and down to that: newest first, so none crosses another."""
    if to - _BEND < x:
        return f"M{x:.1f} {top:.1f} L{to:.1f} {bottom:.1f}"
    return f"M{x:.1f} {top:.1f} H{to - _BEND:.1f} Q{to:.1f} {top:.1f} {to:.1f} {top + _BEND:.1f} V{bottom:.1f}"


# -- time to places ---------------------------------------------------------------------------------------------------


class _Scale:
    """Where a time stands. Between two moments at which anything began or ended, time runs evenly."""

    def __init__(self, lanes: Iterable[StepLane], now: int) -> None:
        self._now = now
        spans = [(one.since, self._end(one), one.kind) for lane in lanes for one in lane.stretches]
        moments = sorted({moment for since, until, _ in spans for moment in (since, until)})
        active = [(since, until) for since, until, kind in spans if kind != "wait"]
        wanted: list[tuple[float, bool]] = []
        for since, until in pairwise(moments):
            is_active = any(begun <= since and until <= ended for begun, ended in active)
            is_gap = not is_active and until - since >= _IDLE_MS
            wanted.append((0.0 if is_gap else max(1.0, (until - since) ** 0.5), is_gap))
        room = WIDTH - LABELS - 2 * _PAD
        gaps = sum(is_gap for _, is_gap in wanted)
        gap_width = min(_GAP, room / 2 / gaps) if gaps else 0.0
        left = room - gaps * gap_width - _LEAST * (len(wanted) - gaps)
        total = sum(weight for weight, _ in wanted) or 1.0
        self._places: dict[int, float] = {}
        found: list[Gap] = []
        x = float(LABELS + _PAD)
        for moment, (weight, is_gap), until in zip(moments, wanted, moments[1:], strict=False):
            self._places[moment] = x
            width = gap_width if is_gap else _LEAST + max(0.0, left) * weight / total
            if is_gap:
                found.append(Gap(x=x, width=width, says=span(until - moment)))
            x += width
        if moments:
            self._places[moments[-1]] = x
        self.gaps = tuple(found)

    def _end(self, one: DrawnStretch) -> int:
        return max(one.since, self._now if one.until is None else one.until)

    def bar(self, one: DrawnStretch, y: float) -> Bar:
        x, end = self._places[one.since], self._places[self._end(one)]
        lasted = span(self._end(one) - one.since)
        says = f"{one.says}, {lasted}" if one.until is not None else f"{one.says}, for {lasted} so far"
        return Bar(x=x, y=y, width=max(_LEAST_BAR, end - x), kind=one.kind, tone=one.tone, says=says)


# -- entries to lanes -------------------------------------------------------------------------------------------------


def lanes_of(saga: Saga, entries: Iterable[Entry]) -> list[StepLane]:
    """One lane a step, in the order in which they came, with those of the saga's own waits among them."""
    lanes: dict[StepId, StepLane] = {}
    over = 0
    for entry in entries:
        if entry.is_removed:
            continue
        over = entry.at
        event = entry.event
        if isinstance(event, (e.StepProposed, e.ActionDispatched)):
            lanes[event.step] = StepLane(step=event.step, name=event.topic, stretches=[])
        if isinstance(event, (e.WaitStarted, e.WaitEnded)):
            _note_wait(lanes, event, entry.at)
            continue
        lane = lanes.get(getattr(event, "step", None) or StepId(""))
        if lane is not None:
            _note(lane, event, entry.at)
    if saga.phase.ended:
        for lane in lanes.values():
            for one in lane.stretches:
                one.until = over if one.until is None else one.until
    return [lane for lane in lanes.values() if lane.stretches]


def _note_wait(lanes: dict[StepId, StepLane], event: e.WaitStarted | e.WaitEnded, at: int) -> None:
    if isinstance(event, e.WaitStarted):
        says = f"waits for {event.name}" if event.name else "sleeps"
        wait = DrawnStretch(kind="wait", since=at, tone="doubt", says=says)
        lanes[event.place] = StepLane(step=event.place, name=says, is_step=False, stretches=[wait])
    elif event.place in lanes:
        _end(lanes[event.place], "wait", at, "doubt")


def _note(lane: StepLane, event: e.Event, at: int) -> None:
    if isinstance(event, (e.ActionDispatched, e.AttemptStarted)):
        _end(lane, "wait", at, "doubt")
        number = 1 if isinstance(event, e.ActionDispatched) else event.attempt
        lane.stretches.append(DrawnStretch(kind="attempt", since=at, says=f"attempt {number}"))
    elif isinstance(event, _BACK_BEGAN):
        what = "compensation" if isinstance(event, e.CompensationStarted) else "mitigation"
        lane.stretches.append(DrawnStretch(kind="back", since=at, says=f"{what}, attempt {event.attempt}"))
    elif isinstance(event, (e.CompensationDenied, e.MitigationDenied)):
        lane.stretches.append(DrawnStretch(kind="back", since=at, until=at, tone="bad", says=f"denied by {event.rule}"))
    elif isinstance(event, _ENDED_WELL):
        _end(lane, "attempt", at, "good")
    elif isinstance(event, (e.AttemptFailed, e.AttemptLost, e.LateLossEnrolled)):
        _end(lane, "attempt", at, "bad" if isinstance(event, e.AttemptFailed) else "doubt")
        if getattr(event, "retry_at", None) is not None:
            lane.stretches.append(DrawnStretch(kind="wait", since=at, tone="doubt", says="waits for the next try"))
    elif isinstance(event, _UNDONE):
        _end(lane, "back", at, "good")
    elif isinstance(event, _BACK_FAILED):
        _end(lane, "back", at, "bad")
    elif isinstance(event, e.ApprovalRequested):
        lane.stretches.append(DrawnStretch(kind="wait", since=at, tone="doubt", says="waits for people"))
    elif isinstance(event, e.LockAwaited):
        lane.stretches.append(DrawnStretch(kind="wait", since=at, tone="doubt", says=f"waits for saga {event.holder}"))
    elif isinstance(event, e.StepThrottled):
        lane.stretches.append(DrawnStretch(kind="wait", since=at, tone="doubt", says=f"waits for rate {event.rule}"))
    elif isinstance(event, (*_ANSWERED, e.ActionDenied, e.LockTaken, e.LockRefused)):
        refused = isinstance(event, (e.ApprovalRefused, e.ApprovalExpired, e.ActionDenied, e.LockRefused))
        _end(lane, "wait", at, "bad" if refused else "doubt")
        if isinstance(event, e.ActionDenied) and not lane.stretches:
            lane.stretches.append(
                DrawnStretch(kind="attempt", since=at, until=at, tone="bad", says=f"denied by {event.rule}")
            )


def _end(lane: StepLane, kind: str, at: int, tone: str) -> None:
    """End what lasts of this kind; a probe that speaks later says how the last attempt really ended."""
    found = lane.last(kind)
    if found is None:
        return
    if found.until is None:
        found.until = at
        found.tone = tone
    elif kind == "attempt" and tone == "good":
        found.tone = tone
