"""Other programs and threads: how they are started, bounded and ended. Knows no sagas."""
