"""`python -m amends` is the command line."""

from amends.cli.main import main

if __name__ == "__main__":
    main()
