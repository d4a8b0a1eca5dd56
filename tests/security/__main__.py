"""`python -m tests.security`: count the attacks that are played; with --write, put them into the pages."""

import sys

from tests.security.table import PAGES, attacks, filled


def main(words: list[str]) -> int:
    if "--write" in words:
        for page in PAGES:
            page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"{len(attacks())} attacks\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
