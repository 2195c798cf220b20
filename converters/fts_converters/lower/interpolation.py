"""Resize along one axis as a matrix: row o holds the weights of the input samples that output sample o is made of.

The formulas are those of the operator specification, in float64: first the place x that an output sample lies at in the
input (`places`), then the weights of its neighbours. Samples outside the input are those at its edge, unless
exclude_outside drops them and the rest is scaled up.

Source: ONNX operator specification, Resize (versions 11 to 19) and its reference implementation; cubic: R. Keys, "Cubic
convolution interpolation for digital image processing", IEEE Trans. ASSP 29 (1981), eqs. (4), (15).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisResize:
    """How one axis is resized.

    Attributes:
        size_in: Samples before.
        size_out: Samples behind.
        scale: size_out / size_in, or as the node says.
        coordinates: coordinate_transformation_mode.
        roi: Begin and end of the region, in units of the axis; used by tf_crop_and_resize.
    """

    size_in: int
    size_out: int
    scale: float
    coordinates: str
    roi: tuple[float, float]

    @property
    def is_unchanged(self) -> bool:
        """Every output sample is the input sample of its own number."""
        return self.size_in == self.size_out and np.array_equal(self.places(), np.arange(self.size_in))

    def places(self, dtype: type[Any] = np.float64) -> npt.NDArray[Any]:
        """Place of each output sample in the input, in samples, (size_out,)."""
        o = np.arange(self.size_out, dtype=dtype)
        n, m, scale, half = dtype(self.size_in), dtype(self.size_out), dtype(self.scale), dtype(0.5)
        place: npt.NDArray[Any] = (o + half) / scale - half
        if self.coordinates == "align_corners":
            place = o * (n - 1) / (m - 1) if self.size_out > 1 else o
        elif self.coordinates == "asymmetric":
            place = o / scale
        elif self.coordinates == "tf_crop_and_resize":
            begin, end = dtype(self.roi[0]), dtype(self.roi[1])
            if self.size_out > 1:
                place = begin * (n - 1) + o * (end - begin) * (n - 1) / (m - 1)
            else:
                place = np.full(1, half * (begin + end) * (n - 1))
        elif self.coordinates == "pytorch_half_pixel" and self.size_out == 1:
            place = np.zeros(1, dtype)
        elif self.coordinates == "tf_half_pixel_for_nn":
            place = (o + half) / scale
        elif self.coordinates == "half_pixel_symmetric":
            place = place + n / 2 * (1 - m / (scale * n))
        return place

    def outside(self) -> npt.NDArray[np.bool_]:
        """Output samples that get the extrapolation value, (size_out,)."""
        if self.coordinates != "tf_crop_and_resize":
            return np.zeros(self.size_out, bool)
        x = self.places(np.float32)
        return (x < 0) | (x > self.size_in - 1)


def nearest_places(axis: AxisResize, rounding: str) -> npt.NDArray[np.int64] | None:
    """Input sample of each output sample, (size_out,); None where float32 and float64 do not agree."""
    found = []
    for dtype in (np.float32, np.float64):
        x = axis.places(dtype)
        rounded = {
            "floor": np.floor(x),
            "ceil": np.ceil(x),
            "round_prefer_floor": np.ceil(x - 0.5),
            "round_prefer_ceil": np.floor(x + 0.5),
        }[rounding]
        found.append(np.clip(rounded, 0, axis.size_in - 1).astype(np.int64))
    return found[0] if np.array_equal(*found) else None


def linear_matrix(axis: AxisResize, *, antialias: bool) -> Matrix:
    """(size_out, size_in)."""
    return _matrix(axis, _triangle, 1, antialias=antialias, exclude_outside=False)


def cubic_matrix(axis: AxisResize, *, a: float, antialias: bool, exclude_outside: bool) -> Matrix:
    """(size_out, size_in); `a` is cubic_coeff_a."""

    def kernel(d: Vector) -> Vector:
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        return np.where(d < 1, near, np.where(d < 2, far, 0.0))

    return _matrix(axis, kernel, 2, antialias=antialias, exclude_outside=exclude_outside)


def _triangle(d: Vector) -> Vector:
    return np.clip(1 - d, 0, None)


def _matrix(
    axis: AxisResize,
    kernel: Callable[[Vector], Vector],
    reach: int,
    *,
    antialias: bool,
    exclude_outside: bool,
) -> Matrix:
    """Weights kernel(|i - x| * f) with f = min(1, scale) when antialiased, else 1, rows scaled to a sum of 1."""
    matrix = np.zeros((axis.size_out, axis.size_in))
    f = min(1.0, axis.scale) if antialias else 1.0
    for o, place in enumerate(axis.places()):
        x = float(place)
        samples = np.arange(math.floor(x - reach / f), math.ceil(x + reach / f) + 1)
        weights = kernel(np.abs(samples - x) * f)
        if exclude_outside:
            weights = np.where((samples >= 0) & (samples < axis.size_in), weights, 0.0)
        np.add.at(matrix[o], np.clip(samples, 0, axis.size_in - 1), weights / weights.sum())
    return matrix
