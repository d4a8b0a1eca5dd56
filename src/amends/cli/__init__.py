"""The command line: a command parses, calls, prints. What it needs beyond click is imported when it runs."""
