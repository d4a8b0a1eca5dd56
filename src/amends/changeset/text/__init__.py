"""Texts: lines, three-way merges, diffs. Pure."""
