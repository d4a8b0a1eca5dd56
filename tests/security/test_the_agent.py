"""Attacks by the agent itself: what it calls, returns, writes into files, and decides under its honest name."""
