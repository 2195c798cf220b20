from __future__ import annotations

import numpy as np
import pytest

from fts_calibration.statistics.input_moments import InputMoments


@pytest.mark.parametrize("axis", [1, 3])
def test_equals_numpy_channel_by_channel(axis):
    rng = np.random.default_rng(0)
    feeds = [{"x": np.moveaxis(rng.normal(3, 2, (1, 3, 5, 4)), 1, axis).astype(np.float32)} for _ in range(4)]
    moments = InputMoments({"x": axis})
    assert len(list(moments.tap(feeds))) == 4
    found = moments.to_json()["x"]
    planes = np.concatenate([np.moveaxis(f["x"].astype(np.float64), axis, 0).reshape(3, -1) for f in feeds], axis=1)
    np.testing.assert_allclose(found["mean"], planes.mean(1), rtol=1e-12)  # float64 sums in another order
    np.testing.assert_allclose(found["std"], planes.std(1), rtol=1e-9)  # E[x²] − E[x]² loses digits to the mean
    assert found["low"] == planes.min(1).tolist()
    assert found["high"] == planes.max(1).tolist()


def test_feeds_pass_unchanged_and_other_inputs_are_not_watched():
    feeds = [{"x": np.ones((1, 3, 2, 2), np.float32), "age": np.ones(1)}]
    moments = InputMoments({"x": 1})
    assert list(moments.tap(feeds)) == feeds
    assert set(moments.to_json()) == {"x"}
