"""Declaring: actions, definitions, limits, and the registry that knows them by name."""
