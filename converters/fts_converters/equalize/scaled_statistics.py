"""What was measured on a net says the same about the net with factors in it: powers of two scale bounds exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fts.errors import CalibrationError
from fts_calibration.statistics.statistics import Statistics, TensorRange
from fts_converters.equalize.channel_groups import ChannelGroups
from fts_converters.equalize.factors import Factors
from fts_converters.equalize.norm_condition import Variances


def scaled_statistics(statistics: Statistics, factors: Factors, groups: ChannelGroups) -> Statistics:
    """Statistics of the net after `equalize`, without running it.

    Args:
        statistics: Of the net before.
        factors: As applied (`applicable_factors`).
        groups: Of the net before; they say along which axis a tensor is scaled.

    Raises:
        CalibrationError: A tensor's channels have different factors, and its ranges are not known along their axis.
    """
    ranges = dict(statistics.ranges)
    channel_ranges = dict(statistics.channel_ranges)
    histograms = dict(statistics.histograms)
    for name, exponents in factors.exponents.items():
        rows = channel_ranges.get(name, ())
        seen = histograms.pop(name, None)  # of a tensor whose channels are scaled by different factors nothing is known
        if seen is not None and len(set(exponents)) == 1:
            histograms[name] = seen.scaled(exponents[0])
        if len(set(exponents)) == 1:
            channel_ranges.update({name: tuple(_scaled(r, exponents[0]) for r in rows)} if rows else {})
            ranges.update({name: _scaled(ranges[name], exponents[0])} if name in ranges else {})
        elif groups.channels[name].axis == 1 and len(rows) == len(exponents):
            scaled = tuple(_scaled(r, e) for r, e in zip(rows, exponents, strict=True))
            channel_ranges[name] = scaled
            ranges[name] = TensorRange(low=min(r.low for r in scaled), high=max(r.high for r in scaled))
        elif name in ranges:
            raise CalibrationError(
                f"tensor {name!r}: its channels are scaled by different factors, but only the range of the whole is known; "
                "expected ranges along the axis of the channels. Collect them before equalizing"
            )
    return replace(statistics, ranges=ranges, channel_ranges=channel_ranges, histograms=histograms)


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
