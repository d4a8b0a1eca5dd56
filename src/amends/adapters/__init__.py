"""Adapters: agent frameworks, each in a module of its own that needs an extra."""
