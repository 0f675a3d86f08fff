"""`python -m skillgate`."""

from skillgate.cli import entry

if __name__ == "__main__":
    entry()
