"""Says at the end how much was tried, so that the documentation can quote it; keeps clocks out of property tests."""

import os
from collections import Counter
from typing import Any, cast

import pytest
from hypothesis import settings

from tests.parts import PART, PARTS, is_played

if "CI" not in os.environ:  # there hypothesis has a profile of its own: no deadline, the same examples every time
    settings.register_profile("unhurried", deadline=None)
    settings.load_profile("unhurried")

PLAYED = {
    "sample": ": the part of `make test`; `make test-all` plays the rest",
    "rest": ": the part of `make test-all`; `make test` plays the others",
    "all": "",
}
KINDS = {
    "died": "in-process: a death at every point",
    "died again": "in-process: another in the recovery from it",
    "killed": "SIGKILL of a forked process, on a real SQLite file",
    "slept": "asleep past its lease, taken over, woken",
    "slept and renewed": "the same, and the lease renewed first",
    "rivalled": "another worker waits for the lock, and takes nothing",
    "died slowly": "in-process: a death at every point where the lock is slow",
    "refused": "a full disk at every append",
}


def pytest_configure() -> None:
    if PART not in PARTS:
        raise pytest.UsageError(f"AMENDS_TESTS is {PART!r}: it has to be one of {', '.join(PARTS)}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the other part out: it is not skipped, it is not there."""
    out = [item for item in items if not is_played(in_rest=item.get_closest_marker("rest") is not None)]
    if out:
        config.hook.pytest_deselected(items=out)
        gone = set(out)
        items[:] = [item for item in items if item not in gone]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    totals: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    reports: list[pytest.TestReport] = terminalreporter.stats.get("passed", [])
    scenarios: dict[str, set[str]] = {kind: set() for kind in KINDS}
    for report in reports:
        for name, tried in report.user_properties:
            if name in totals:
                told = dict(cast(dict[str, Any], tried))
                scenarios[name].add(told.pop("scenario"))
                totals[name].update(told)
    if any(totals.values()):
        terminalreporter.section(f"crashes{PLAYED[PART]}")
    for kind, total in totals.items():
        if total:
            total["scenarios"] = len(scenarios[kind])
            counts = ", ".join(f"{total[what]:,} {what}" for what in ("scenarios", "points", "deaths", "histories"))
            terminalreporter.write_line(f"{KINDS[kind]}: {counts}")
    _tell_simulated(terminalreporter, reports)
    _tell_left_out(terminalreporter)
    tampered = Counter[str]()
    for report in reports:
        for name, tried in report.user_properties:
            if name == "tampered":
                tampered.update(cast(dict[str, int], tried))
    if tampered:
        terminalreporter.section(f"tampering{PLAYED[PART]}")
        for what, count in tampered.items():
            terminalreporter.write_line(f"{what}: {count:,}")
        terminalreporter.write_line(f"all of them seen, or named as unattested: {sum(tampered.values()):,}")


def _tell_left_out(terminalreporter: Any) -> None:
    """Tests of the model that did not run because its checker is not installed: that must not go by unseen."""
    skipped: list[pytest.TestReport] = terminalreporter.stats.get("skipped", [])
    left_out = [report for report in skipped if report.nodeid.startswith("tests/model/")]
    if left_out:
        told = cast(tuple[str, int, str], left_out[0].longrepr)[2].removeprefix("Skipped: ")
        terminalreporter.section("left out")
        terminalreporter.write_line(f"left out: {len(left_out)} of tests/model: {told}")


def _tell_simulated(terminalreporter: Any, reports: list[pytest.TestReport]) -> None:
    """What was simulated, how soon each ablation was found, and what storage went through."""
    sections = {
        "simulated": "simulated, and no promise broken",
        "ablated": "switched off, and found after so many schedules",
        "stored": "storage: nothing acknowledged was lost",
    }
    for kind, title in sections.items():
        total = Counter[str]()
        for report in reports:
            for name, tried in report.user_properties:
                if name == kind:
                    total.update(cast(dict[str, int], tried))
        if total:
            terminalreporter.section(title + ("" if kind == "ablated" else PLAYED[PART]))
            terminalreporter.write_line(", ".join(f"{count:,} {what}" for what, count in total.items()))
