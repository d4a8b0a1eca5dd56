"""The gateway's tests are found where its extra is installed: `make test-gateway` makes it so."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("mcp") else ["test_*"]
