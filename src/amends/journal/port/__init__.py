"""The port of every store: protocols, their data, and the rules that all stores share."""
