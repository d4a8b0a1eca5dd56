"""The runtime: does what is due. Claim, plan, perform, append."""
