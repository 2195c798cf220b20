"""Each calibrator gives the range it promises, on distributions where that range is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fts.vocabulary.quantization import Scheme
from fts_calibration.calibrators import CALIBRATORS, calibrated
from fts_calibration.calibrators.percentile import percentile
from fts_calibration.calibrators.squared_error import least_squared_error
from fts_calibration.statistics.histogram import EMPTY, histogram_of
from fts_calibration.statistics.statistics import Statistics, TensorRange

U8 = Scheme(bits=8, signed=False, symmetric=False, per_channel=False)
S8 = Scheme(bits=8, signed=True, symmetric=True, per_channel=False)
S4 = Scheme(bits=4, signed=True, symmetric=True, per_channel=False)


def gaussian(size: int = 200_000, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=size).astype(np.float32)


def squared_error(values: np.ndarray, low: float, high: float, scheme: Scheme) -> float:
    """Of rounding to the grid and clipping, value by value."""
    low, high = min(low, 0.0), max(high, 0.0)
    if scheme.symmetric:
        low, high = -max(-low, high), max(-low, high)
    step = (high - low) / (scheme.qmax - scheme.qmin)
    rounded = np.clip(np.rint(values / step) * step, low, high)
    return float(np.mean((values.astype(np.float64) - rounded) ** 2))


@pytest.mark.parametrize("name", CALIBRATORS)
@pytest.mark.parametrize("scheme", [U8, S8], ids=["u8", "s8"])
@given(seed=st.integers(0, 2**32 - 1), shift=st.sampled_from([-8.0, 0.0, 3.0]), power=st.integers(-12, 12))
@settings(max_examples=15, deadline=None)
def test_a_range_lies_within_what_was_seen(name: str, scheme: Scheme, seed: int, shift: float, power: int) -> None:
    values = ((gaussian(3000, seed) + shift) * 2.0**power).astype(np.float32)
    found = CALIBRATORS[name](histogram_of(values), scheme)
    reach = float(name.rpartition("times ")[2]) if "times" in name else 1.0
    assert reach * min(values.min(), 0) <= found.low <= found.high <= reach * max(values.max(), 0)
    assert found.high > min(values.max(), 0) or found.low < max(values.min(), 0)


@pytest.mark.parametrize("name", CALIBRATORS)
def test_nothing_and_zeros_give_zero(name: str) -> None:
    assert CALIBRATORS[name](EMPTY, U8) == TensorRange(low=0.0, high=0.0)
    assert CALIBRATORS[name](histogram_of(np.zeros(5, np.float32)), U8) == TensorRange(low=0.0, high=0.0)


@pytest.mark.parametrize("share", [0.9, 0.99, 0.999])
def test_percentile_leaves_the_tails_out(share: float) -> None:
    values = gaussian()
    found = percentile(histogram_of(values), U8, share=share)
    tail = (1 - share) / 2
    # to the edge of a bin, which is 2^-9 wide here
    assert found.low == pytest.approx(np.quantile(values, tail), abs=2**-8)
    assert found.high == pytest.approx(np.quantile(values, 1 - tail), abs=2**-8)
    assert ((values < found.low) | (values > found.high)).mean() <= 1 - share


@pytest.mark.parametrize("scheme", [U8, S8, S4], ids=["u8", "s8", "s4"])
def test_least_squared_error_is_near_the_best_range_there_is(scheme: Scheme) -> None:
    values = np.concatenate([gaussian(), np.float32([40.0, -3.0])])
    found = least_squared_error(histogram_of(values), scheme)
    least = min(
        squared_error(values, low, high, scheme)
        for low in np.linspace(-6, -0.5, 23)
        for high in np.linspace(0.5, 40, 80)
    )
    assert squared_error(values, found.low, found.high, scheme) <= 1.1 * least
    assert squared_error(values, found.low, found.high, scheme) < squared_error(values, values.min(), 40, scheme)


def test_four_bits_of_a_gaussian_are_clipped_where_theory_says() -> None:
    """Optimal clipping of N(0, 1) at 4 bits is 2.55 (Banner et al. 2019, table in section 3)."""
    found = least_squared_error(histogram_of(gaussian(2_000_000)), S4)
    assert max(-found.low, found.high) == pytest.approx(2.55, rel=0.08)


def test_zeros_are_exact_and_ask_for_no_finer_grid() -> None:
    """Behind a Relu most values are 0: they must not make clipping look cheap or dear."""
    few = gaussian()
    with_zeros = np.concatenate([np.maximum(few, 0), np.zeros(1_000_000, np.float32)])
    found = [least_squared_error(histogram_of(v), U8).high for v in (np.maximum(few, 0), with_zeros)]
    assert found[0] == found[1]


def test_entropy_clips_an_outlier_and_keeps_a_uniform_range() -> None:
    uniform = np.random.default_rng(0).random(500_000).astype(np.float32)
    run = CALIBRATORS["entropy"]
    assert run(histogram_of(uniform), U8).high > 0.9
    assert run(histogram_of(np.append(gaussian(), np.float32(40.0))), U8).high < 10


def test_where_no_histogram_is_known_the_range_stays() -> None:
    values = np.append(gaussian(), np.float32(40.0))
    seen = TensorRange(low=-4.0, high=40.0)
    statistics = Statistics(
        ranges={"a": seen, "b": seen},
        samples=1,
        channel_ranges={"a": (seen,)},
        histograms={"a": histogram_of(values)},
    )
    found = calibrated(statistics, "percentile 99.9", U8)
    assert found.ranges["a"].high < 5
    assert found.ranges["b"] == seen
    assert found.channel_ranges == {"a": (seen,)}
