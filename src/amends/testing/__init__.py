"""Testing tools that are part of the product: conformance suites, a clock that tests move, fakes, simulation."""
