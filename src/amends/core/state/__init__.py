"""A saga's state: the fold of its facts, and what can be read off it. Pure."""
