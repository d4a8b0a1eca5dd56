"""The parts of a changeset, as data. Pure."""
