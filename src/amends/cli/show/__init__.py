"""How things look on a terminal: timelines, approvals, incidents, policies, tables."""
