"""Attacks by the clock: time that is set back or forth between a decision and its use."""
