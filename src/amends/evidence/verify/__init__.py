"""Verifying: a bundle offline, or a journal where it lies."""
