"""Everything that was seen fits on the grid."""

from __future__ import annotations

from fts.vocabulary.quantization import Scheme
from fts_calibration.statistics.histogram import Histogram
from fts_calibration.statistics.statistics import TensorRange


def min_max(histogram: Histogram, scheme: Scheme) -> TensorRange:
    """Exact bounds, whatever the grid.

    Args:
        histogram: Of a tensor; one without values gives (0, 0).
        scheme: Grid of activations.
    """
    del scheme
    if not histogram.total:
        return TensorRange(low=0.0, high=0.0)
    return TensorRange(low=histogram.low, high=histogram.high)
