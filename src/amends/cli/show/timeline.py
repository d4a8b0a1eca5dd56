"""How sagas, incidents and timelines look: as parts of a line for a person, and as fields for a program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from amends.cli.show.output import Output, Part
from amends.core.events import StepThrottled
from amends.core.transitions import SagaStatus
from amends.core.words.values import BUILT_IN
from amends.evidence.story.timeline import Direction, Line, Tone
from amends.journal.port.journal import PARENT, ApprovalRow, IncidentRow, Journal, LeaseHolder, SagaRow
from amends.journal.port.locks import LockRow
from amends.operate.fields import DRIVEN, MAY_BE_DRIVEN, is_left
from amends.text import clock_time, counted, further, headline, lines_of, local_time, moment, span, spelled, visible

if TYPE_CHECKING:
    from amends.runtime.engine.handle import Ended

_TONES: Final[Mapping[Tone, str]] = {Tone.PLAIN: "", Tone.GOOD: "green", Tone.BAD: "red", Tone.DOUBT: "yellow"}
_DIRECTIONS: Final[Mapping[Direction, str]] = {
    Direction.FORWARD: "cyan",
    Direction.BACK: "magenta",
    Direction.PERSON: "bold red",
    Direction.SAGA: "bold",
}
_STATUSES: Final[Mapping[SagaStatus, str]] = {
    SagaStatus.RUNNING: "cyan",
    SagaStatus.WAITING: "yellow",
    SagaStatus.ROLLING_BACK: "magenta",
    SagaStatus.COMPLETED: "green",
    SagaStatus.ROLLED_BACK: "green",
    SagaStatus.MITIGATED: "yellow",
    SagaStatus.INCIDENT: "bold red",
    SagaStatus.PAUSED: "yellow",
}
_FAINT: Final = "dim"
_ON_BEHALF_OF: Final = "amends.on_behalf_of"
_SIGNS: Final[Mapping[str, str]] = {"+": "green", "-": "red", "@": "cyan"}
_WIDEST_STEP: Final = 16
_WIDEST_TOPIC: Final = 26

SAGA_HEADS: Final = (("ID", 26), ("STATUS", 12), ("SAGA", 24), ("ENV", 12), ("STARTED", 19), ("TOOK", 7), ("NOTE", 0))
SAGA_SPARE: Final = ("TOOK", "ENV", "STARTED")
APPROVAL_HEADS: Final = (
    ("ID", 28),
    ("STATUS", 9),
    ("SAGA", 20),
    ("TOPIC", 20),
    ("ASKED", 19),
    ("LEFT", 7),
    ("RULE", 0),
)
APPROVAL_SPARE: Final = ("ASKED", "SAGA")
INCIDENT_HEADS: Final = (
    ("ID", 28),
    ("STATUS", 8),
    ("OWNER", 16),
    ("SAGA", 20),
    ("OPENED", 19),
    ("KIND", 22),
    ("WHY", 0),
)
INCIDENT_SPARE: Final = ("OWNER", "SAGA", "OPENED")

LOCK_HEADS: Final = (("RESOURCE", 28), ("PLACE", 5), ("SAGA", 26), ("STEP", 6), ("ASKED", 19), ("UNTIL", 0))
LOCK_SPARE: Final = ("STEP", "ASKED")


# -- for a person -----------------------------------------------------------------------------------------------------


def cells(texts: Sequence[str], styles: Mapping[int, str]) -> tuple[Part, ...]:
    return tuple((text, styles.get(place, "")) for place, text in enumerate(texts))


def stands_part(row: SagaRow, driver: LeaseHolder | None) -> Part:
    """Where a saga stands; one that nobody drives does not run, whatever was last written of it."""
    return ("driver gone", "bold red") if is_left(row, driver) else status_part(row.status)


def driven_by(driver: LeaseHolder) -> str:
    """A living driver, and until when nobody else may take its sagas unless it is heard of again."""
    process = f"process {driver.pid}" if driver.pid else visible(driver.worker)
    until = "" if driver.until_at is None else f" until {local_time(driver.until_at):%H:%M:%S}"
    return f"{process}{until}"


def _driver_fact(row: SagaRow, driver: LeaseHolder | None, resume: str) -> Part | None:
    """Its driver, in one line; None where nothing is to be driven."""
    if row.status not in MAY_BE_DRIVEN:
        return None
    if driver is not None and not driver.is_gone:
        return f"{driven_by(driver)}, or longer if it renews ({visible(driver.worker)})"
    if row.status not in DRIVEN:
        return f"nobody just now; once it is due, {visible(resume)} goes on"
    who = "" if driver is None else f" ({visible(driver.worker)})"
    return f"gone{who}: it was {status_part(row.status)[0]}, and goes on with {visible(resume)}", "red"


async def rate_waited_for(journal: Journal, row: SagaRow) -> str:
    """Which rule's rate the newest entry of a saga that waits says it waits for; empty where it says something else."""
    if row.status is not SagaStatus.WAITING or row.open_approvals or row.pruned:
        return ""
    async for entry in journal.read(row.id, after=row.entries - 1):
        if not entry.is_removed and isinstance(entry.event, StepThrottled):
            return f"until {clock_time(entry.event.until, entry.at)} for rule {entry.event.rule}"
    return ""


