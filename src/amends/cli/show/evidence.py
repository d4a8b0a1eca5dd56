"""How the check of a bundle or a journal looks, and what judging its verdicts again has found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from amends.cli.show.output import Output, Part, hint
from amends.evidence.bundle import Read
from amends.evidence.verify.examine import DAMAGED, Conclusion, VerificationReport
from amends.operate.proof import spelled_moment
from amends.runtime.coordinator.recompute import Again, Held, recomputed
from amends.text import counted, visible

UNATTESTED: Final = 7
FAILED: Final = 8
UNREADABLE: Final = 9
_CODES: Final = {Conclusion.COVERED: 0, Conclusion.UNATTESTED: UNATTESTED, Conclusion.FAILED: FAILED}
_LONGEST_RUNS: Final = 60
_MOST_SHOWN: Final = 20
_LONGEST_WHY: Final = 200


def tell_report(out: Output, report: VerificationReport, *, is_journal: bool = False) -> int:
    """Say what a check has found; the exit code."""
    fields = report.fields()
    out.record("verification", fields)
    for name, spans, style in (
        ("covered", report.covered, "green"),
        ("unattested", report.unattested, "yellow"),
        ("missing", report.missing, "bold red"),
        ("altered", report.altered, "bold red"),
    ):
        count = len(spans) + (report.hidden if name == "missing" else 0)
        runs = str(spans)
        shown = runs if len(runs) <= _LONGEST_RUNS else f"{runs[:_LONGEST_RUNS].rpartition(',')[0]}, …"
        cell: Part = (f"{count:>9}", style if count else "dim")
        out.say((f"{name:<11}", "dim"), cell, f"  {shown}")
    if len(report.unproved):
        out.say((f"{'unproved':<11}", "dim"), (f"{len(report.unproved):>9}", "bold red"), f"  {report.unproved}")
    if report.proved:
        out.say((f"{'proved':<11}", "dim"), f"{report.proved:>9}", "  decisions, signed by whoever made them")
    _tell_removals(out, report)
    for line in (*report.troubles, *report.findings):
        out.say(("! ", "bold red"), visible(line, 400))
    out.say(_SAYS[report.conclusion])
    if report.troubles and is_journal:
        hint(DAMAGED)
    return _CODES[report.conclusion]


def _tell_removals(out: Output, report: VerificationReport) -> None:
    if not report.removed:
        return
    said = "  what they held was removed; they are counted above"
    out.say((f"{'removed':<11}", "dim"), f"{report.removed:>9}", said)
    for one in report.removals[:_MOST_SHOWN]:
        by, why = visible(one.said.by), visible(one.said.why, _LONGEST_WHY)
        did = "found gone, and vouches for, what" if one.said.was_gone else "removed what"
        days = {spelled_moment(at)[:10] for at in (one.first_at, one.last_at)}
        when = " to ".join(sorted(days))
        entries = counted(one.entries, "entry", "entries")
        out.say(f"  {by} {did} {entries} of {counted(one.sagas, 'saga')} held, {when}: {why}")
    if len(report.removals) > _MOST_SHOWN:
        out.say(f"  and {len(report.removals) - _MOST_SHOWN} more; --json has them all")
    if len(report.gone) and report.may_be_gone:
        out.say(f"  of {len(report.gone)} no entry says who removed them: that is taken as it is")


_SAYS: Final[dict[Conclusion, Part]] = {
    Conclusion.COVERED: ("as it was signed", "green"),
    Conclusion.UNATTESTED: ("nothing is wrong, but not everything is signed yet", "yellow"),
    Conclusion.FAILED: ("NOT as it was signed", "bold red"),
}


# -- judged again ----------------------------------------------------------------------------------------------------


_STYLES: Final = {Held.SAME: "green", Held.OTHER: "bold red", Held.UNKNOWN: "yellow"}


def tell_recomputed(out: Output, read: Read) -> bool:
    """Say which verdicts are not what their policies say; whether there is none."""
    found = [*recomputed(read.sagas, is_whole=read.is_whole, texts=read.policies)]
    counts = Counter(each.held for each in found)
    for each in found:
        if each.held is not Held.SAME:
            out.record("verdict", {**each._asdict(), "held": str(each.held)})
    _tell_some(out, [each for each in found if each.held is Held.OTHER])
    _tell_unknown(out, [each for each in found if each.held is Held.UNKNOWN])
    out.record("recomputed", {str(held): counts[held] for held in Held})
    said = f"{counted(counts[Held.SAME], 'verdict')} as the policy says, {counts[Held.OTHER]} not"
    worst = Held.OTHER if counts[Held.OTHER] else Held.UNKNOWN if counts[Held.UNKNOWN] else Held.SAME
    out.say((f"{said}, {counts[Held.UNKNOWN]} unknown", _STYLES[worst]))
    return not counts[Held.OTHER]


def _tell_some(out: Output, others: Sequence[Again]) -> None:
    for each in others[:_MOST_SHOWN]:
        where = f"saga {visible(each.saga)}, entry {each.entry} ({visible(each.topic)})"
        out.say(("! ", "bold red"), f"{where}: {visible(each.why, 400)}")
    if len(others) > _MOST_SHOWN:
        out.say(f"  and {len(others) - _MOST_SHOWN} more; --json has them all")


def _tell_unknown(out: Output, unknown: Iterable[Again]) -> None:
    for why, count in Counter(each.why for each in unknown).most_common(_MOST_SHOWN):
        out.say(("? ", "yellow"), f"{counted(count, 'verdict')}: {visible(why, 400)}")
