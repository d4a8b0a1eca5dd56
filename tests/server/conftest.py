"""Found where its extra is installed: `make test-server` makes it so."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("starlette") else ["test_*"]
