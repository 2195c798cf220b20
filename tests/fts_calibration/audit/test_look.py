"""A look: the same of a picture as of its tensor, bounded in memory, at any size."""

from __future__ import annotations

import numpy as np
import pytest
from tests.generators.calibration_sets.case import GRAY, IMAGENET, SIGNED, UNIT, tensor
from tests.generators.calibration_sets.good_sets import IMAGENET_BGR
from tests.generators.calibration_sets.scenes import scene

from fts.vocabulary.preprocessing import Preprocessing
from fts_calibration.audit.look import look_at_picture, look_at_tensor

SIDE = 96
FIGURES = ("std", "correlation", "chroma", "orange", "azure", "azure_height", "detail", "clipped_low", "clipped_high")


@pytest.mark.parametrize("pre", [UNIT, SIGNED, IMAGENET, IMAGENET_BGR], ids=["unit", "signed", "imagenet", "bgr"])
def test_a_tensor_looks_like_the_picture_that_it_was_made_of(pre: Preprocessing) -> None:
    square = scene(3, SIDE, SIDE)
    picture = look_at_picture("a", square[..., ::-1], pre, (SIDE, SIDE))
    raw = look_at_tensor("a", tensor(square, pre), pre)
    for figure in FIGURES:
        assert getattr(raw, figure) == pytest.approx(getattr(picture, figure), abs=2e-3), figure
    assert raw.mean_rgb == pytest.approx(picture.mean_rgb, abs=1e-2)
    assert bin(raw.hash ^ picture.hash).count("1") <= 2
    assert np.abs(raw.thumbnail.astype(int) - picture.thumbnail).max() <= 1


def test_colours_are_named_as_the_eye_sees_them() -> None:
    orange = np.full((20, 20, 3), (200, 120, 40), np.uint8)
    look = look_at_picture("a", np.ascontiguousarray(orange[..., ::-1]), Preprocessing(), (16, 16))
    assert (look.orange, look.azure, look.mean_rgb) == (1.0, 0.0, (200.0, 120.0, 40.0))
    assert look.thumbnail[0, 0].tolist() == [200, 120, 40]


@pytest.mark.parametrize("size", [(1, 1), (1, 300), (3000, 2), (7, 9), (700, 500)])
@pytest.mark.parametrize("pre", [UNIT, GRAY], ids=["rgb", "gray"])
def test_every_size_has_a_look_of_finite_figures(size: tuple[int, int], pre: Preprocessing) -> None:
    frame = np.random.default_rng(0).integers(0, 256, (*size, 3), np.uint8)
    look = look_at_picture("a", frame, pre, (64, 64))
    assert all(np.isfinite(getattr(look, figure)) for figure in FIGURES)
    assert look.thumbnail.shape == (16, 16, 3)


@pytest.mark.parametrize("dtype", ["float16", "float64", "uint8"])
@pytest.mark.parametrize("side", [1, 2, 50])
def test_tensors_of_every_type_have_a_look(dtype: str, side: int) -> None:
    values = np.random.default_rng(0).integers(0, 200, (1, 3, side, side)).astype(dtype)
    look = look_at_tensor("a", values, Preprocessing(scale=1.0))
    assert all(np.isfinite(getattr(look, figure)) for figure in FIGURES)
