"""Telemetry, for the tools that watch systems: OpenTelemetry spans and metrics, CloudEvents. Judges nothing.

A saga knows nothing of it: it is told of entries that are durable already, and what it raises stops there. Neither
secrets nor idempotency keys leave by this way; arguments and results do only as CloudEvents.
"""
