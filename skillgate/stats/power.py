"""Tasks and repeats -> what they can show, before any money is spent."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy.special import stdtrit

PASS_RATIO_SD = 0.16
"""Within-task standard deviation of pass ratios, after SWE-Skills-Bench v2 (arXiv 2603.15401)."""

POWER = 0.8


def detectable_effect(
    head: Sequence[int], base: Sequence[int] | None = None, sd: float = PASS_RATIO_SD, power: float = POWER
) -> float | None:
    """Return the smallest true change of the pass ratio that the 95 % suite interval finds.

    (t(.975) + t(power)) times the standard error, with the pseudo-degree of freedom of the
    suite interval in the variance. None where nothing repeats and that interval does not exist.

    Args: head, base: repeats of each task; the base has the head's unless said otherwise.
    """
    base = head if base is None else base
    nu = sum(head) + sum(base) - 2 * len(head)
    if nu < 1:
        return None
    variance = (nu * sd**2 + 1) / (nu + 1)
    shares = sum(1 / h + 1 / b for h, b in zip(head, base, strict=True))
    error = math.sqrt(variance * shares) / len(head)
    return float((stdtrit(nu, 0.975) + stdtrit(nu, power)) * error)


def needed_repeats(
    tasks: int, margin: float, sd: float = PASS_RATIO_SD, power: float = POWER, most: int = 1000
) -> int | None:
    """Return the repeats that show an unchanged skill to be no worse than the margin, None beyond `most`.

    Non-inferiority, one-sided .025: tasks x repeats of about 15.7 sd^2 / margin^2, more in small suites.
    """

    def is_enough(repeats: int) -> bool:
        return (detectable_effect([repeats] * tasks, sd=sd, power=power) or math.inf) <= margin

    return next((repeats for repeats in range(2, most + 1) if is_enough(repeats)), None)


def pooled_sd(cells: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Return the standard deviation within cells of like runs, and its degrees of freedom (0: unknown)."""
    freedom = sum(len(cell) - 1 for cell in cells)
    squares = sum((value - math.fsum(cell) / len(cell)) ** 2 for cell in cells for value in cell)
    return (math.sqrt(squares / freedom) if freedom else 0.0), freedom
