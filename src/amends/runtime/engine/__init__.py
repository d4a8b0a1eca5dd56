"""The engine: one worker, its leases, and the sagas that it drives."""
