"""The saga as its function sees it: `s`, and its verbs."""
