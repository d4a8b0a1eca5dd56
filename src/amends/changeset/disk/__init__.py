"""The disk: every call that reads or changes it."""
