"""Words that everything else is said in: values, contracts, verdicts, outcomes, patterns of names. Pure."""
