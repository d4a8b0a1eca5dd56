"""A saga's story for a person: its entries as lines."""
