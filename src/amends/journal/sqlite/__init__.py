"""The default journal: one SQLite file, for one machine. Only this package knows apsw."""

from amends.journal.sqlite.journal import SqliteJournal

__all__ = ["SqliteJournal"]
