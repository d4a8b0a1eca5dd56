"""The gate: judges each action before it is dispatched, and each compensation before it runs."""
