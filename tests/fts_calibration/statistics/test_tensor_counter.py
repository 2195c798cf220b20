"""One pass over memory gives what plain numpy gives in many."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fts_calibration.statistics import tensor_counter
from fts_calibration.statistics.histogram import Workspace, histogram_of
from fts_calibration.statistics.tensor_counter import TensorCounter

SHAPES = [(), (7,), (2, 5), (1, 3, 4, 5), (3, 4, 6), (2, 3, 40), (1, 6, 1, 1), (4, 1, 2, 2), (0, 3), (1, 0, 4)]


@given(
    shape=st.sampled_from(SHAPES),
    samples=st.integers(1, 4),
    seed=st.integers(0, 2**32 - 1),
    spread=st.sampled_from([1e-30, 1.0, 300.0, 1e6]),
    lift=st.sampled_from([0.0, 4.0]),
    is_rectified=st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_equals_numpy_for_any_shape(
    shape: tuple[int, ...], samples: int, seed: int, spread: float, lift: float, is_rectified: bool
) -> None:
    rng = np.random.default_rng(seed)
    arrays = [((rng.normal(size=shape) + lift) * spread * 10.0**i).astype(np.float32) for i in range(samples)]
    arrays = [np.maximum(a, 0) if is_rectified else np.asarray(a) for a in arrays]
    whole = np.stack(arrays)
    counter, space = TensorCounter(by_channel=True), Workspace()
    bounds = [counter.add(array, space) for array in arrays]
    assert counter.histogram == histogram_of(whole)
    assert bounds == [(float(a.min(initial=np.inf)), float(a.max(initial=-np.inf))) for a in arrays]
    if len(shape) < 2 or not whole.size:
        assert counter.channels == ()
        return
    planes = np.moveaxis(whole, 2, 0).reshape(shape[1], -1)
    assert counter.channels == tuple(zip(planes.min(axis=1).tolist(), planes.max(axis=1).tolist(), strict=True))


@pytest.mark.parametrize("shape", [(2, 3, 50), (1, 20, 3), (1, 2, 7, 9), (300,)])
def test_blocks_of_any_size_give_the_same(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows longer than a block are cut, shorter ones are counted together."""
    array = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    found = []
    for chunk in (1 << 17, 64, 16):
        monkeypatch.setattr(tensor_counter, "CHUNK", chunk)
        counter = TensorCounter(by_channel=True)
        found.append((counter.add(array, Workspace()), counter.histogram.to_json(), counter.channels))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 31, 59])
def test_refuses_what_has_no_bin_wherever_it_is(value: float, place: int) -> None:
    array = np.zeros((1, 3, 4, 5), np.float32)
    array.reshape(-1)[place] = value
    with pytest.raises(ValueError, match="finite"):
        TensorCounter(by_channel=True).add(array, Workspace())
