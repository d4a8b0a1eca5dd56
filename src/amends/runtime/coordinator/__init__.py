"""The coordinator: the object that users hold."""
