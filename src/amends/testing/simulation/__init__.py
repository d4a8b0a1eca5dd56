"""The real runtime under a seeded scheduler: several processes, a virtual clock, and everything that can go wrong."""

from amends.testing.simulation.outside import Flaws
from amends.testing.simulation.schedule import Played, simulate
from amends.testing.simulation.tally import Tally, play

__all__ = ["Flaws", "Played", "Tally", "play", "simulate"]
