"""Histograms count exactly, and the parts and their order leave no trace."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fts_calibration.statistics.histogram import (
    EMPTY,
    HALF,
    Histogram,
    HistogramCounter,
    Workspace,
    histogram_from_json,
    histogram_of,
)

ARRAYS = st.builds(
    lambda seed, size, power, shift: (np.random.default_rng(seed).normal(size=size) * 2.0**power + shift).astype(np.float32),
    st.integers(0, 2**32 - 1),
    st.integers(0, 300),
    st.integers(-30, 30),
    st.sampled_from([0.0, 0.0, 1.0, -5.0, 1e6]),
)  # fmt: skip


def counted_by_hand(values: np.ndarray, found: Histogram) -> np.ndarray:
    bins = np.floor(values.astype(np.float64).reshape(-1) / 2.0**found.exponent).astype(np.int64) - found.first
    return np.bincount(bins, minlength=len(found.counts))


@given(values=ARRAYS)
@settings(max_examples=200, deadline=None)
def test_every_value_is_in_its_bin(values: np.ndarray) -> None:
    found = histogram_of(values)
    assert found.total == values.size
    assert found.zeros == int((values == 0).sum())
    if values.size:
        assert (found.low, found.high) == (float(values.min()), float(values.max()))
        assert found.counts.tolist() == counted_by_hand(values, found).tolist()
        assert found.edges[0] <= found.low < found.edges[1]
        assert found.edges[-2] <= found.high < found.edges[-1]
        if np.abs(values).max() > 1e-30:
            assert len(found.counts) <= 2 * HALF
            reach = max(-found.low, found.high)
            assert reach >= HALF / 2 * 2.0**found.exponent * (1 - 1e-6)  # at least half of the bins of the wider side


@given(parts=st.lists(ARRAYS, min_size=1, max_size=5), order=st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_merged_parts_in_any_order_are_the_whole(parts: list[np.ndarray], order: object) -> None:
    whole = histogram_of(np.concatenate(parts))
    shuffled = list(parts)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    merged = EMPTY
    for part in shuffled:
        merged = merged.merged(histogram_of(part))
    assert merged == whole
    right_first = EMPTY
    for part in reversed(shuffled):
        right_first = histogram_of(part).merged(right_first)
    assert right_first == whole


@pytest.mark.parametrize(
    "values",
    [
        [0.0],
        [-0.0],
        [1.0],
        [-1.0],
        [HALF],
        [-HALF],
        [1e-45],
        [-1e-45],
        [3.4e38],
        [-3.4e38],
        [-1e-20, 1e20],
        [1e-40, 2e-40],
        [-1e-30, 1e30],
        [-1e-45, 5000.0],
    ],
)
def test_edges_of_float32(values: list[float]) -> None:
    array = np.array(values, np.float32)
    found = histogram_of(array)
    assert found.total == array.size
    assert found.counts.tolist() == counted_by_hand(array, found).tolist()


@given(values=ARRAYS, power=st.integers(-6, 6))
@settings(max_examples=50, deadline=None)
def test_scaling_by_a_power_of_two_is_exact(values: np.ndarray, power: int) -> None:
    if values.size and np.abs(values).max() > 1e-20:
        assert histogram_of(values).scaled(power) == histogram_of(values * np.float32(2.0**power))


@given(values=ARRAYS)
@settings(max_examples=50, deadline=None)
def test_survives_json(values: np.ndarray) -> None:
    found = histogram_of(values)
    assert histogram_from_json(found.to_json()) == found


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_refuses_what_has_no_bin(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        histogram_of(np.array([1.0, value], np.float32))


def test_more_values_than_a_chunk() -> None:
    values = np.random.default_rng(0).normal(size=(3, 100_000)).astype(np.float32)
    found = histogram_of(values)
    assert found.counts.tolist() == counted_by_hand(values, found).tolist()


@given(parts=st.lists(ARRAYS, min_size=1, max_size=5), cut=st.integers(0, 5))
@settings(max_examples=200, deadline=None)
def test_counting_part_by_part_is_counting_the_whole_and_goes_on_from_a_histogram(
    parts: list[np.ndarray], cut: int
) -> None:
    """Bins widen as larger values come; a counter that starts from what another one saw goes on as that one would."""
    counter, space = HistogramCounter(), Workspace()
    for number, part in enumerate(p for p in parts if p.size):
        if number == cut:
            counter = HistogramCounter(counter.histogram)
        counter.add(part, float(part.min()), float(part.max()), space)
    assert counter.histogram == histogram_of(np.concatenate(parts))


@pytest.mark.parametrize("small", [1e-44, -1e-44, 1e-3, -1e-3])
def test_bins_widen_as_far_as_float32_reaches(small: float) -> None:
    counter, space = HistogramCounter(), Workspace()
    values = np.array([small, 0.0, 3e38, -2.0], np.float32)
    for value in values:
        counter.add(value.reshape(1), float(value), float(value), space)
    assert counter.histogram == histogram_of(values)
    assert counter.histogram.counts.tolist() == counted_by_hand(values, counter.histogram).tolist()
