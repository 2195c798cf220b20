"""Quantiles of Student's t distribution for a whole number of degrees of freedom, by its closed form."""

from __future__ import annotations

import math
from functools import lru_cache

# Halvings of [0, HIGH]: the quantile is exact to 2^-60 of it.
STEPS, HIGH = 60, 1024.0


@lru_cache(maxsize=256)
def student_t(probability: float, degrees: int) -> float:
    """The value that t stays below with the given probability.

    Args:
        probability: Above 0.5, at most 0.9995.
        degrees: 1 or more.
    """
    low, high = 0.0, HIGH
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if (1 + _within(middle, degrees)) / 2 < probability else (low, middle)
    return low


def _within(t: float, degrees: int) -> float:
    """P(|T| <= t).

    Source: Abramowitz & Stegun (1964), 26.7.3 and 26.7.4, θ = arctan(t / √ν).
    """
    angle = math.atan(t / math.sqrt(degrees))
    sine, square = math.sin(angle), math.cos(angle) ** 2
    if degrees % 2:
        term, total = math.cos(angle), 0.0
        for k in range(1, degrees - 1, 2):
            total += term
            term *= square * (k + 1) / (k + 2)
        return 2 / math.pi * (angle + sine * total)
    term, total = 1.0, 0.0
    for k in range(0, degrees - 1, 2):
        total += term
        term *= square * (k + 1) / (k + 2)
    return sine * total
