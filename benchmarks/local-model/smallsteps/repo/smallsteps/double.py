"""Doubling of numbers."""


def double(number: int) -> int:
    """Return twice a number."""
    return 2 * number
