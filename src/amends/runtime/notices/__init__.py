"""Telling others: a command or a webhook hears of new approvals and incidents, by way of the journal's log."""
