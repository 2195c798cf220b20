"""How coarse a grid over a tensor's range is beside what the tensor does: range² / mean square, summed over the unit.

A step over a range R with 2^b values is R / (2^b − 1), and rounding to it leaves noise of step² / 12. Beside the mean
square of the tensor that is R² / E[x²], up to a factor that all units have in common. The noise of a unit's inputs and of
its output add up.

Runs nothing: ranges and distributions were counted during calibration. It knows neither weights nor what lies behind
the unit.

Source: Widrow & Kollár, Quantization Noise (2008), ch. 1 (step² / 12).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fts_calibration.sensitivity.table import SensitivityTable, UnitTensors
from fts_calibration.statistics.statistics import Statistics

METHOD = "activation-spread"


def estimate_from_spread(units: Sequence[UnitTensors], statistics: Statistics) -> SensitivityTable:
    """Losses of units in dB of noise over signal, up to a constant.

    Args:
        units: In the graph's order.
        statistics: With the histogram of every float tensor that a unit reads or writes.
    """
    losses = {}
    for unit in units:
        noise = sum(_relative_noise(name, statistics) for name in (*unit.inputs, unit.output))
        losses[unit.name] = 10.0 * math.log10(noise) if noise > 0 else -math.inf
    return SensitivityTable(method=METHOD, samples=statistics.samples, forward_passes=0.0, losses=losses)


def _relative_noise(name: str, statistics: Statistics) -> float:
    histogram, seen = statistics.histograms[name], statistics.ranges[name]
    reach = max(seen.high, 0.0) - min(seen.low, 0.0)  # a grid holds 0
    mean_square = float(histogram.counts @ histogram.centers**2) / max(histogram.total, 1)
    return reach**2 / mean_square if mean_square else 0.0
