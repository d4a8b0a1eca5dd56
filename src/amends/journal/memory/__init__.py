"""The reference journal: plain dicts, for tests and simulation. It says what the port means, and keeps nothing."""

from amends.journal.memory.journal import MemoryJournal
from amends.journal.memory.state import Memory

__all__ = ["Memory", "MemoryJournal"]
