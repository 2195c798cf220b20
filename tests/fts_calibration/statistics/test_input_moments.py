from __future__ import annotations

import json

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


@pytest.mark.parametrize("cut", [0, 2, 5])
def test_goes_on_from_a_state_as_if_it_had_never_stopped(cut):
    rng = np.random.default_rng(1)
    feeds = [{"x": rng.normal(size=(1, 3, 5, 4)).astype(np.float32)} for _ in range(5)]
    whole, first, second = (InputMoments({"x": 1}) for _ in range(3))
    list(whole.tap(feeds))
    list(first.tap(feeds[:cut]))
    second.resume(json.loads(json.dumps(first.state())))
    list(second.tap(feeds[cut:]))
    assert second.to_json() == whole.to_json()
