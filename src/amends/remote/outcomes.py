"""Reports: how a call that a client has made ended, in the words that it says it in, and what they mean."""

from __future__ import annotations

from typing import Any, Final, Literal, NotRequired, TypedDict, cast

from amends.core.words.outcomes import Answer, Failed, Found, FoundNothing, Lost, NoAnswer, Outcome, Succeeded
from amends.errors import InputError, NotJsonError, Reported, TooLargeError
from amends.runtime.declare.action import Happened, NotHappened
from amends.runtime.values.bounded import keep

Word = Literal["succeeded", "failed", "lost", "happened", "not_happened"]
_LONGEST: Final = 2000
PROBE: Final = "probe"
_OF_PROBES: Final = frozenset({"happened", "not_happened", "lost", "failed"})


class CallReport(TypedDict):
    """How a call ended. `failed`: certainly nothing happened. `lost`: nobody knows. The others are for probes."""

    outcome: Word
    result: NotRequired[Any]
    opaque: NotRequired[str]
    """Why the result cannot be kept, where it cannot."""
    why: NotRequired[str]
    fatal: NotRequired[bool]
    final: NotRequired[bool]
    changed_since: NotRequired[bool]
    after: NotRequired[float | None]
    where: NotRequired[str]


def require_fitting(report: CallReport, part: str) -> None:
    """Raises InputError for a word that says nothing of this part."""
    word = report["outcome"]
    is_answer = word in {"happened", "not_happened"}
    if is_answer != (part == PROBE) and not (part == PROBE and word in _OF_PROBES):
        right = "happened, not_happened, failed or lost" if part == PROBE else "succeeded, failed or lost"
        raise InputError(f"{word!r} says nothing of the {part} of a step; its outcome is {right}")


def ended(report: CallReport) -> Any:  # noqa: ANN401 - the client's own
    """The value that the call returned, by its report. Raises Reported."""
    match report["outcome"]:
        case "succeeded" if report.get("opaque"):
            raise Reported(Succeeded(None, opaque=report.get("opaque", "")[:_LONGEST]))
        case "succeeded":
            return report.get("result")
        case "happened":
            return Happened(report.get("result"))
        case "not_happened":
            return NotHappened()
        case "failed":
            raise Reported(
                Failed(
                    error=_words(report, "whoever made the call says that it failed"),
                    fatal=report.get("fatal", False),
                    final=report.get("final", False),
                    changed_since=report.get("changed_since", False),
                    after_s=_after(report),
                    where=report.get("where", "")[:_LONGEST],
                )
            )
        case "lost":
            raise Reported(
                Lost(
                    error=_words(report, "whoever made the call does not know how it ended"),
                    fatal=report.get("fatal", False),
                    final=report.get("final", False),
                    where=report.get("where", "")[:_LONGEST],
                )
            )


def outcome_of(report: CallReport, saga: str) -> Outcome:
    """The outcome of an attempt by its report, for the record."""
    try:
        return Succeeded(keep(ended(report), saga, "the result").value)
    except Reported as exc:
        return cast("Outcome", exc.outcome)
    except (NotJsonError, TooLargeError) as exc:
        return Succeeded(None, opaque=str(exc)[:_LONGEST])


def _words(report: CallReport, otherwise: str) -> str:
    return (report.get("why") or otherwise)[:_LONGEST]


def _after(report: CallReport) -> float | None:
    after = report.get("after")
    return None if after is None else max(0.0, after)


def reported(outcome: Outcome) -> CallReport:
    """The report of a call that this process has made."""
    match outcome:
        case Succeeded(opaque=opaque) if opaque:
            return {"outcome": "succeeded", "opaque": opaque}
        case Succeeded(result=result):
            return {"outcome": "succeeded", "result": result}
        case Failed():
            return {
                "outcome": "failed",
                "why": outcome.error,
                "fatal": outcome.fatal,
                "final": outcome.final,
                "changed_since": outcome.changed_since,
                "after": outcome.after_s,
                "where": outcome.where,
            }
        case Lost():
            return {
                "outcome": "lost",
                "why": outcome.error,
                "fatal": outcome.fatal,
                "final": outcome.final,
                "where": outcome.where,
            }


def answered(answer: Answer) -> CallReport:
    """The report of a probe that this process has asked."""
    match answer:
        case Found(result=result):
            return {"outcome": "happened", "result": result}
        case FoundNothing():
            return {"outcome": "not_happened"}
        case NoAnswer(error=error, where=where):
            return {"outcome": "lost", "why": error, "where": where}
