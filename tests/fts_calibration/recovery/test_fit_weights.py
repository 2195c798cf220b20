"""Fitted weights against plain rounding, against every possibility, and against what was asked for."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from fts_calibration.recovery.fit_weights import DAMPING, fit_weights, shrunk, target_weights
from fts_calibration.recovery.moments import MomentsSum

ROWS = 4000


def rows(groups: int, k: int, seed: int, common: float = 1.0) -> np.ndarray:
    """Rows whose products have a common part: what makes rounding errors add up or cancel."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(groups, ROWS, 1)) * common
    return (rng.normal(size=(groups, ROWS, k)) + shared).astype(np.float32)


def covariance(x: np.ndarray) -> np.ndarray:
    sums = MomentsSum(with_products=True)
    sums.add(x, x[:, :, :1])
    return sums.moments().centred()[0]


@pytest.mark.parametrize(("groups", "m", "k"), [(1, 6, 40), (8, 1, 9), (2, 3, 150), (1, 4, 300)])
@pytest.mark.parametrize("seed", range(3))
def test_never_worse_than_plain_rounding(groups, m, k, seed):
    h = covariance(rows(groups, k, seed))
    target = np.random.default_rng(seed).normal(size=(groups, m, k))
    found = fit_weights(target, h, ROWS, 7)
    assert (found.error <= found.nearest_error * (1 + 1e-6)).all()
    assert found.error.sum() < 0.85 * found.nearest_error.sum()
    assert (np.abs(found.integers) <= 7).all()
    assert (found.integers == np.rint(found.integers)).all()
    damped = shrunk(h, ROWS)[0]
    damped += DAMPING * np.trace(damped, axis1=1, axis2=2)[:, None, None] / k * np.eye(k)
    off = found.integers * found.scales.astype(np.float64)[..., None] - target
    np.testing.assert_allclose(found.error, np.einsum("gmk,gkl,gml->gm", off, damped, off), rtol=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_near_the_best_of_all_integers(seed):
    """For its own scales, within 5 % of the best of 5^5 possibilities: descent ends where no single step helps."""
    h = covariance(rows(1, 5, seed))
    target = np.random.default_rng(seed).normal(size=(1, 1, 5))
    found = fit_weights(target, h, ROWS, 2)
    every = np.array(list(product(range(-2, 3), repeat=5)), np.float64)
    damped = shrunk(h, ROWS)[0][0]
    damped += DAMPING * np.trace(damped) / 5 * np.eye(5)
    off = every * float(found.scales[0, 0]) - target[0]
    best = np.einsum("nk,kl,nl->n", off, damped, off).min()
    assert best * (1 - 1e-9) <= found.error[0, 0] <= 1.05 * best


def test_uncorrelated_products_are_rounded_to_the_nearest():
    h = np.eye(20)[None] * 2.0
    target = np.random.default_rng(0).normal(size=(1, 3, 20))
    found = fit_weights(target, h, ROWS, 63)
    scales = found.scales.astype(np.float64)[..., None]
    np.testing.assert_array_equal(found.integers, np.clip(np.rint(target / scales), -63, 63))


def test_a_channel_of_zeros_stays_zero():
    found = fit_weights(np.zeros((1, 2, 5)), covariance(rows(1, 5, 0)), ROWS, 63)
    assert not found.integers.any()
    assert (found.scales > 0).all()


def test_products_that_are_always_zero_do_no_harm():
    x = rows(1, 10, 0)
    x[:, :, 3:6] = 0
    found = fit_weights(np.random.default_rng(1).normal(size=(1, 4, 10)), covariance(x), ROWS, 63)
    assert np.isfinite(found.error).all()


def test_target_is_what_the_rows_ask_for():
    """x arrives at 0.8 of its size: the weights that give y anyway are 1.25 times as great, but for the ridge."""
    x, w = rows(1, 6, 0), np.random.default_rng(2).normal(size=(1, 3, 6))
    sums = MomentsSum(with_products=True)
    sums.add(x * np.float32(0.8), (x @ w.transpose(0, 2, 1)).astype(np.float32))
    moments = sums.moments()
    target = target_weights(w, *moments.centred(), ROWS, ridge=1e-6)
    np.testing.assert_allclose(target, 1.25 * w, rtol=0.01, atol=0.01)


def test_few_rows_move_weights_little():
    """Noise instead of an answer: over 20 rows of 200 products the target stays at the weights."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=(1, 3, 200))
    sums = MomentsSum(with_products=True)
    x = rng.normal(size=(1, 20, 200)).astype(np.float32)
    sums.add(x, (x @ w.transpose(0, 2, 1) + rng.normal(size=(1, 20, 3))).astype(np.float32))
    moments = sums.moments()
    assert np.abs(target_weights(w, *moments.centred(), 20) - w).mean() < 0.05


def test_equal_inputs_give_equal_bytes():
    h = covariance(rows(1, 130, 0))
    target = np.random.default_rng(3).normal(size=(1, 5, 130))
    one, two = (fit_weights(target, h, ROWS, 63) for _ in range(2))
    assert one.integers.tobytes() == two.integers.tobytes()
    assert one.scales.tobytes() == two.scales.tobytes()
