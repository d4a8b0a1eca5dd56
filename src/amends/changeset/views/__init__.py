"""Providers: ways to let Python and tools see the tree with a changeset's layers over it, and write into the newest."""
