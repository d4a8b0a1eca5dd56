"""Legal histories, made by a random walk over the core's tables."""
