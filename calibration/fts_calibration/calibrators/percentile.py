"""The grid covers all but a given share of the values; what lies beyond is clipped."""

from __future__ import annotations

import numpy as np

from fts.vocabulary.quantization import Scheme
from fts_calibration.calibrators.min_max import min_max
from fts_calibration.statistics.histogram import Histogram
from fts_calibration.statistics.statistics import TensorRange


def percentile(histogram: Histogram, scheme: Scheme, *, share: float) -> TensorRange:
    """Bounds that leave at most (1 - share) / 2 of the values on either side, to the edge of a bin.

    An asymmetric grid has two tails. A symmetric one has a single reach, so there the share is that of magnitudes, which
    is the same count: both tails are cut at the greater of the two bounds by whoever makes the grid.

    Args:
        histogram: Of a tensor.
        scheme: Grid of activations.
        share: Of the values inside, 0..1.
    """
    total = histogram.total
    if not total:
        return min_max(histogram, scheme)
    tail = (1.0 - share) / 2 * total
    below = np.cumsum(histogram.counts)
    first = int(np.searchsorted(below, tail, side="right"))  # bins before it hold at most `tail` values
    above = np.cumsum(histogram.counts[::-1])
    last = len(histogram.counts) - 1 - int(np.searchsorted(above, tail, side="right"))
    edges = histogram.edges
    return TensorRange(
        low=float(max(edges[first], histogram.low)), high=float(min(edges[max(first, last) + 1], histogram.high))
    )
