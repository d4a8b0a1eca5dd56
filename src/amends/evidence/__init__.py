"""What happened, shown to a person."""
