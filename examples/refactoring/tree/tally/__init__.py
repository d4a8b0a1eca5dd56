"""Adds up what was spent, from lines such as `2024-03-01 food 12.50 lunch`."""

from tally.tools import report

__all__ = ["report"]
