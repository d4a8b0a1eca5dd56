"""Files that people write for amends: strict YAML, data that knows its lines, and the list of what is wrong with it."""
