"""The server between agents and the journal, under load."""
