"""Layers: what a step changes, over what is below it."""
