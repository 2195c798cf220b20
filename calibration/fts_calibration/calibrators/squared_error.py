"""The bounds that make rounding and clipping together cost least, by mean squared error.

    E(l, h) = s^2 / 12 * P(l <= x <= h, x != 0) + sum_{x < l} (l - x)^2 + sum_{x > h} (x - h)^2,   s = (h - l) / levels

A value inside errs like a uniform one in its step; 0 is exact on every grid. The sums over tails run over bin middles; a step
holds 8 bins or more. Both bounds are searched in turns, on STEPS fractions of what was seen, until neither moves.

Source: Banner et al. 2019, arXiv:1810.05723, section 3 (the same trade in closed form for assumed distributions).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fts.vocabulary.quantization import Scheme
from fts_calibration.calibrators.min_max import min_max
from fts_calibration.statistics.histogram import Histogram
from fts_calibration.statistics.statistics import TensorRange

# Fractions of a seen bound that are tried: 1, 63/64 … 1/64.
STEPS = 64
MOST_TURNS = 8

Floats = npt.NDArray[np.float64]


def least_squared_error(histogram: Histogram, scheme: Scheme) -> TensorRange:
    """Search both bounds.

    Args:
        histogram: Of a tensor.
        scheme: Grid of activations; a symmetric one moves both bounds together.
    """
    full = min_max(histogram, scheme)
    low, high = min(full.low, 0.0), max(full.high, 0.0)
    if high - low <= 0.0:
        return full
    tails = _Tails(histogram)
    levels = scheme.qmax - scheme.qmin
    fractions = np.arange(STEPS, 0, -1) / STEPS
    if scheme.symmetric:
        reach = max(-low, high) * fractions
        cost = [tails.cost(-r, r, levels) for r in reach]
        best = float(reach[int(np.argmin(cost))])
        return TensorRange(low=max(low, -best), high=min(high, best))
    best_low, best_high = low, high
    for _ in range(MOST_TURNS):
        before = best_low, best_high
        if high > 0:
            best_high = float(min(high * fractions, key=lambda h: tails.cost(best_low, float(h), levels)))
        if low < 0:
            best_low = float(min(low * fractions, key=lambda l: tails.cost(float(l), best_high, levels)))  # noqa: E741
        if (best_low, best_high) == before:
            break
    return TensorRange(low=best_low, high=best_high)


class _Tails:
    """Sums over the values beyond a bound, from running moments of the bins."""

    def __init__(self, histogram: Histogram) -> None:
        counts = histogram.counts.astype(np.float64)
        self._centers = histogram.centers
        self._zeros = histogram.zeros
        self._moments = [np.concatenate([[0.0], np.cumsum(counts * self._centers**k)]) for k in range(3)]

    def cost(self, low: float, high: float, levels: int) -> float:
        """Summed squared error of a grid of `levels` steps between the bounds."""
        first, last = np.searchsorted(self._centers, [low, high])
        inside = self._moments[0][last] - self._moments[0][first] - self._zeros
        below = self._distance(0, int(first), low)
        above = self._distance(int(last), len(self._centers), high)
        return float(((high - low) / levels) ** 2 / 12 * inside + below + above)

    def _distance(self, begin: int, end: int, bound: float) -> float:
        n, total, squares = (m[end] - m[begin] for m in self._moments)
        return float(squares - 2 * bound * total + bound * bound * n)
