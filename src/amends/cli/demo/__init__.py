"""`amends demo`, and the trip that it books."""
