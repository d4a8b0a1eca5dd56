"""Versioned JSON documents in the same store as the sagas that change them."""
