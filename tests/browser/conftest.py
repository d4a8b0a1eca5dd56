"""Found where a browser can be driven: `make test-browser` makes it so."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("playwright") else ["test_*"]
