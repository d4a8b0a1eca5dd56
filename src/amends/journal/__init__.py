"""The journal: what happened, in order, durable. The only truth; lists and states are made from it."""
