"""The pure core: what happened, what is legal, what is due. No I/O, no clock, no randomness."""
