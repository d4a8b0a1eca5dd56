"""Attacks by input: documents, answers, names, addresses and bundles that somebody else wrote."""
