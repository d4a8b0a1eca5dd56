"""Driving one saga: forward, backward, and what one drive knows."""
