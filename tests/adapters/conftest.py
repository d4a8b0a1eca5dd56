"""Only the adapter's tests are found whose framework is installed: `make test-adapters` says which, and makes it so."""

import os
from pathlib import Path

ADAPTER = os.environ.get("AMENDS_ADAPTER", "").replace("-", "_")
collect_ignore = [
    str(path)
    for path in Path(__file__).parent.glob("test_*.py")
    if not ADAPTER or not path.name.startswith(f"test_{ADAPTER}")
]
