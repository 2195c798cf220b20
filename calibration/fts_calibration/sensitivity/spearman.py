"""Rank correlation of two lists: how well an estimate orders things as the truth does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's ρ: Pearson's correlation of the ranks, −1..1; equal values share the mean of their ranks.

    Args:
        a: Values of some things.
        b: Other values of the same things, in the same order.

    Returns:
        NaN when all values of either list are equal: there is no order to compare.

    Raises:
        ValueError: The lists differ in length, or hold fewer than two values or a NaN.

    Source: Kendall & Gibbons, Rank Correlation Methods (1990), ch. 3, for ties.
    """
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if x.shape != y.shape or x.ndim != 1 or x.size < 2:
        raise ValueError(f"found lists of {x.shape} and {y.shape} values, expected two of one length of 2 or more")
    if np.isnan(x).any() or np.isnan(y).any():
        raise ValueError("found NaN, which has no rank")
    left, right = (ranks - ranks.mean() for ranks in (_ranks(x), _ranks(y)))
    spread = float(np.sqrt((left @ left) * (right @ right)))
    return float(left @ right) / spread if spread else float("nan")


def _ranks(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Ranks from 1; equal values get the mean of theirs."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2.0)[group], np.float64)
