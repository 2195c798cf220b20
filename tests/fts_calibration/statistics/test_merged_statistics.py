"""Statistics of two parts, merged, are those of the whole."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from fts.vocabulary.quantization import Scheme
from fts_calibration.calibrators import CALIBRATORS, calibrated
from fts_calibration.statistics.histogram import EMPTY, histogram_of
from fts_calibration.statistics.statistics import Statistics, TensorRange, json_from_statistics, merged_statistics

U8 = Scheme(bits=8, signed=False, symmetric=False, per_channel=False)


def statistics_of(samples: Sequence[np.ndarray]) -> Statistics:
    histogram = EMPTY
    for sample in samples:
        histogram = histogram.merged(histogram_of(sample))
    rows = np.stack(samples)
    low, high = rows.min(axis=(0, 2)), rows.max(axis=(0, 2))
    return Statistics(
        ranges={"t": TensorRange(low=histogram.low, high=histogram.high)},
        samples=len(samples),
        channel_ranges={"t": tuple(TensorRange(low=float(a), high=float(b)) for a, b in zip(low, high, strict=True))},
        histograms={"t": histogram},
    )


@pytest.mark.parametrize("seed", range(5))
def test_two_parts_are_the_whole_bit_for_bit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    samples = [(rng.normal(size=(3, 500)) * rng.choice([0.1, 1, 30])).astype(np.float32) for _ in range(6)]
    whole, parts = statistics_of(samples), merged_statistics(statistics_of(samples[:4]), statistics_of(samples[4:]))
    assert json_from_statistics(parts) == json_from_statistics(whole)
    for name in CALIBRATORS:
        assert calibrated(parts, name, U8).ranges == calibrated(whole, name, U8).ranges


def test_a_histogram_that_only_one_part_has_is_left_out() -> None:
    one = statistics_of([np.ones((3, 4), np.float32)])
    bare = Statistics(ranges=one.ranges, samples=2, channel_ranges=one.channel_ranges)
    found = merged_statistics(one, bare)
    assert found.histograms == {}
    assert found.samples == 3
    assert found.ranges == one.ranges