def saga_cells(
    row: SagaRow, driver: LeaseHolder | None = None, resume: str = "amends resume", throttle: str = ""
) -> tuple[Part, ...]:
    """`resume` is the command that goes on with it, should nobody drive it."""
    incidents = "" if not row.open_incidents else f"open incidents: {row.open_incidents}"
    approvals = "" if not row.open_approvals else f"open approvals: {row.open_approvals}"
    is_driven = driver is not None and not driver.is_gone and row.status in MAY_BE_DRIVEN
    notes = [
        f"driver: {driven_by(driver)}" if driver is not None and is_driven else "",
        f"go on with: {resume}" if is_left(row, driver) else "",
        "pruned" if row.pruned else "",
        incidents,
        approvals,
        throttle,
        f"child of {row.labels[PARENT]}" if PARENT in row.labels else "",
        *_own_labels(row),
    ]
    took = span((row.ended_at or row.updated_at) - row.started_at)
    definition = f"{visible(row.definition)}/{row.version}"
    note = visible(" ".join(filter(None, notes)), 80)
    status, style = ("driver gone", "bold red") if is_left(row, driver) else (row.status, _STATUSES[row.status])
    texts = (visible(row.id), status, definition, visible(row.env), moment(row.started_at), took, note)
    return cells(texts, {1: style, 4: _FAINT, 5: _FAINT})


def _own_labels(row: SagaRow) -> list[str]:
    """Labels that people noted on it. What amends keeps there for itself says nothing to them, and `--json` has it."""
    return [f"{name}={value}" for name, value in row.labels.items() if not is_internal(name)]


def is_internal(label: str) -> bool:
    return label.startswith(BUILT_IN) or label in {"traceparent", "tracestate"}


def approval_cells(row: ApprovalRow, now: int) -> tuple[Part, ...]:
    is_open = row.status == "requested"
    left = time_left(row.expires_at, now) if is_open else "-"
    topic, rule = visible(row.topic), visible(row.rule)
    texts = (visible(row.id), row.status, visible(row.definition), topic, moment(row.requested_at), left, rule)
    return cells(texts, {1: "yellow" if is_open else _FAINT, 4: _FAINT})


def time_left(until: int, now: int) -> str:
    return span(until - now) if now < until else "expired"


def incident_cells(row: IncidentRow) -> tuple[Part, ...]:
    kind, why = row.kind.replace("_", " "), visible(row.why, 80)
    owner, opened = visible(row.owner) or "-", moment(row.opened_at)
    texts = (visible(row.id), row.status, owner, visible(row.definition), opened, kind, why)
    return cells(texts, {1: "bold red" if row.status == "open" else _FAINT, 4: _FAINT})


def lock_cells(row: LockRow) -> tuple[Part, ...]:
    place, until = ("holds", "its end") if row.place == 0 else (str(row.place), moment(row.until))
    texts = (visible(row.resource), place, visible(row.saga), visible(row.step), moment(row.asked_at), until)
    return cells(texts, {1: "" if row.place else "bold", 4: _FAINT, 5: _FAINT})


class Widths(NamedTuple):
    """How wide the columns of a timeline are that hold steps and topics."""

    step: int = 3
    topic: int = 16


NARROW: Final = Widths()


def widths(lines: Iterable[Line], so_far: Widths = NARROW) -> Widths:
    """For these lines and those before them."""
    step, topic = so_far
    for line in lines:
        step = max(step, min(len(line.step or ""), _WIDEST_STEP))
        topic = max(topic, min(len(line.topic), _WIDEST_TOPIC))
    return Widths(step, topic)


