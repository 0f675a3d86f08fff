"""skillgate: a linter and a merge gate for Agent Skills."""

__version__ = "0.1.0"
