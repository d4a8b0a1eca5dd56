"""A journal in PostgreSQL, shared by workers on any number of machines."""

from amends.journal.postgres.journal import PostgresJournal

__all__ = ["PostgresJournal"]
