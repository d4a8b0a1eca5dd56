"""Attacks by a colleague: another user of the machine who can make files in a directory that is not theirs alone."""
