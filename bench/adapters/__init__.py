"""Adapters beside `s.do` alone; each framework is measured in its own environment."""
