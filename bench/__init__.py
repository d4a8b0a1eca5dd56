"""Benchmarks: every figure is a ratio to a baseline that ran in the same process, minutes apart at most."""
