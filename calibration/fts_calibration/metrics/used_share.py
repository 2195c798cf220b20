"""How much of what a budget allows is lost: 0 nothing, 1 the budget just holds. A common unit for outputs and metrics.

It is the power of the error over the power allowed, which adds up over causes that are independent of one another: for
decibels 10^((threshold − value) / 10); else found / allowed, squared where the metric grows with the error's amplitude
(`known_metrics.Growth`), both being distances from the best value.
"""

from __future__ import annotations

from statistics import fmean

from fts_calibration.metrics.budget import Score

# A budget of the best value allows no loss at all; this much stands for none.
LEAST_ALLOWED = 1e-9
# Weight of the noise beside a metric that may be coarse or not, a user's: it decides only where the metric says nothing.
HINT = 1e-3


def used_share(score: Score, whole: Score | None = None) -> float:
    """Mean over the samples, which says more about a cause than the worst sample does.

    Args:
        score: Of a plan, or of one cause alone.
        whole: Score of the same output with all causes together. Where the metric is too coarse to tell causes apart, a cause
            has the part of the whole's share that it has of the whole's noise.
    """
    budget = score.budget
    if whole is None or not score.noise or not whole.noise or not (budget.kind.is_coarse or budget.user):
        return _own_share(score)
    noise = fmean(whole.noise)
    by_noise = used_share(whole) * fmean(score.noise) / noise if noise else 0.0
    return by_noise if budget.kind.is_coarse else _own_share(score) + HINT * by_noise


def _own_share(score: Score) -> float:
    """What the metric itself says."""
    budget = score.budget
    if budget.kind.growth == "decibels":
        return fmean(10.0 ** ((budget.threshold - value) / 10.0) for value in score.values)
    allowed = max(budget.allowed, LEAST_ALLOWED)
    shares = [abs(budget.kind.best - value) / allowed for value in score.values]
    if budget.kind.is_rate:  # one sample is a decision: a power has only their mean
        return fmean(shares) ** 2
    return fmean(shares) if budget.kind.growth == "power" else fmean(share**2 for share in shares)
