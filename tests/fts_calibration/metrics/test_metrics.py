"""Each metric against values worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fts_calibration.metrics.cosine import cosine_similarity
from fts_calibration.metrics.psnr import CEILING_DB, psnr_db
from fts_calibration.metrics.sqnr import sqnr_db
from fts_calibration.metrics.ssim import ssim


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_psnr_by_hand():
    # rms of (1, -1, 1, -1) is 1; peak 10: 20 dB.
    assert psnr_db(f32(0, 0, 0, 0), f32(1, -1, 1, -1), 10.0) == pytest.approx(20.0)
    # uint8 does not wrap: 250 against 5 is 245.
    assert psnr_db(np.uint8([250]), np.uint8([5]), 255.0) == pytest.approx(20 * math.log10(255 / 245))


def test_psnr_ends():
    assert psnr_db(f32(1, 2), f32(1, 2), 1.0) == CEILING_DB
    assert psnr_db(f32(1, 2), f32(1, np.nan), 1.0) == -CEILING_DB
    assert psnr_db(f32(1, 2), f32(1, np.inf), 1.0) == -CEILING_DB
    assert psnr_db(f32(0), f32(1e-30), 1.0) == CEILING_DB
    assert psnr_db(f32(), f32(), 1.0) == CEILING_DB
    assert psnr_db(f32(1), f32(2), 0.0) == pytest.approx(0.0)  # no range: 1 stands in


def test_sqnr_by_hand():
    # rms(3, 4) = 5 / √2, rms(error) = 0.5 / √2: 20 log10(10) = 20 dB, whatever the peak.
    assert sqnr_db(f32(3, 4), f32(3.3, 4.4), 999.0) == pytest.approx(20.0, abs=1e-5)  # float32 of 3.3 and 4.4
    assert sqnr_db(f32(0, 0), f32(1, 1), 10.0) == pytest.approx(20.0)
    assert sqnr_db(f32(3, 4), f32(np.nan, 4), 1.0) == -CEILING_DB


def test_cosine_by_hand():
    assert cosine_similarity(f32(1, 0), f32(1, 1), 1.0) == pytest.approx(math.sqrt(0.5))
    assert cosine_similarity(f32(1, 2), f32(-2, -4), 1.0) == pytest.approx(-1.0)
    assert cosine_similarity(f32(1, 2), f32(10, 20), 1.0) == pytest.approx(1.0)
    assert cosine_similarity(f32(0, 0), f32(0, 0), 1.0) == 1.0
    assert cosine_similarity(f32(0, 0), f32(1, 0), 1.0) == 0.0
    assert cosine_similarity(f32(1, 2), f32(1, np.nan), 1.0) == -1.0


def test_ssim_of_flat_pictures_by_hand():
    """Without variance SSIM is its luminance term (2 a b + C1) / (a² + b² + C1), C1 = (0.01 L)²."""
    a, b, peak = np.full((1, 3, 16, 16), 0.5), np.full((1, 3, 16, 16), 0.25), 1.0
    c1 = 1e-4
    assert ssim(a, b, peak) == pytest.approx((2 * 0.125 + c1) / (0.25 + 0.0625 + c1))


def test_ssim_knows_equal_inverted_and_broken():
    picture = np.random.default_rng(0).random((1, 3, 32, 32)).astype(np.float32)
    assert ssim(picture, picture, 1.0) == pytest.approx(1.0)
    assert ssim(picture, 1 - picture, 1.0) < -0.5
    broken = picture.copy()
    broken[0, 0, 0, 0] = np.nan
    assert ssim(picture, broken, 1.0) == -1.0


def test_ssim_reads_channels_first_and_last_alike():
    rng = np.random.default_rng(1)
    a, b = rng.random((1, 3, 24, 20)), rng.random((1, 3, 24, 20))
    last = ssim(np.moveaxis(a, 1, -1), np.moveaxis(b, 1, -1), 1.0)
    assert last == pytest.approx(ssim(a, b, 1.0))


@pytest.mark.parametrize("shape", [(7,), (3, 5), (1, 1, 1, 1), (2, 3, 4)])
def test_ssim_takes_any_shape(shape):
    a = np.random.default_rng(2).random(shape)
    assert ssim(a, a, 1.0) == pytest.approx(1.0)
