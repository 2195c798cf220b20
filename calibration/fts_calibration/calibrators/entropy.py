"""The bounds under which the quantized distribution tells most of the one that was seen: least Kullback-Leibler divergence.

For each candidate range P is the histogram inside it, what lies beyond counted in the outermost bins; Q puts the values
inside into as many groups as the grid has levels and spreads each group evenly over those of its bins that hold values.
The divergence is sum P log(P / Q). Unlike some implementations, Q is made without the clipped tails: with them, Q would
follow P into its outermost bins and no range would be better than another.

Source: Migacz 2017, "8-bit inference with TensorRT", GTC 2017, slides 30 to 38.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fts.vocabulary.quantization import Scheme
from fts_calibration.calibrators.min_max import min_max
from fts_calibration.statistics.histogram import Histogram
from fts_calibration.statistics.statistics import TensorRange

CANDIDATES = 64
# A candidate narrower than this share of what was seen is never better on data of a net; it saves their time.
LEAST_SHARE = 1 / 16

Floats = npt.NDArray[np.float64]


def least_divergence(histogram: Histogram, scheme: Scheme) -> TensorRange:
    """Cut what lies further from 0 than a reach, and shrink that.

    Args:
        histogram: Of a tensor.
        scheme: Grid of activations; a symmetric one is as wide on both sides.
    """
    full = min_max(histogram, scheme)
    low, high = min(full.low, 0.0), max(full.high, 0.0)
    levels = scheme.qmax - scheme.qmin + 1
    if high - low <= 0.0 or len(histogram.counts) <= levels:
        return full
    if scheme.symmetric:
        low, high = -max(-low, high), max(-low, high)
    counts, centers = histogram.counts.astype(np.float64), histogram.centers
    best, least = max(-low, high), np.inf
    for reach in max(-low, high) * np.linspace(1.0, LEAST_SHARE, CANDIDATES):
        found = _divergence(counts, centers, max(low, -reach), min(high, reach), levels)
        if found < least:
            best, least = float(reach), found
    return TensorRange(low=max(low, -best, full.low), high=min(high, best, full.high))


def _divergence(counts: Floats, centers: Floats, low: float, high: float, levels: int) -> float:
    first, last = (int(i) for i in np.searchsorted(centers, [low, high]))
    if last - first <= levels:
        return float("inf")
    inside = counts[first:last]
    clipped = inside.copy()
    clipped[0] += counts[:first].sum()
    clipped[-1] += counts[last:].sum()
    groups = np.minimum(((centers[first:last] - low) / (high - low) * levels).astype(np.int64), levels - 1)
    is_used = inside > 0
    sums = np.bincount(groups, weights=inside, minlength=levels)
    members = np.bincount(groups, weights=is_used, minlength=levels)
    spread = np.where(is_used, sums[groups] / np.maximum(members[groups], 1), 0.0)
    if not spread.any():  # nothing but empty bins inside: such a range tells nothing
        return float("inf")
    p, q = clipped / clipped.sum(), spread / spread.sum()
    held = p > 0
    if (q[held] == 0).any():  # a tail on an empty bin: nothing tells of it
        q = np.where(held & (q == 0), 1e-12, q)
    return float(np.sum(p[held] * np.log(p[held] / q[held])))
