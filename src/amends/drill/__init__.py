"""Drills: a rehearsal of a saga with injected failures, and the question whether the world comes back.

report = await drill(book_trip, {"city": "Lisbon"})
assert report.passed
"""

from amends.drill.drilling import drill
from amends.drill.faults import Fault, Place, somebody_else
from amends.drill.findings import Finding, Mark
from amends.drill.report import Cell, Drilled, Report

__all__ = ["Cell", "Drilled", "Fault", "Finding", "Mark", "Place", "Report", "drill", "somebody_else"]
