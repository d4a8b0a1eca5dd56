"""`python -m amends` is the command line."""

import os
import sys

# Python has put the working directory first, where a planted file would be imported in place of one of Python's own.
# The modules that a command names are looked for there later, and last, as the script `amends` does.
if not sys.flags.safe_path and sys.path[:1] in ([""], [os.getcwd()]):  # noqa: PTH109 - nothing more is imported yet
    del sys.path[0]

from amends.cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
