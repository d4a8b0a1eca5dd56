"""A call through the gateway beside one through a bare proxy, in the environment of `make test-gateway`."""
