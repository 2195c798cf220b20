"""How wide a grid is: from a histogram of what was seen to the range that the grid covers. One method a file.

Which one is best depends on the net, so `fts-convert` chooses by what comes out, not by any proxy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from fts.vocabulary.quantization import Scheme
from fts_calibration.calibrators.entropy import least_divergence
from fts_calibration.calibrators.min_max import min_max
from fts_calibration.calibrators.percentile import percentile
from fts_calibration.calibrators.squared_error import least_squared_error
from fts_calibration.calibrators.wide import wide
from fts_calibration.statistics.histogram import Histogram
from fts_calibration.statistics.statistics import Statistics, TensorRange

Calibrator = Callable[[Histogram, Scheme], TensorRange]

CALIBRATORS: Mapping[str, Calibrator] = {
    "min-max": min_max,
    "min-max times 1.25": partial(wide, factor=1.25),
    "min-max times 1.5": partial(wide, factor=1.5),
    "min-max times 2": partial(wide, factor=2.0),
    "percentile 99.999": partial(percentile, share=0.99999),
    "percentile 99.99": partial(percentile, share=0.9999),
    "percentile 99.9": partial(percentile, share=0.999),
    "squared error": least_squared_error,
    "entropy": least_divergence,
}


def calibrated(statistics: Statistics, name: str, scheme: Scheme) -> Statistics:
    """Statistics whose ranges are those that a calibrator gives; where no histogram is known they stay.

    Ranges by channel stay as seen: what a channel's own grid covers was asked for because every value counts there.

    Args:
        statistics: As collected.
        name: Key of CALIBRATORS.
        scheme: Grid of activations.
    """
    run = CALIBRATORS[name]
    ranges = {
        tensor: run(statistics.histograms[tensor], scheme) if tensor in statistics.histograms else seen
        for tensor, seen in statistics.ranges.items()
    }
    return replace(statistics, ranges=ranges)
