"""`python -m tally FILE`."""

import sys

from tally.tools import report

with open(sys.argv[1]) as file:
    print(report(file.read()))