def widths_for(topics: Iterable[str]) -> Widths:
    """Columns that hold these topics from the first line on."""
    return NARROW._replace(topic=max((NARROW.topic, *(min(len(topic), _WIDEST_TOPIC) for topic in topics))))


def line_parts(line: Line, width: Widths = NARROW) -> tuple[tuple[Part, ...], Part]:
    """One line of a timeline: when, which way, which step; and beside that, what."""
    at = local_time(line.at)
    lead: tuple[Part, ...] = (
        (f"{at:%H:%M:%S}.{line.at % 1000:03d}  ", _FAINT),
        (f"{line.direction:<7}", _DIRECTIONS[line.direction]),
        (f" {line.step or '':>{width.step}}  ", "bold"),
        *([f"{line.topic:<{width.topic}}  "] if line.topic else []),
    )
    until = "" if line.until is None else f", until {clock_time(line.until, line.at)}"
    return lead, (f"{line.text}{until}", _TONES[line.tone])


def tell_line(out: Output, line: Line, width: Widths = NARROW, before: Part = "") -> None:
    """Say one line of a timeline, behind what it begins with, and below it what else its error said."""
    lead, text = line_parts(line, width)
    out.say_beside((before, *lead), text)
    words = before if isinstance(before, str) else before[0]
    tell_further(out, line.more, f"{words}{'':26}")


def tell_further(out: Output, lines: Iterable[str], indent: str = "  ") -> None:
    """The lines below an error's first, each behind a bar: none of them can pass for one of ours."""
    for line in lines:
        out.say_beside((f"{indent}| ",), line)


def status_part(status: SagaStatus) -> Part:
    return status.replace("_", " "), _STATUSES[status]


def ended_parts(ended: Ended) -> tuple[Part, ...]:
    """How a saga ended, in one line."""
    said: list[Part] = [f"saga {visible(ended.id)} ", status_part(ended.status)]
    if ended.status is SagaStatus.COMPLETED and ended.recorded is not None:
        said.append(f": {spelled(ended.recorded, 400)}")
    elif ended.why:
        said.append(f": {headline(_unnumbered(ended), 400)}")
    return tuple(said)


def ended_further(ended: Ended) -> tuple[str, ...]:
    """Lines below that one: what else it ended with."""
    return () if ended.status is SagaStatus.COMPLETED else further(_unnumbered(ended))


def _unnumbered(ended: Ended) -> str:
    return (ended.why or "").replace(f" (step {ended.step})", "")


def head_lines(row: SagaRow, driver: LeaseHolder | None, resume: str) -> tuple[tuple[Part, ...], ...]:
    """Facts of a saga before its timeline: one fact for each line. `resume` is the command that goes on."""
    took = span((row.ended_at or row.updated_at) - row.started_at)
    zone = local_time(row.started_at).strftime("%z")
    facts: list[tuple[str, Part]] = [
        ("saga", (visible(row.id), "bold")),
        ("definition", f"{visible(row.definition)}, version {row.version}"),
        ("status", stands_part(row, driver)),
        ("started", f"{moment(row.started_at)} {zone[:3]}:{zone[3:]} by {visible(row.actor)} in {visible(row.env)}"),
        ("took" if row.ended_at else "so far", f"{took}, {counted(row.entries, 'entry', 'entries')}"),
    ]
    driving = _driver_fact(row, driver, resume)
    if driving is not None:
        facts.append(("driver", driving))
    if row.pruned:
        facts.append(("content", "pruned: what its entries held was removed; their numbers, times and hashes are kept"))
    if PARENT in row.labels:
        facts.append(("child of", visible(row.labels[PARENT])))
    if _ON_BEHALF_OF in row.labels:
        facts.append(("acts for", visible(row.labels[_ON_BEHALF_OF])))
    if labels := _own_labels(row):
        facts.append(("labels", visible(" ".join(labels))))
    return tuple(((f"{name:<12}", _FAINT), fact) for name, fact in facts)


def diff_lines(diff: str) -> Iterator[tuple[str, str]]:
    """A diff's lines as they are in it, each with its style: what could pass for the end of one is an escape."""
    for line in lines_of(diff):
        sign = line[: 2 if line.startswith("|") else 1]
        yield sign + with_tabs(line[len(sign) :]), _SIGNS.get(sign[-1:], "")


def with_tabs(line: str) -> str:
    """A line of somebody's file or command, with its tabs, and with nothing else that a terminal would act upon."""
    return "\t".join(map(visible, line.split("\t")))
