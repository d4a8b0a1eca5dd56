"""Signing: keys, the notary that holds one, and signed notes."""
