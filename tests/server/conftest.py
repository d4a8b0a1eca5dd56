"""Found where its extra is installed: `make test-server` makes it so."""

import os
from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("starlette") else ["test_*"]
if os.geteuid() != 0:
    collect_ignore_glob.append("test_two_users.py")  # only root can play two users
