"""More than was seen, for photos that reach further than those of the calibration set."""

from __future__ import annotations

from fts.vocabulary.quantization import Scheme
from fts_calibration.calibrators.min_max import min_max
from fts_calibration.statistics.histogram import Histogram
from fts_calibration.statistics.statistics import TensorRange


def wide(histogram: Histogram, scheme: Scheme, factor: float) -> TensorRange:
    """Exact bounds times a factor; a bound of 0 stays, so that what a ReLU cut off gets no place on the grid.

    Args:
        histogram: Of a tensor.
        scheme: Grid of activations.
        factor: 1 or more.
    """
    seen = min_max(histogram, scheme)
    low = seen.low * factor if seen.low < 0 else seen.low
    high = seen.high * factor if seen.high > 0 else seen.high
    return TensorRange(low=low, high=high)
