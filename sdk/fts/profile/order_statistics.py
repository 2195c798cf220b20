"""Percentiles by nearest rank, with intervals that assume nothing about the shape of the distribution.

Of n independent samples, the number B below the p-quantile is binomial(n, p), so the order statistics X(l) and X(u)
enclose the quantile with probability P(l <= B < u). The widest ranks that leave at most 2.5 % on each side give a 95 %
interval. Where even the largest sample leaves more than that above it, n is too small and there is no number.
Consecutive latencies are not independent; `autocorrelation` says how much, and the runs of fresh processes say the rest.

Source: Hahn and Meeker, Statistical Intervals, section 5.2; David and Nagaraja, Order Statistics, section 7.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.float64]

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """Which order statistics, counted from 1; None where no sample is far enough out.

    Attributes:
        nearest: ceil(p n), the percentile itself.
        low: Lower end of the interval.
        high: Upper end of the interval.
    """

    nearest: int
    low: int | None
    high: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentile:
    """One percentile of n samples, in the samples' unit.

    Attributes:
        percent: 50, 90, 99.
        n: Number of samples.
        value: By nearest rank; None where n is too small for an upper end. Infinite where lost samples reach it.
        low: Lower end of the 95 % interval, or None.
        high: Upper end, or None.
    """

    percent: float
    n: int
    value: float | None
    low: float | None
    high: float | None


def percentile(samples: Samples, percent: float) -> Percentile:
    """Percentile by nearest rank with its distribution-free 95 % interval.

    Args:
        samples: float64 (n,), in any order; infinity stands for a sample that never came.
        percent: Between 0 and 100, both excluded.
    """
    n = int(samples.size)
    if n == 0:
        return Percentile(percent=percent, n=0, value=None, low=None, high=None)
    ranks = interval_ranks(n, percent)
    ordered = np.sort(samples)
    low = float(ordered[ranks.low - 1]) if ranks.low is not None else None
    if ranks.high is None:
        return Percentile(percent=percent, n=n, value=None, low=low, high=None)
    return Percentile(
        percent=percent, n=n, value=float(ordered[ranks.nearest - 1]), low=low, high=float(ordered[ranks.high - 1])
    )


@lru_cache(maxsize=256)
def interval_ranks(n: int, percent: float) -> Ranks:
    """Ranks of the percentile and of the ends of its 95 % interval.

    low is the largest l with P(B < l) <= 0.025, high the smallest u with P(B >= u) <= 0.025.
    """
    if not 0 < percent < 100:
        raise ValueError(f"percent must lie between 0 and 100, got {percent}")
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    share = Fraction(str(percent)) / 100
    tail = (1 - CONFIDENCE) / 2
    mass = _binomial_mass(n, float(share))
    below = np.cumsum(mass)  # below[k] = P(B <= k)
    above = np.cumsum(mass[::-1])[::-1]  # above[k] = P(B >= k), summed from the small end
    low = int(np.searchsorted(below, tail, side="right"))  # the number of k with P(B <= k) <= tail
    fitting = np.flatnonzero(above[1:] <= tail)
    return Ranks(
        nearest=math.ceil(share * n), low=low if low >= 1 else None, high=int(fitting[0]) + 1 if fitting.size else None
    )


def autocorrelation(samples: Samples) -> float:
    """Correlation of each finite sample with the next, -1..1; 0 where it is not defined."""
    finite = samples[np.isfinite(samples)]
    if finite.size < 3:
        return 0.0
    deviation = finite - finite.mean()
    power = float(np.dot(deviation, deviation))
    return float(np.dot(deviation[:-1], deviation[1:])) / power if power > 0 else 0.0


def _binomial_mass(n: int, share: float) -> Samples:
    """P(B = k) for k = 0..n, float64 (n + 1,); from logarithms, so that no factor under- or overflows."""
    factorials = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, n + 1, dtype=np.float64)))))
    k = np.arange(n + 1)
    log_choose = factorials[n] - factorials[k] - factorials[n - k]
    mass: Samples = np.exp(log_choose + k * math.log(share) + (n - k) * math.log1p(-share))
    return mass
