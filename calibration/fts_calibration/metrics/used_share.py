"""How much of what a budget allows is lost: 0 nothing, 1 the budget just holds. A common unit for outputs and metrics.

For decibels it is the power of the error over the power allowed, 10^((threshold - value) / 10), which adds up over causes
that are independent of one another; for similarities (1 - value) / (1 - threshold).
"""

from __future__ import annotations

from statistics import fmean

from fts_calibration.metrics.budget import Score

IN_DECIBELS = frozenset({"psnr", "sqnr"})
# A budget of 1 on a similarity allows no loss at all; this much stands for none.
LEAST_ALLOWED = 1e-9


def used_share(score: Score) -> float:
    """Mean over the samples, which says more about a cause than the worst sample does."""
    threshold = score.budget.at_least
    if score.budget.metric in IN_DECIBELS:
        return fmean(10.0 ** ((threshold - value) / 10.0) for value in score.values)
    return fmean((1.0 - value) / max(1.0 - threshold, LEAST_ALLOWED) for value in score.values)
