"""Proved names: people's keys, what they sign, and whether a decision on record is theirs."""
