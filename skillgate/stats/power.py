"""Tasks and repeats -> the smallest effect they can show, before any money is spent."""

from __future__ import annotations

import math

from scipy.special import stdtrit

PASS_RATIO_SD = 0.16
"""Within-task standard deviation of pass ratios, after SWE-Skills-Bench v2 (arXiv 2603.15401)."""


def detectable_effect(
    tasks: int, repeats: int, sd: float = PASS_RATIO_SD, power: float = 0.8
) -> float | None:
    """Return the smallest true change of the pass ratio that the 95 % suite interval finds.

    (t(.975) + t(power)) times the standard error, with the pseudo-degree of freedom of the
    suite interval in the variance. None below two repeats, where that interval does not exist.
    """
    nu = tasks * 2 * (repeats - 1)
    if nu < 1:
        return None
    variance = (nu * sd**2 + 1) / (nu + 1)
    error = math.sqrt(variance * 2 / (tasks * repeats))
    return float((stdtrit(nu, 0.975) + stdtrit(nu, power)) * error)
