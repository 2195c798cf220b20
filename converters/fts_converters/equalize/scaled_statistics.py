"""What was measured on a net says the same about the net with factors in it: powers of two scale bounds exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fts.errors import CalibrationError
from fts_calibration.statistics.statistics import Statistics, TensorRange
from fts_converters.equalize.factors import Factors
from fts_converters.equalize.norm_condition import Variances


def scaled_statistics(statistics: Statistics, factors: Factors) -> Statistics:
    """Statistics of the net after `equalize`, without running it.

    Args:
        statistics: Of the net before.
        factors: As applied (`applicable_factors`), along axis 1 of each tensor.

    Raises:
        CalibrationError: A tensor's channels have different factors and its channel ranges are not known.
    """
    ranges = dict(statistics.ranges)
    channel_ranges = dict(statistics.channel_ranges)
    for name, exponents in factors.exponents.items():
        if name in channel_ranges:
            rows = channel_ranges[name]
            channel_ranges[name] = tuple(_scaled(r, e) for r, e in zip(rows, exponents, strict=True))
        if name not in ranges:
            continue
        if len(set(exponents)) == 1:
            ranges[name] = _scaled(ranges[name], exponents[0])
        elif name in channel_ranges:
            rows = channel_ranges[name]
            ranges[name] = TensorRange(low=min(r.low for r in rows), high=max(r.high for r in rows))
        else:
            raise CalibrationError(
                f"tensor {name!r}: its channels are scaled by different factors, but only the range of the whole is known; "
                "expected channel ranges. Collect them before equalizing"
            )
    return replace(statistics, ranges=ranges, channel_ranges=channel_ranges)


def scaled_variances(variances: Variances, factors: Factors) -> Variances:
    """Likewise for the variances in front of norms, where the channels of one deviation share a factor."""
    scaled: Mapping[str, tuple[int, ...]] = factors.exponents
    result = dict(variances)
    for name in set(variances) & set(scaled):
        exponents = np.array(scaled[name]).reshape(len(variances[name]), -1)[:, 0]
        result[name] = variances[name] * np.exp2(2.0 * exponents)
    return result


def _scaled(bounds: TensorRange, exponent: int) -> TensorRange:
    return TensorRange(low=float(np.ldexp(bounds.low, exponent)), high=float(np.ldexp(bounds.high, exponent)))
