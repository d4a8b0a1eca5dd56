"""Crashes: die at every point, recover, and hold the journal against the world."""
