"""Landing: what would change, making it so, and taking it back."""
