"""95 % confidence intervals of a mean over samples: of measured values by Student's t, of rates by Wilson's score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, stdev

from fts_calibration.metrics.student_t import student_t


def mean_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """mean ± t(0.975, n−1) · s / √n; None for fewer than two samples."""
    if len(values) < 2:
        return None
    half = student_t(0.975, len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return fmean(values) - half, fmean(values) + half


def rate_interval(shares: Sequence[float]) -> tuple[float, float] | None:
    """Wilson's score interval of the rate p = mean(shares) over n samples; None for none.

        (p + z²/2n ± z √(p (1 − p) / n + z²/4n²)) / (1 + z²/n)

    A sample that is a share itself (positions of one picture) is one observation: what lies in [0, 1] has at most the
    variance p (1 − p), so the interval is then too wide, never too narrow.

    Source: Wilson 1927, JASA 22(158), eq. (2).
    """
    n = len(shares)
    if not n:
        return None
    z, p = NormalDist().inv_cdf(0.975), fmean(shares)
    middle = p + z * z / (2 * n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    whole = 1 + z * z / n
    return max((middle - half) / whole, 0.0), min((middle + half) / whole, 1.0)
