"""Users' values: their types, their secrets, and their size."""
