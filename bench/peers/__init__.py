"""The same five-step saga through other libraries. Each module runs in the peers' own environment, without amends."""
