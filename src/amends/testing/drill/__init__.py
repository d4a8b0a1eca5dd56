"""Drills: a rehearsal of a saga with injected failures, and the question whether the world comes back.

report = await drill(book_trip, {"city": "Lisbon"})
assert report.passed
"""

from amends.testing.drill.drilling import drill
from amends.testing.drill.faults import Fault, Place
from amends.testing.drill.findings import Finding, Mark
from amends.testing.drill.others import somebody_else
from amends.testing.drill.report import Cell, Drilled, Report

__all__ = ["Cell", "Drilled", "Fault", "Finding", "Mark", "Place", "Report", "drill", "somebody_else"]
