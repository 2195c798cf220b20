"""How far the grids of single channels reach beyond what was seen, by what comes out of the whole net.

A channel's bounds over a dozen photos are exceeded by the next ones, and what exceeds a grid is cut off: on some nets that
costs 10 dB. A wider grid rounds more coarsely: on others that costs 10 dB. So both are tried, on photos not calibrated with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fts_calibration.metrics.budget import Score
from fts_calibration.statistics.statistics import Statistics, TensorRange

# The last one reaches as far as the whole tensor does.
FACTORS = (1.25, 1.5, 2.0, 3.0, float("inf"))


def with_headroom(statistics: Statistics, factor: float) -> Statistics:
    """Ranges by channel times a factor, none beyond what the whole tensor reached.

    Args:
        statistics: With ranges as seen.
        factor: 1 or more.
    """
    widened = {
        name: tuple(_widened(row, _seen(statistics, name), factor) for row in rows)
        for name, rows in statistics.channel_ranges.items()
    }
    return replace(statistics, channel_ranges=widened)


def choose_headroom(
    statistics: Statistics, score: Callable[[Statistics], Score], on_step: Callable[[str], None]
) -> tuple[float, Statistics]:
    """Try every factor, as long as a wider one is better.

    Args:
        statistics: As collected.
        score: The worst output's score under other ranges, on the select split.
        on_step: Told what each factor gives.

    Returns:
        The factor, 1 where none is better, and the statistics with it.
    """
    best_factor, best, best_score = 1.0, statistics, score(statistics)
    told = [f"1: {best_score.budget.figure(best_score.value)}"]
    for factor in FACTORS if statistics.channel_ranges else ():
        candidate = with_headroom(statistics, factor)
        found = score(candidate)
        told.append(f"{factor:g}: {found.budget.figure(found.value)}")
        if found.margin > best_score.margin:
            best_factor, best, best_score = factor, candidate, found
    if len(told) > 1:
        on_step(f"channel ranges times {best_factor:g} ({best_score.budget.metric}: {', '.join(told)})")
    return best_factor, best


def _seen(statistics: Statistics, name: str) -> TensorRange:
    """What the tensor reached, whatever a calibrator cut off."""
    rows = statistics.channel_ranges[name]
    return TensorRange(low=min((r.low for r in rows), default=0.0), high=max((r.high for r in rows), default=0.0))


def _widened(row: TensorRange, seen: TensorRange, factor: float) -> TensorRange:
    if factor == float("inf"):
        return seen
    low = max(row.low * factor, seen.low) if row.low < 0 else row.low
    high = min(row.high * factor, seen.high) if row.high > 0 else row.high
    return TensorRange(low=low, high=high)
